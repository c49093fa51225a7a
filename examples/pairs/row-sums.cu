// Sums of the rows of a matrix. The fault: a thread walks along its own row, so lanes are a row apart.
// The cure: a warp walks along a row together, and adds up its lanes' sums at the end.
extern "C" __global__ void fault(int rows, int columns, const float *matrix, float *sums)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int column = 0; column < columns; ++column)
        sum += matrix[row * columns + column];
    sums[row] = sum;
}

extern "C" __global__ void cure(int rows, int columns, const float *matrix, float *sums)
{
    int lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    for (int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < rows; row += warps) {
        float sum = 0.0f;
        for (int column = lane; column < columns; column += 32)
            sum += matrix[row * columns + column];
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, distance);
        if (lane == 0)
            sums[row] = sum;
    }
}
