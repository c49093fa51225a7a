// A sum of oscillators whose phases stay within a turn. The fault: sinf and cosf reduce any argument with care.
// The cure: __sinf and __cosf, which are exact enough within a turn.
extern "C" __global__ void fault(int partials, const float *phase, const float *gain, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float angle = phase[i], sum = 0.0f;
    for (int k = 0; k < partials; ++k) {
        float part = angle * gain[k];
        sum += gain[k] * sinf(part) + 0.5f * cosf(part);
    }
    out[i] = sum;
}

extern "C" __global__ void cure(int partials, const float *phase, const float *gain, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float angle = phase[i], sum = 0.0f;
    for (int k = 0; k < partials; ++k) {
        float part = angle * gain[k];
        sum += gain[k] * __sinf(part) + 0.5f * __cosf(part);
    }
    out[i] = sum;
}
