// Two kinds of samples in turn, each with its own iteration. The fault: even and odd lanes part, and a warp runs both
// iterations. The cure: a warp takes 32 samples of one kind.
__device__ float relaxed(float x, int steps)
{
    float y = 1.0f;
    for (int step = 0; step < steps; ++step)
        y = 0.5f * y + 0.25f * x * (3.0f - y * y);
    return y;
}

__device__ float damped(float x, int steps)
{
    float position = x, speed = 0.0f;
    for (int step = 0; step < steps; ++step) {
        speed = 0.98f * speed - 0.05f * position;
        position += 0.05f * speed;
    }
    return position;
}

__device__ void process(int i, int steps, const float *in, float *out)
{
    if (i % 2 == 0)
        out[i] = relaxed(in[i], steps);
    else
        out[i] = damped(in[i], steps);
}

extern "C" __global__ void fault(int steps, const float *in, float *out)
{
    process(blockIdx.x * blockDim.x + threadIdx.x, steps, in, out);
}

extern "C" __global__ void cure(int steps, const float *in, float *out)
{
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    process(warp / 2 * 64 + 2 * lane + warp % 2, steps, in, out);
}
