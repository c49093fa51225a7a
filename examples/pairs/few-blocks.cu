// Squared norms of a few long rows. The fault: one block per row leaves most SMs without work.
// The cure: several blocks share a row and add their parts.
__device__ float sum_of_block(float sum)
{
    __shared__ float of_warp[32];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0.0f;
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    return sum;
}

extern "C" __global__ void fault(int columns, const float *matrix, float *norms)
{
    const float *row = matrix + (long long)blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += row[i] * row[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        norms[blockIdx.x] = sum;
}

extern "C" __global__ void cure(int columns, const float *matrix, float *norms)
{
    const float *row = matrix + (long long)blockIdx.y * columns;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += gridDim.x * blockDim.x)
        sum += row[i] * row[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        atomicAdd(&norms[blockIdx.y], sum);
}
