// Centres each chunk of 256 samples at its mean. The fault: thread 0 adds up the chunk while seven warps wait at the
// barrier. The cure: every warp adds up its own samples with shuffles.
constexpr int kThreads = 256;

extern "C" __global__ void fault(int chunks, const float *in, float *out)
{
    __shared__ float samples[kThreads];
    __shared__ float mean;
    for (int chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        float sample = in[chunk * kThreads + threadIdx.x];
        samples[threadIdx.x] = sample;
        __syncthreads();
        if (threadIdx.x == 0) {
            float sum = 0.0f;
            for (int i = 0; i < kThreads; ++i)
                sum += samples[i];
            mean = sum / kThreads;
        }
        __syncthreads();
        out[chunk * kThreads + threadIdx.x] = sample - mean;
    }
}

extern "C" __global__ void cure(int chunks, const float *in, float *out)
{
    __shared__ float of_warp[kThreads / 32];
    for (int chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        float sample = in[chunk * kThreads + threadIdx.x], sum = sample;
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, distance);
        if (threadIdx.x % 32 == 0)
            of_warp[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0.0f;
        for (int i = 0; i < kThreads / 32; ++i)
            sum += of_warp[i];
        __syncthreads();
        out[chunk * kThreads + threadIdx.x] = sample - sum / kThreads;
    }
}
