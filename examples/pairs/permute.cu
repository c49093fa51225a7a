// out[n][h][c][w] = in[n][c][h][w]. The fault: divisions and remainders by run-time extents for each element.
// The cure: the grid carries the outer indices, and a loop runs over the inner one.
extern "C" __global__ void fault(int channels, int height, int width, int count, const float *in, float *out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int w = i % width, h = i / width % height, c = i / (width * height) % channels;
        int n = i / (width * height * channels);
        out[((n * height + h) * channels + c) * width + w] = in[i];
    }
}

extern "C" __global__ void cure(int channels, int height, int width, int count, const float *in, float *out)
{
    int h = blockIdx.x * blockDim.y + threadIdx.y, c = blockIdx.y, n = blockIdx.z;
    if (h >= height)
        return;
    const float *from = in + ((n * channels + c) * height + h) * width;
    float *to = out + ((n * height + h) * channels + c) * width;
    for (int w = threadIdx.x; w < width; w += blockDim.x)
        to[w] = from[w];
}
