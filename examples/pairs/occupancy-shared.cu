// A table of 48 KiB, looked up in shared memory. The fault: every block of 128 threads has a table, so 16 warps fit
// on an SM. The cure: blocks of 512 threads, four times the warps for the same shared memory.
constexpr int kEntries = 12288;

__device__ void look_up(int count, const float *table, const unsigned short *index, float *out)
{
    __shared__ float own[kEntries];
    for (int k = threadIdx.x; k < kEntries; k += blockDim.x)
        own[k] = table[k];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = own[index[i]];
}

extern "C" __global__ void fault(int count, const float *table, const unsigned short *index, float *out)
{
    look_up(count, table, index, out);
}

extern "C" __global__ void cure(int count, const float *table, const unsigned short *index, float *out)
{
    look_up(count, table, index, out);
}
