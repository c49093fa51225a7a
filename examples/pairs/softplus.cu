// Repeated softplus with a quotient. The fault: expf, logf and a division, all rounded with care.
// The cure: the fast forms, which the special function unit does.
extern "C" __global__ void fault(int rounds, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int round = 0; round < rounds; ++round) {
        float e = expf(-x);
        x = logf(1.0f + e) + x / (1.0f + e);
    }
    out[i] = x;
}

extern "C" __global__ void cure(int rounds, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int round = 0; round < rounds; ++round) {
        float e = __expf(-x);
        x = __logf(1.0f + e) + __fdividef(x, 1.0f + e);
    }
    out[i] = x;
}
