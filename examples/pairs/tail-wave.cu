// Lifting steps on segments that fill an SM's shared memory. The fault: 133 segments on 132 SMs, so the last one
// runs alone. The cure: longer segments, one for each SM.
__device__ void lift(int count, int segment, int passes, const float *in, float *out)
{
    extern __shared__ float samples[];
    int first = blockIdx.x * segment, length = min(segment, count - first);
    for (int i = threadIdx.x; i < length; i += blockDim.x)
        samples[i] = in[first + i];
    for (int pass = 0; pass < passes; ++pass) {
        __syncthreads();
        for (int i = 2 * threadIdx.x + pass % 2; i + 1 < length; i += 2 * blockDim.x) {
            float mean = 0.5f * (samples[i] + samples[i + 1]), half = 0.25f * (samples[i] - samples[i + 1]);
            samples[i] = mean + half;
            samples[i + 1] = mean - half;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < length; i += blockDim.x)
        out[first + i] = samples[i];
}

extern "C" __global__ void fault(int count, int segment, int passes, const float *in, float *out)
{
    lift(count, segment, passes, in, out);
}

extern "C" __global__ void cure(int count, int segment, int passes, const float *in, float *out)
{
    lift(count, segment, passes, in, out);
}
