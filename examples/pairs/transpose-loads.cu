// The fault: neighbouring lanes read one column, a row apart, so a load touches 32 sectors for 128 bytes.
// The cure: a tile of shared memory turns the data, and lanes read along rows.
constexpr int kTile = 32, kRows = 8;

extern "C" __global__ void fault(int n, const float *in, float *out)
{
    int row = blockIdx.x * kTile + threadIdx.x;
    int column = blockIdx.y * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows)
        out[(column + j) * n + row] = in[row * n + column + j];
}

extern "C" __global__ void cure(int n, const float *in, float *out)
{
    __shared__ float tile[kTile][kTile + 1];
    int row = blockIdx.x * kTile, column = blockIdx.y * kTile;
    for (int j = threadIdx.y; j < kTile; j += kRows)
        tile[j][threadIdx.x] = in[(row + j) * n + column + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += kRows)
        out[(column + j) * n + row + threadIdx.x] = tile[threadIdx.x][j];
}
