// A transpose through shared memory. The fault: the tile's rows are 32 words, so a column lies in one bank and
// its 32 lanes wait for each other. The cure: columns are permuted by the row (a swizzle), which needs no padding.
constexpr int kTile = 32, kRows = 8;

extern "C" __global__ void fault(int n, const float *in, float *out)
{
    __shared__ float tile[kTile][kTile];
    int column = blockIdx.x * kTile, row = blockIdx.y * kTile;
    for (int j = threadIdx.y; j < kTile; j += kRows)
        tile[j][threadIdx.x] = in[(row + j) * n + column + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += kRows)
        out[(column + j) * n + row + threadIdx.x] = tile[threadIdx.x][j];
}

extern "C" __global__ void cure(int n, const float *in, float *out)
{
    __shared__ float tile[kTile][kTile];
    int column = blockIdx.x * kTile, row = blockIdx.y * kTile;
    for (int j = threadIdx.y; j < kTile; j += kRows)
        tile[j][threadIdx.x ^ j] = in[(row + j) * n + column + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += kRows)
        out[(column + j) * n + row + threadIdx.x] = tile[threadIdx.x][j ^ threadIdx.x];
}
