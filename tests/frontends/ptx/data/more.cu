#include <cuda_fp16.h>
struct Shape { int width; float scale; short kind; double weight; };
__constant__ float table[8] = {1.f, 2.f, 4.f, 8.f, 16.f, 32.f, 64.f, 128.f};
__device__ int counter = 7;
__device__ __noinline__ int pick(int which, int a, int b)
{
    switch (which & 7) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a ^ (b << 3);
    case 4: return min(a, b) * 7;
    case 5: if (a > b) return a / (b | 1); return b % (a | 1);
    default: return a;
    }
}

extern "C" __global__ void dispatch(const int *a, const int *b, int *out, Shape shape)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int held[8];
    for (int k = 0; k < 8; ++k)
        held[k] = a[i] + k * shape.width;
    int chosen = held[b[i] & 7];
    int result = pick(b[i], chosen, a[i]);
    result += (int)(table[i & 7] * shape.scale) + (int)(shape.weight * shape.kind);
    atomicAdd(&counter, 1);
    out[i] = result + __popc(__ballot_sync(__activemask(), result & 1));
}

extern "C" __global__ void halves(const __half *a, const __half2 *b, __half2 *out, float *sums)
{
    extern __shared__ float dynamic[];
    int i = threadIdx.x;
    __half2 v = __hfma2(__half2half2(a[i]), b[i], __float2half2_rn(0.25f));
    out[i] = v;
    float x = __low2float(v) - __high2float(v);
    for (int d = 16; d > 0; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    dynamic[i] = x;
    __syncthreads();
    sums[i] = dynamic[blockDim.x - 1 - i] / 3.0f + sqrtf(fabsf(x));
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n, unsigned long long *total)
{
    __shared__ unsigned local_bins[16];
    if (threadIdx.x < 16)
        local_bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        atomicAdd(&local_bins[in[i] & 15], 1u);
        atomicMax(total, (unsigned long long)in[i] * in[i]);
    }
    __syncthreads();
    if (threadIdx.x < 16)
        atomicAdd(&bins[threadIdx.x], local_bins[threadIdx.x]);
}
