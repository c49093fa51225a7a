// Chebyshev polynomials, of degree 2 (i % 32) + 1 for sample i. The fault: the lanes of a warp have all degrees, and
// wait for the highest. The cure: a warp takes samples of one degree.
__device__ float chebyshev(int degree, float x)
{
    float before = 1.0f, now = x;
#pragma unroll 1
    for (int k = 0; k < degree; ++k) {
        float next = 2.0f * x * now - before;
        before = now;
        now = next;
    }
    return before;
}

__device__ void evaluate(int i, int points, const float *in, float *out)
{
    float x = in[i], sum = 0.0f;
#pragma unroll 1
    for (int point = 1; point <= points; ++point)
        sum += chebyshev(2 * (i % 32) + 1, x / point);
    out[i] = sum;
}

extern "C" __global__ void fault(int points, const float *in, float *out)
{
    evaluate(blockIdx.x * 1024 + threadIdx.x, points, in, out);
}

extern "C" __global__ void cure(int points, const float *in, float *out)
{
    evaluate(blockIdx.x * 1024 + threadIdx.x % 32 * 32 + threadIdx.x / 32, points, in, out);
}
