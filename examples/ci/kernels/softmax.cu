// Softmax of each row of a matrix with 2048 columns: a block of 256 threads per row, 8 values per thread.
constexpr int kThreads = 256;
constexpr int kValues = 8;

template <typename Combine>
__device__ float combine_block(float value, float *parts, Combine combine)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % (kThreads / 32)];
    for (int offset = kThreads / 64; offset > 0; offset /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();
    return value;
}

extern "C" __global__ void softmax(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float parts[kThreads / 32];
    long long first = (long long)blockIdx.x * kThreads * kValues + threadIdx.x;
    float mine[kValues];
    float most = -3.4e38f;
#pragma unroll
    for (int k = 0; k < kValues; ++k) {
        mine[k] = in[first + k * kThreads];
        most = fmaxf(most, mine[k]);
    }
    most = combine_block(most, parts, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kValues; ++k) {
        mine[k] = __expf(mine[k] - most);
        sum += mine[k];
    }
    sum = combine_block(sum, parts, [](float a, float b) { return a + b; });
#pragma unroll
    for (int k = 0; k < kValues; ++k)
        out[first + k * kThreads] = mine[k] / sum;
}
