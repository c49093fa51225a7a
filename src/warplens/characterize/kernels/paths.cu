// Paths that few kernels depend on: constants, textures, instruction fetch, register ports, atomics by address, and
// pages.

__constant__ unsigned int constant_words[16384];

// One thread follows indices through constant memory: `warm_steps`, then `steps` that are timed.
extern "C" __global__ void chase_constant(Record *records, int warm_steps, int steps) {
    unsigned int at = 0;
#pragma unroll 1
    for (int i = 0; i < warm_steps; ++i) at = constant_words[at];
    __syncthreads();
    if (at == ~0u) records[0].value = 1;  // never: it only makes the timer wait for the loads above
    Timer timer;
    timer.start();
#pragma unroll 16
    for (int i = 0; i < steps; ++i) at = constant_words[at];
    if (at == ~0u) records[0].value = 1;
    timer.stop(records, at);
}

__device__ __forceinline__ unsigned int fetch_texel(unsigned long long texture, unsigned int at) {
    unsigned int value, b, c, d;
    asm volatile("tex.1d.v4.u32.s32 {%0,%1,%2,%3}, [%4, {%5}];"
                 : "=r"(value), "=r"(b), "=r"(c), "=r"(d)
                 : "l"(texture), "r"(at));
    return value;
}

extern "C" __global__ void chase_texture(Record *records, unsigned long long texture, int warm_steps, int steps) {
    unsigned int at = 0;
#pragma unroll 1
    for (int i = 0; i < warm_steps; ++i) at = fetch_texel(texture, at);
    __syncthreads();
    if (at == ~0u) records[0].value = 1;
    Timer timer;
    timer.start();
#pragma unroll 16
    for (int i = 0; i < steps; ++i) at = fetch_texel(texture, at);
    if (at == ~0u) records[0].value = 1;
    timer.stop(records, at);
}

// Every warp fetches 32 texels in a row, eight times before it waits; all stay in the L1.
extern "C" __global__ void __launch_bounds__(1024, 1) read_texture(Record *records, unsigned long long texture, int passes) {
    unsigned int sum = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        unsigned int part[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = fetch_texel(texture, (threadIdx.x & 31) + 32 * i + (pass & 1) * 256);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum ^= part[i];
    }
    timer.stop(records, sum);
}

// Every warp reads constants, the same for all its lanes or one for each of `apart` groups of them.
extern "C" __global__ void __launch_bounds__(1024, 1) read_constant(Record *records, int passes, unsigned int groups) {
    unsigned int lane = (threadIdx.x & 31) % groups;
    unsigned int sum = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        unsigned int part[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = constant_words[(lane + 32 * i + (sum & 1)) & 511];
#pragma unroll
        for (int i = 0; i < 8; ++i) sum ^= part[i];
    }
    timer.stop(records, sum);
}

// A loop whose body is COUNT independent multiply-adds of 16 bytes. The first round is not timed.
#define STEP(x) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(a));
template <int COUNT>
__global__ void __launch_bounds__(1024, 1) body(Record *records, int rounds, float a) {
    float x0 = threadIdx.x, x1 = 1, x2 = 2, x3 = 3, x4 = 4, x5 = 5, x6 = 6, x7 = 7;
    Timer timer;
#pragma unroll 1
    for (int round = 0; round <= rounds; ++round) {
        if (round <= 1) timer.start();
#pragma unroll
        for (int i = 0; i < COUNT / 8; ++i) {
            STEP(x0) STEP(x1) STEP(x2) STEP(x3) STEP(x4) STEP(x5) STEP(x6) STEP(x7)
        }
    }
    timer.stop(records, __float_as_uint(x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7));
}

// Multiply-adds in eight chains, each from SOURCES different registers.
template <int SOURCES>
__global__ void __launch_bounds__(1024, 1) ports(Record *records, int rounds, float a) {
    float x[8], y[8], z[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = a + i + threadIdx.x, y[i] = a * (i + threadIdx.x), z[i] = a - i * threadIdx.x;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
            int n = i & 7;
            if (SOURCES == 1)
                asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[n]));
            else if (SOURCES == 2)
                asm volatile("fma.rn.f32 %0, %0, %1, %0;" : "+f"(x[n]) : "f"(y[n]));
            else
                asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(x[n]) : "f"(y[n]), "f"(z[n]));
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += x[i] + y[i] + z[i];
    timer.stop(records, __float_as_uint(sum));
}

// Additions without a result. Lane, warp and block add to their own words, or share them: `share` lanes have one word,
// and the others are so many words apart.
enum { GLOBAL, SHARED };
extern __shared__ unsigned int counters[];

template <int SPACE>
__global__ void __launch_bounds__(1024, 1) additions(Record *records, unsigned int *base, int rounds, int share, int lanes_apart,
                          int warps_apart, int blocks_apart) {
    unsigned int word = (threadIdx.x & 31) / share * lanes_apart + (threadIdx.x >> 5) * warps_apart;
    unsigned int *address = base + word + (unsigned long long)blockIdx.x * blocks_apart;
    unsigned int in_block = (unsigned int)__cvta_generic_to_shared(counters + word);
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 4
    for (int round = 0; round < rounds; ++round) {
        if (SPACE == GLOBAL)
            asm volatile("red.global.add.u32 [%0], %1;" ::"l"(address), "r"(round) : "memory");
        else
            asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(in_block), "r"(round) : "memory");
    }
    if (SPACE == GLOBAL) __threadfence();
    timer.stop(records, 0);
}

// One line of each page points to the next page's, in the given order. Lines differ in their place, so that they do
// not fall into one set of a cache.
extern "C" __global__ void link_pages(char *base, const unsigned int *order, int count, unsigned long long page_bytes) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        unsigned long long page = order[i], next = order[i + 1 == count ? 0 : i + 1];
        unsigned long long *at = (unsigned long long *)(base + page * page_bytes + page * 33 * 128 % page_bytes);
        *at = (unsigned long long)(base + next * page_bytes + next * 33 * 128 % page_bytes);
    }
}
