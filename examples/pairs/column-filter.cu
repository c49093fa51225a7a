// A vertical filter of 65 taps, four columns per thread. The fault: a block is one long row, whose 65 rows of input
// exceed the L1, and no neighbour reuses them. The cure: a block of 32 columns and 64 rows shares 128 rows of 128 bytes.
constexpr int kRadius = 32;
__constant__ float taps[2 * kRadius + 1];

__device__ void filter(int quads, int x, int y, const float4 *in, float4 *out)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 5
    for (int k = 0; k <= 2 * kRadius; ++k) {
        float4 pixels = in[(y + k) * quads + x];
        sum.x += taps[k] * pixels.x;
        sum.y += taps[k] * pixels.y;
        sum.z += taps[k] * pixels.z;
        sum.w += taps[k] * pixels.w;
    }
    out[y * quads + x] = sum;
}

extern "C" __global__ void fault(int quads, int height, const float4 *in, float4 *out)
{
    filter(quads, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y, in, out);
}

extern "C" __global__ void cure(int quads, int height, const float4 *in, float4 *out)
{
    filter(quads, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y, in, out);
}
