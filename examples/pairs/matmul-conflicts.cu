// c = a bᵀ in tiles. The fault: lanes read one column of tile_b, whose rows are 16 words: 8 lanes share a bank.
// The cure: a padded row spreads the column over all banks.
constexpr int kTile = 16;

template <int kStride>
__device__ void product(int n, int inner, const float *a, const float *b, float *c)
{
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kStride];
    int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
    int column_to_load = blockIdx.x * kTile + threadIdx.y;
    float sum = 0.0f;
    for (int start = 0; start < inner; start += kTile) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * inner + start + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[column_to_load * inner + start + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < kTile; ++k)
            sum += tile_a[threadIdx.y][k] * tile_b[threadIdx.x][k];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void fault(int n, int inner, const float *a, const float *b, float *c)
{
    product<kTile>(n, inner, a, b, c);
}

extern "C" __global__ void cure(int n, int inner, const float *a, const float *b, float *c)
{
    product<kTile + 1>(n, inner, a, b, c);
}
