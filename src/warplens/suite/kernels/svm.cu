// Decision values of a support vector machine with Gaussian kernel for many windows of an image.
// features[feature][window]; three versions of one computation, in order of tuning.
constexpr int kFeatures = 24;
constexpr int kVectors = 16;

extern "C" __global__ void svm_naive(const float* __restrict__ features, const float* __restrict__ vectors,
                                     const float* __restrict__ weights, float* __restrict__ decision, float gamma,
                                     float bias, int windows) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= windows) return;
  float sum = bias;
  for (int v = 0; v < kVectors; ++v) {
    float distance = 0.0f;
    for (int f = 0; f < kFeatures; ++f) {
      float difference = features[(long long)f * windows + i] - vectors[v * kFeatures + f];
      distance += difference * difference;
    }
    sum += weights[v] * expf(-gamma * distance);
  }
  decision[i] = sum;
}

__constant__ float constant_vectors[kVectors * kFeatures];
__constant__ float constant_weights[kVectors];

// The support vectors, which all threads read alike, come from constant memory.
extern "C" __global__ void svm_constant(const float* __restrict__ features, float* __restrict__ decision,
                                        float gamma, float bias, int windows) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= windows) return;
  float sum = bias;
  for (int v = 0; v < kVectors; ++v) {
    float distance = 0.0f;
    for (int f = 0; f < kFeatures; ++f) {
      float difference = features[(long long)f * windows + i] - constant_vectors[v * kFeatures + f];
      distance += difference * difference;
    }
    sum += constant_weights[v] * expf(-gamma * distance);
  }
  decision[i] = sum;
}

// The features of a window are read once and stay in registers.
extern "C" __global__ void svm_optimised(const float* __restrict__ features, float* __restrict__ decision,
                                         float gamma, float bias, int windows) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= windows) return;
  float mine[kFeatures];
#pragma unroll
  for (int f = 0; f < kFeatures; ++f) mine[f] = features[(long long)f * windows + i];
  float sum = bias;
  for (int v = 0; v < kVectors; ++v) {
    float distance = 0.0f;
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) {
      float difference = mine[f] - constant_vectors[v * kFeatures + f];
      distance += difference * difference;
    }
    sum += constant_weights[v] * __expf(-gamma * distance);
  }
  decision[i] = sum;
}
