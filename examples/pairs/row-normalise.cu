// Rows of 128 KiB to mean 0 and variance 1, in three passes. The fault: small blocks put eight rows on each SM,
// 132 MiB together: more than the L2. The cure: one large block per SM (by the shared memory of its launch), whose
// later passes hit the L2.
__device__ float sum_of_block(float sum)
{
    __shared__ float of_warp[32];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0f;
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    return sum;
}

__device__ void normalise(int quads, const float4 *in, float4 *out)
{
    in += (long long)blockIdx.x * quads;
    out += (long long)blockIdx.x * quads;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 x = in[i];
        sum += x.x + x.y + x.z + x.w;
    }
    float mean = sum_of_block(sum) / (4.0f * quads);
    sum = 0.0f;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 x = in[i];
        x = make_float4(x.x - mean, x.y - mean, x.z - mean, x.w - mean);
        sum += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    float scale = rsqrtf(sum_of_block(sum) / (4.0f * quads));
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 x = in[i];
        out[i] = make_float4((x.x - mean) * scale, (x.y - mean) * scale, (x.z - mean) * scale, (x.w - mean) * scale);
    }
}

extern "C" __global__ void __launch_bounds__(256, 8) fault(int quads, const float4 *in, float4 *out)
{
    normalise(quads, in, out);
}

extern "C" __global__ void __launch_bounds__(1024, 1) cure(int quads, const float4 *in, float4 *out)
{
    normalise(quads, in, out);
}
