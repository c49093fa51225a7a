// Sums of a parabola at points whose distance depends on the thread. The fault: an integer place is converted to
// float at each point. The cure: a float runs along, exact up to 2^24.
__device__ float height(float a, float t) { return t * (a - t); }

extern "C" __global__ void fault(int points, float step, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i], sum = 0.0f;
    for (int k = 0; k < points; ++k)
        sum += height(a, (float)(k * (i & 7)) * step);
    out[i] = sum * step;
}

extern "C" __global__ void cure(int points, float step, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i], sum = 0.0f, place = 0.0f, stride = i & 7;
    for (int k = 0; k < points; ++k) {
        sum += height(a, place * step);
        place += stride;
    }
    out[i] = sum * step;
}
