// A polynomial of degree 63 at every sample. The fault: the coefficients stay in registers, which leaves room for
// 16 warps per SM. The cure: they are operands in constant memory, and 64 warps hide each other's latency.
constexpr int kTerms = 64;
__constant__ float terms[kTerms];

extern "C" __global__ void fault(int threads, int steps, const float *coefficients, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float c[kTerms];
#pragma unroll
    for (int k = 0; k < kTerms; ++k)
        c[k] = coefficients[k];
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        float x = in[step * threads + i], sum = c[kTerms - 1];
#pragma unroll
        for (int k = kTerms - 2; k >= 0; --k)
            sum = sum * x + c[k];
        out[step * threads + i] = sum;
    }
}

extern "C" __global__ void cure(int threads, int steps, const float *coefficients, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        float x = in[step * threads + i], sum = terms[kTerms - 1];
#pragma unroll
        for (int k = kTerms - 2; k >= 0; --k)
            sum = sum * x + terms[k];
        out[step * threads + i] = sum;
    }
}
