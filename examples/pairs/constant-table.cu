// Tone curve of an image of bytes. The fault: the table is constant memory, which serves one index of a warp at a
// time. The cure: a copy in shared memory serves 32 banks.
__constant__ float curve[256];

extern "C" __global__ void fault(int count, const unsigned char *in, float *out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = curve[in[i]];
}

extern "C" __global__ void cure(int count, const unsigned char *in, float *out)
{
    __shared__ float own[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x)
        own[k] = curve[k];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = own[in[i]];
}
