// A low-pass filter that keeps every second sample. The fault: lanes read shared words two apart, so two lanes
// share each bank. The cure: even and odd samples lie in two halves, and lanes read neighbouring words.
constexpr int kThreads = 256, kTaps = 32;
constexpr int kSamples = 2 * kThreads + kTaps;
__constant__ float taps[kTaps];

extern "C" __global__ void fault(int count, const float *in, float *out)
{
    __shared__ float samples[kSamples];
    int first = 2 * blockIdx.x * kThreads;
    for (int i = threadIdx.x; i < kSamples; i += kThreads)
        samples[i] = in[first + i];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kTaps; ++k)
        sum += taps[k] * samples[2 * threadIdx.x + k];
    int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count)
        out[i] = sum;
}

extern "C" __global__ void cure(int count, const float *in, float *out)
{
    __shared__ float samples[2][kSamples / 2];
    int first = 2 * blockIdx.x * kThreads;
    for (int i = threadIdx.x; i < kSamples; i += kThreads)
        samples[i % 2][i / 2] = in[first + i];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kTaps; ++k)
        sum += taps[k] * samples[k % 2][threadIdx.x + k / 2];
    int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count)
        out[i] = sum;
}
