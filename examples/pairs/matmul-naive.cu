// c = a b. The fault: every thread loads a row of a and a column of b, two loads for each multiply-add.
// The cure: tiles in shared memory and 2 x 2 results in registers of each thread.
constexpr int kTile = 32, kStep = 32;

extern "C" __global__ void fault(int n, int inner, const float *a, const float *b, float *c)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k)
        sum += a[row * inner + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void cure(int n, int inner, const float *a, const float *b, float *c)
{
    __shared__ float tile_a[kTile][kStep + 1], tile_b[kStep][kTile];
    int column = blockIdx.x * kTile, row = blockIdx.y * kTile;
    float sums[2][2] = {};
    for (int start = 0; start < inner; start += kStep) {
        for (int t = threadIdx.y * 16 + threadIdx.x; t < kTile * kStep; t += 256) {
            tile_a[t / kStep][t % kStep] = a[(row + t / kStep) * inner + start + t % kStep];
            tile_b[t / kTile][t % kTile] = b[(start + t / kTile) * n + column + t % kTile];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
            float upper = tile_a[threadIdx.y][k], lower = tile_a[threadIdx.y + 16][k];
            float left = tile_b[k][threadIdx.x], right = tile_b[k][threadIdx.x + 16];
            sums[0][0] += upper * left;
            sums[0][1] += upper * right;
            sums[1][0] += lower * left;
            sums[1][1] += lower * right;
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            c[(row + threadIdx.y + 16 * i) * n + column + threadIdx.x + 16 * j] = sums[i][j];
}
