// The fault: neighbouring lanes write one column of the result, a row apart: 32 sectors with 4 bytes each.
// The cure: a tile of shared memory turns the data, and lanes write along rows.
constexpr int kTile = 32, kRows = 8;

extern "C" __global__ void fault(int n, const float *in, float *out)
{
    int column = blockIdx.x * kTile + threadIdx.x;
    int row = blockIdx.y * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows)
        out[column * n + row + j] = in[(row + j) * n + column];
}

extern "C" __global__ void cure(int n, const float *in, float *out)
{
    __shared__ float tile[kTile][kTile + 1];
    int column = blockIdx.x * kTile, row = blockIdx.y * kTile;
    for (int j = threadIdx.y; j < kTile; j += kRows)
        tile[j][threadIdx.x] = in[(row + j) * n + column + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += kRows)
        out[(column + j) * n + row + threadIdx.x] = tile[threadIdx.x][j];
}
