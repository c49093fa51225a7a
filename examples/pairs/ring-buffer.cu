// A delay line of run-time length in a ring buffer. The fault: a remainder for each tap.
// The cure: the place runs on and wraps by a comparison.
extern "C" __global__ void fault(int length, int taps, int stride, const float *ring, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = in[i];
#pragma unroll 4
    for (int k = 0; k < taps; ++k)
        sum = 0.75f * sum + ring[(i + k * stride) % length];
    out[i] = sum;
}

extern "C" __global__ void cure(int length, int taps, int stride, const float *ring, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = in[i];
    int place = i % length;
#pragma unroll 4
    for (int k = 0; k < taps; ++k) {
        sum = 0.75f * sum + ring[place];
        place += stride;
        place -= place >= length ? length : 0;
    }
    out[i] = sum;
}
