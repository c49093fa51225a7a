// A lower triangular matrix times a vector, a warp per row. The fault: a block takes neighbouring rows, so the last
// blocks have the longest. The cure: rows are dealt out in turn.
__device__ void row_product(int row, int n, const float *matrix, const float *x, float *y)
{
    int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int column = lane; column <= row; column += 32)
        sum += matrix[(long long)row * n + column] * x[column];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (lane == 0)
        y[row] = sum;
}

extern "C" __global__ void fault(int n, const float *matrix, const float *x, float *y)
{
    int rows = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * rows;
    for (int row = first + threadIdx.x / 32; row < min(n, first + rows); row += blockDim.x / 32)
        row_product(row, n, matrix, x, y);
}

extern "C" __global__ void cure(int n, const float *matrix, const float *x, float *y)
{
    for (int row = blockIdx.x + threadIdx.x / 32 * gridDim.x; row < n; row += gridDim.x * (blockDim.x / 32))
        row_product(row, n, matrix, x, y);
}
