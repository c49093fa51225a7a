// points[point][feature] turned into features[feature][point]: reads are a record apart.
extern "C" __global__ void kmeans_invert_mapping(const float* __restrict__ points, float* __restrict__ inverted,
                                                 int count, int features) {
  int point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= count) return;
  for (int f = 0; f < features; ++f) inverted[(long long)f * count + point] = points[(long long)point * features + f];
}

// The nearest of a few centres for each point, from the records as they come.
extern "C" __global__ void kmeans_assign(const float* __restrict__ points, const float* __restrict__ centres,
                                         int* __restrict__ membership, int count, int features, int clusters) {
  int point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= count) return;
  int nearest = -1;
  float smallest = 3.4e38f;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    float distance = 0.0f;
    for (int f = 0; f < features; ++f) {
      float difference = points[(long long)point * features + f] - centres[cluster * features + f];
      distance += difference * difference;
    }
    if (distance < smallest) {
      smallest = distance;
      nearest = cluster;
    }
  }
  membership[point] = nearest;
}
