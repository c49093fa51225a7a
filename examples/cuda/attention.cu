// Attention in the style of FlashAttention-3: a producer warp loads keys and values with TMA, a warpgroup multiplies with
// wgmma and keeps a running softmax in registers. Heads of 64; 64 queries per block.
#include <cuda_fp16.h>

struct alignas(64) TensorMap { char bytes[128]; };

constexpr int HEAD = 64, QUERIES = 64, KEYS = 64, STAGES = 2;
constexpr int TILE_BYTES = 64 * HEAD * 2;

__device__ unsigned shared_address(const void *place) { return unsigned(__cvta_generic_to_shared(place)); }

__device__ void init(unsigned long long *barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(count));
}

__device__ void wait(unsigned long long *barrier, int parity) {
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }"
                 :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ void expect(unsigned long long *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void load(void *tile, const TensorMap &map, int row, unsigned long long *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2}], [%3];"
                 :: "r"(shared_address(tile)), "l"(&map), "r"(row), "r"(shared_address(barrier)) : "memory");
}

// Rows of 128 bytes, swizzled, in groups of 8.
__device__ unsigned long long descriptor(const void *tile) {
    return (shared_address(tile) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define D8(first) \
    "+f"(d[first]), "+f"(d[first + 1]), "+f"(d[first + 2]), "+f"(d[first + 3]), \
    "+f"(d[first + 4]), "+f"(d[first + 5]), "+f"(d[first + 6]), "+f"(d[first + 7])
#define REGISTERS \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "

// d = a bᵀ + d, a and b in shared memory with their depth contiguous.
__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " REGISTERS "%32, %33, 1, 1, 1, 0, 0;"
                 : D8(0), D8(8), D8(16), D8(24) : "l"(a), "l"(b));
}

// d = a b + d, a in registers, the columns of b contiguous.
__device__ void multiply(float (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " REGISTERS
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : D8(0), D8(8), D8(16), D8(24) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ unsigned packed(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return *(unsigned *)&both;
}

// Over the four lanes that share a row.
__device__ float most(float value) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

__device__ float sum(float value) {
    value += __shfl_xor_sync(~0u, value, 1);
    return value + __shfl_xor_sync(~0u, value, 2);
}

extern "C" __global__ void __launch_bounds__(256) attention(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
    float *out, int length, float scale) {
    extern __shared__ __align__(1024) char tiles[];  // queries, then keys and values of each stage
    __shared__ unsigned long long ready, full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        init(&ready, 1);
        for (int stage = 0; stage < STAGES; stage++) init(&full[stage], 1), init(&empty[stage], 128);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int first = blockIdx.y * length, row = first + blockIdx.x * QUERIES, steps = length / KEYS;
    if (threadIdx.x < 128) {  // the producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            expect(&ready, TILE_BYTES);
            load(tiles, q, row, &ready);
            for (int step = 0; step < steps; step++) {
                int stage = step % STAGES;
                char *tile = tiles + (1 + 2 * stage) * TILE_BYTES;
                wait(&empty[stage], step / STAGES % 2 ^ 1);
                expect(&full[stage], 2 * TILE_BYTES);
                load(tile, k, first + step * KEYS, &full[stage]);
                load(tile + TILE_BYTES, v, first + step * KEYS, &full[stage]);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    float result[32] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    wait(&ready, 0);
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES;
        const char *tile = tiles + (1 + 2 * stage) * TILE_BYTES;
        wait(&full[stage], step / STAGES % 2);
        float score[32] = {};
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int i = 0; i < HEAD / 16; i++) multiply(score, descriptor(tiles) + 2 * i, descriptor(tile) + 2 * i);
        finish_products();
        for (int half = 0; half < 2; half++) {  // the lane's two rows
            float high = largest[half];
            for (int i = 0; i < 8; i++) high = fmaxf(high, fmaxf(score[4 * i + 2 * half], score[4 * i + 2 * half + 1]));
            high = most(high);
            float shrink = exp2f((largest[half] - high) * scale);
            largest[half] = high;
            total[half] *= shrink;
            for (int i = 0; i < 8; i++)
                for (int j = 2 * half; j < 2 * half + 2; j++) {
                    score[4 * i + j] = exp2f((score[4 * i + j] - high) * scale);
                    total[half] += score[4 * i + j];
                    result[4 * i + j] *= shrink;
                }
        }
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int i = 0; i < KEYS / 16; i++) {
            const float *p = score + 8 * i;
            unsigned a[4] = {packed(p[0], p[1]), packed(p[2], p[3]), packed(p[4], p[5]), packed(p[6], p[7])};
            multiply(result, a, descriptor(tile + TILE_BYTES) + 128 * i);
        }
        finish_products();
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(&empty[stage])) : "memory");
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    for (int half = 0; half < 2; half++) {
        float whole = 1 / sum(total[half]);
        float *place = out + (row + warp * 16 + half * 8 + lane / 4) * HEAD + lane % 4 * 2;
        for (int i = 0; i < 8; i++)
            *(float2 *)(place + 8 * i) =
                make_float2(result[4 * i + 2 * half] * whole, result[4 * i + 2 * half + 1] * whole);
    }
}
