// Adds a bias to 16 small batches. The fault: one launch for each batch, which takes longer to launch than to run.
// The cure: one launch for all batches.
extern "C" __global__ void fault(int count, int batch, const float *bias, float *values)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[batch * count + i] += bias[i];
}

extern "C" __global__ void cure(int count, int batches, const float *bias, float *values)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && blockIdx.y < batches)
        values[blockIdx.y * count + i] += bias[i];
}
