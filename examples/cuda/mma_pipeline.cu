// C = A Bᵀ in half precision with mma.sync: 64 × 64 tiles, which cp.async brings in two stages ahead.
#include <cuda_fp16.h>

constexpr int TILE = 64, DEPTH = 32, STAGES = 3, ROW = DEPTH + 8;  // rows are padded against bank conflicts

struct Tiles { half a[TILE][ROW], b[TILE][ROW]; };

__device__ unsigned shared_address(const void *place) { return unsigned(__cvta_generic_to_shared(place)); }

// 128 threads copy 64 rows of 64 bytes.
__device__ void copy(half (*tile)[ROW], const half *from, int depth) {
    for (int part = threadIdx.x; part < TILE * 4; part += 128)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"(shared_address(&tile[part / 4][part % 4 * 8])), "l"(from + part / 4 * depth + part % 4 * 8));
}

__device__ void matrices(unsigned (&to)[4], const half *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)));
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128) product(const half *a, const half *b, float *c, int columns, int depth) {
    __shared__ Tiles stages[STAGES];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = depth / DEPTH;
    a += blockIdx.y * TILE * depth;
    b += blockIdx.x * TILE * depth;
    float sum[2][4][4] = {};
    int first_row = warp / 2 * 32, first_column = warp % 2 * 32;
    for (int step = 0; step < steps + STAGES - 1; step++) {
        if (step < steps) {
            Tiles &next = stages[step % STAGES];
            copy(next.a, a + step * DEPTH, depth);
            copy(next.b, b + step * DEPTH, depth);
        }
        asm volatile("cp.async.commit_group;");
        if (step < STAGES - 1) continue;
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1));
        __syncthreads();
        const Tiles &now = stages[(step - STAGES + 1) % STAGES];
        for (int k = 0; k < DEPTH; k += 16) {
            unsigned left[2][4], right[2][4];
            for (int i = 0; i < 2; i++) {
                matrices(left[i], &now.a[first_row + 16 * i + lane % 16][k + lane / 16 * 8]);
                matrices(right[i], &now.b[first_column + 16 * i + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    multiply(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
        __syncthreads();
    }
    c += (blockIdx.y * TILE + first_row + lane / 4) * columns + blockIdx.x * TILE + first_column + lane % 4 * 2;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            *(float2 *)(c + 16 * i * columns + 8 * j) = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2 *)(c + (16 * i + 8) * columns + 8 * j) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}
