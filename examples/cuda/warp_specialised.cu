// C = A Bᵀ in half precision: a producer warp fills a ring of tiles with TMA, a warpgroup multiplies them with wgmma.
#include <cuda_fp16.h>

struct alignas(64) TensorMap { char bytes[128]; };

constexpr int ROWS = 64, COLUMNS = 128, DEPTH = 64, STAGES = 4;
constexpr int A_BYTES = ROWS * DEPTH * 2, B_BYTES = COLUMNS * DEPTH * 2;

__device__ unsigned shared_address(const void *place) { return unsigned(__cvta_generic_to_shared(place)); }

__device__ void wait(unsigned long long *barrier, int parity) {
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }"
                 :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ void load(void *tile, const TensorMap &map, int column, int row, unsigned long long *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_address(tile)), "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier)) : "memory");
}

// Rows of 128 bytes, swizzled, in groups of 8.
__device__ unsigned long long descriptor(const void *tile) {
    return (shared_address(tile) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define ACCUMULATORS(first) \
    "+f"(d[first]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]), \
    "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7])

__device__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, 1, 1, 1, 0, 0;"
        : ACCUMULATORS(0), ACCUMULATORS(8), ACCUMULATORS(16), ACCUMULATORS(24),
          ACCUMULATORS(32), ACCUMULATORS(40), ACCUMULATORS(48), ACCUMULATORS(56)
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(256) gemm(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *c, int columns, int depth) {
    extern __shared__ __align__(1024) char tiles[];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&full[stage])));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" :: "r"(shared_address(&empty[stage])));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS, steps = depth / DEPTH;
    if (threadIdx.x < 128) {  // the producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int step = 0; step < steps; step++) {
                int stage = step % STAGES;
                char *tile = tiles + stage * (A_BYTES + B_BYTES);
                wait(&empty[stage], step / STAGES % 2 ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             :: "r"(shared_address(&full[stage])), "r"(A_BYTES + B_BYTES) : "memory");
                load(tile, a, step * DEPTH, row, &full[stage]);
                load(tile + A_BYTES, b, step * DEPTH, column, &full[stage]);
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    float d[64] = {};
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES;
        const char *tile = tiles + stage * (A_BYTES + B_BYTES);
        wait(&full[stage], step / STAGES % 2);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int k = 0; k < DEPTH / 16; k++)
            multiply(d, descriptor(tile) + 2 * k, descriptor(tile + A_BYTES) + 2 * k);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(&empty[stage])) : "memory");
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float *out = c + (row + warp * 16 + lane / 4) * columns + column + lane % 4 * 2;
    for (int j = 0; j < COLUMNS / 8; j++) {
        *(float2 *)(out + j * 8) = make_float2(d[j * 4], d[j * 4 + 1]);
        *(float2 *)(out + 8 * columns + j * 8) = make_float2(d[j * 4 + 2], d[j * 4 + 3]);
    }
}
