// A block copies tiles of A and B to shared memory, and each thread makes four elements of C from them:
// a loaded value serves 32 threads, and one read of shared memory several multiply-adds.
#define TILE 32
#define ROWS 4

extern "C" __global__ void matmul(int n, const float *a, const float *b, float *c)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int column = blockIdx.x * TILE + threadIdx.x;
    int first = blockIdx.y * TILE + threadIdx.y;
    float sum[ROWS] = {};
    for (int step = 0; step < n; step += TILE) {
        for (int r = 0; r < TILE; r += TILE / ROWS) {
            a_tile[threadIdx.y + r][threadIdx.x] = a[(first + r) * n + step + threadIdx.x];
            b_tile[threadIdx.y + r][threadIdx.x] = b[(step + threadIdx.y + r) * n + column];
        }
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            float value = b_tile[k][threadIdx.x];
            for (int r = 0; r < ROWS; ++r)
                sum[r] += a_tile[threadIdx.y + r * (TILE / ROWS)][k] * value;
        }
        __syncthreads();
    }
    for (int r = 0; r < ROWS; ++r)
        c[(first + r * (TILE / ROWS)) * n + column] = sum[r];
}
