// c = a bᵀ of half-precision matrices, summed in single precision, in tiles of 64 x 64. The fault: the tiles are
// converted and multiplied by FFMA. The cure: tensor cores multiply them as they are (mma.sync).
constexpr int kTile = 64, kStep = 32;
typedef unsigned short Half;

__device__ float to_float(Half half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

extern "C" __global__ void fault(int columns, int inner, const Half *a, const Half *b, float *c)
{
    __shared__ __align__(16) float tile_a[kStep][kTile + 4], tile_b[kStep][kTile + 4];
    int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    a += blockIdx.y * kTile * inner;
    b += blockIdx.x * kTile * inner;
    float sums[4][4] = {};
    for (int start = 0; start < inner; start += kStep) {
#pragma unroll
        for (int t = threadIdx.x; t < kTile * kStep; t += 256) {
            int row = t / kStep, k = t % kStep;
            tile_a[k][row] = to_float(a[row * inner + start + k]);
            tile_b[k][row] = to_float(b[row * inner + start + k]);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
            float4 p = *reinterpret_cast<float4 *>(&tile_a[k][y]), q = *reinterpret_cast<float4 *>(&tile_b[k][x]);
            float left[4] = {p.x, p.y, p.z, p.w}, right[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float4 *>(&c[(blockIdx.y * kTile + y + i) * columns + blockIdx.x * kTile + x]) =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

__device__ unsigned two_halves(const Half *place) { return *reinterpret_cast<const unsigned *>(place); }

// Eight warps, each with 16 x 32 results: four products of 16 x 8 x 16 for each half of a step.
extern "C" __global__ void cure(int columns, int inner, const Half *a, const Half *b, float *c)
{
    constexpr int kStride = kStep + 8;  // padded against bank conflicts, rows still aligned to 16 bytes
    __shared__ __align__(16) Half tile_a[kTile][kStride], tile_b[kTile][kStride];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, member = lane % 4;
    int warp_row = warp / 2 * 16, warp_column = warp % 2 * 32;
    a += blockIdx.y * kTile * inner;
    b += blockIdx.x * kTile * inner;
    int row = threadIdx.x / 4, k_to_load = threadIdx.x % 4 * 8;
    float sums[4][4] = {};
    for (int start = 0; start < inner; start += kStep) {
        *reinterpret_cast<uint4 *>(&tile_a[row][k_to_load]) =
            *reinterpret_cast<const uint4 *>(a + row * inner + start + k_to_load);
        *reinterpret_cast<uint4 *>(&tile_b[row][k_to_load]) =
            *reinterpret_cast<const uint4 *>(b + row * inner + start + k_to_load);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kStep; k += 16) {
            const Half *place = &tile_a[warp_row + group][k + 2 * member];
            unsigned left[4] = {two_halves(place), two_halves(place + 8 * kStride), two_halves(place + 8),
                                two_halves(place + 8 * kStride + 8)};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const Half *other = &tile_b[warp_column + 8 * j + group][k + 2 * member];
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                    "{%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
                    : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(two_halves(other)),
                      "r"(two_halves(other + 8)));
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float *place = c + (blockIdx.y * kTile + warp_row + group) * columns + blockIdx.x * kTile + warp_column +
                       8 * j + 2 * member;
        *reinterpret_cast<float2 *>(place) = make_float2(sums[j][0], sums[j][1]);
        *reinterpret_cast<float2 *>(place + 8 * columns) = make_float2(sums[j][2], sums[j][3]);
    }
}
