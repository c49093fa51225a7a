// Hopper's own instructions without a library: bulk copies (cp.async.bulk) that fill shared memory behind a barrier in
// memory, and a warpgroup product (wgmma) that reads its operands from there.
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int ROWS = 64, COLUMNS = 64, STEP = 16;

__device__ uint64_t descriptor(const void* tile) {
    // No swizzle: 8 x 8 cores of 128 bytes one after the other.
    const uint64_t address = __cvta_generic_to_shared(tile);
    return (address & 0x3ffff) >> 4 | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
}

__device__ void bulk_copy(void* to, const void* from, unsigned bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes),
                   "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}

__global__ void product(const __half* a, const __half* b, float* c, int steps) {
    __shared__ alignas(128) __half tile_a[ROWS * STEP], tile_b[COLUMNS * STEP];
    __shared__ alignas(8) uint64_t barrier;
    const unsigned at = __cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.proxy.async;");
    __syncthreads();
    float sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        if (threadIdx.x == 0) {
            const unsigned bytes = sizeof(tile_a) + sizeof(tile_b);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes));
            bulk_copy(tile_a, a + (size_t(blockIdx.x) * steps + step) * ROWS * STEP, sizeof(tile_a), &barrier);
            bulk_copy(tile_b, b + size_t(step) * COLUMNS * STEP, sizeof(tile_b), &barrier);
        }
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(at), "r"(step & 1) : "memory");
        const uint64_t da = descriptor(tile_a), db = descriptor(tile_b);
        asm volatile("wgmma.fence.sync.aligned;");
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]),
              "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]),
              "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]),
              "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]),
              "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]),
              "+f"(sums[31])
            : "l"(da), "l"(db));
        asm volatile("wgmma.commit_group.sync.aligned;");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    for (int i = 0; i < 32; ++i) c[(size_t(blockIdx.x) * 128 + threadIdx.x) * 32 + i] = sums[i];
}

int main() {
    const int blocks = 528, steps = 64;
    __half *a, *b;
    float* c;
    cudaMalloc(&a, size_t(blocks) * steps * ROWS * STEP * sizeof(__half));
    cudaMalloc(&b, size_t(steps) * COLUMNS * STEP * sizeof(__half));
    cudaMalloc(&c, size_t(blocks) * 128 * 32 * sizeof(float));
    cudaMemset(a, 0x3c, size_t(blocks) * steps * ROWS * STEP * sizeof(__half));
    cudaMemset(b, 0x3c, size_t(steps) * COLUMNS * STEP * sizeof(__half));
    product<<<blocks, 128>>>(a, b, c, steps);
    cudaError_t error = cudaDeviceSynchronize();
    float first = 0;
    cudaMemcpy(&first, c, sizeof(float), cudaMemcpyDefault);
    printf("%s, first sum %g\n", cudaGetErrorString(error), first);
    return error != cudaSuccess;
}
