// A blur of 15 x 15 pixels; the input has a border. The fault: every output loads its 225 pixels.
// The cure: a thread makes four outputs below each other and loads each pixel of their window once.
constexpr int kSize = 15, kOutputs = 4;
__constant__ float weights[kSize][kSize];

extern "C" __global__ void fault(int width, int height, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int pitch = width + kSize - 1;
    float sum = 0.0f;
    for (int j = 0; j < kSize; ++j)
#pragma unroll
        for (int i = 0; i < kSize; ++i)
            sum += weights[j][i] * in[(y + j) * pitch + x + i];
    out[y * width + x] = sum;
}

extern "C" __global__ void cure(int width, int height, const float *in, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = (blockIdx.y * blockDim.y + threadIdx.y) * kOutputs;
    int pitch = width + kSize - 1;
    float sums[kOutputs] = {};
#pragma unroll
    for (int j = 0; j < kSize + kOutputs - 1; ++j)
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
            float pixel = in[(y + j) * pitch + x + i];
#pragma unroll
            for (int k = 0; k < kOutputs; ++k)
                if (j - k >= 0 && j - k < kSize)
                    sums[k] += weights[j - k][i] * pixel;
        }
    for (int k = 0; k < kOutputs; ++k)
        out[(y + k) * width + x] = sums[k];
}
