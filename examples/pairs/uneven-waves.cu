// Orbits of the logistic map. The fault: one block per piece gives 297 blocks where 264 fit, and the last 33 run in
// a wave of their own. The cure: as many blocks as fit, each with an even share.
__device__ float orbit(float x, int steps)
{
    for (int step = 0; step < steps; ++step)
        x = 2.7f * x * (1.0f - x);
    return x;
}

extern "C" __global__ void __launch_bounds__(1024, 2) fault(int count, int piece, int steps, const float *in, float *out)
{
    int last = min(count, (int)(blockIdx.x + 1) * piece);
    for (int i = blockIdx.x * piece + threadIdx.x; i < last; i += blockDim.x)
        out[i] = orbit(in[i], steps);
}

extern "C" __global__ void __launch_bounds__(1024, 2) cure(int count, int piece, int steps, const float *in, float *out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = orbit(in[i], steps);
}
