// Softmax-like exponentials of an array against its first element. The fault: the loop over the array runs in one
// block, on one SM. The cure: the grid covers the array.
extern "C" __global__ void fault(int count, const float *in, float *out)
{
    float shift = in[0];
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        out[i] = __expf(in[i] - shift);
}

extern "C" __global__ void cure(int count, const float *in, float *out)
{
    float shift = in[0];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = __expf(in[i] - shift);
}
