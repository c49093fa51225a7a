// Horner's rule in four chains. The fault: separate roundings (__fmul_rn, __fadd_rn) keep the compiler from fusing.
// The cure: fmaf.
constexpr int kChains = 4;

extern "C" __global__ void fault(int terms, const float *coefficients, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], sum[kChains] = {1.0f, 2.0f, 3.0f, 4.0f};
    for (int k = 0; k < terms; ++k) {
        float c = coefficients[k];
#pragma unroll
        for (int j = 0; j < kChains; ++j)
            sum[j] = __fadd_rn(__fmul_rn(sum[j], x), c);
    }
    out[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

extern "C" __global__ void cure(int terms, const float *coefficients, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], sum[kChains] = {1.0f, 2.0f, 3.0f, 4.0f};
    for (int k = 0; k < terms; ++k) {
        float c = coefficients[k];
#pragma unroll
        for (int j = 0; j < kChains; ++j)
            sum[j] = fmaf(sum[j], x, c);
    }
    out[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
