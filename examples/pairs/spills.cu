// Covariances of twelve channels: 78 sums per thread. The fault: compiled for 32 registers (-maxrregcount), most sums
// live in local memory. The cure: the same code with the registers that it needs.
constexpr int kChannels = 12;

__device__ void covariances(int threads, int samples, const float *in, float *out)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float sums[kChannels][kChannels] = {};
#pragma unroll 1
    for (int sample = 0; sample < samples; ++sample) {
        float x[kChannels];
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            x[i] = in[(sample * kChannels + i) * threads + thread];
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
#pragma unroll
            for (int j = 0; j <= i; ++j)
                sums[i][j] += x[i] * x[j];
    }
    int place = 0;
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
#pragma unroll
        for (int j = 0; j <= i; ++j)
            out[place++ * threads + thread] = sums[i][j];
}

extern "C" __global__ void fault(int threads, int samples, const float *in, float *out)
{
    covariances(threads, samples, in, out);
}

extern "C" __global__ void cure(int threads, int samples, const float *in, float *out)
{
    covariances(threads, samples, in, out);
}
