// A power law with exponent 3/2, summed over shifts. The fault: powf for any exponent.
// The cure: a product with an approximate square root.
extern "C" __global__ void fault(int shifts, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], sum = 0.0f;
    for (int k = 0; k < shifts; ++k)
        sum += powf(x + 0.125f * k, 1.5f);
    out[i] = sum;
}

extern "C" __global__ void cure(int shifts, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], sum = 0.0f;
    for (int k = 0; k < shifts; ++k) {
        float base = x + 0.125f * k;
        sum += base * base * rsqrtf(base);
    }
    out[i] = sum;
}
