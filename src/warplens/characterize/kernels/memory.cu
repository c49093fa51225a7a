// Latency and bandwidth of the memory system.

enum { CACHED, PAST_L1 };  // ld.global and ld.global.cg

template <int CACHE>
__device__ __forceinline__ unsigned long long load_pointer(unsigned long long address) {
    unsigned long long value;
    if (CACHE == CACHED)
        asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    else
        asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

// One load in each page, so that what is timed later finds the pages' translations.
__device__ __forceinline__ unsigned int touch(unsigned long long base, int pages, unsigned long long page_bytes) {
    unsigned int sum = 0;
    for (int i = 0; i < pages; ++i) sum += (unsigned int)load_pointer<PAST_L1>(base + i * page_bytes);
    return sum;
}

// At base + from[i] stands the address base + to[i].
extern "C" __global__ void link(char *base, const unsigned int *from, const unsigned int *to, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        *(unsigned long long *)(base + from[i]) = (unsigned long long)(base + to[i]);
}

// One thread of each block follows the addresses from its start: `warm_steps`, then `steps` that are timed.
template <int CACHE>
__global__ void chase(Record *records, const unsigned long long *starts, int warm_steps, int steps, unsigned long long pages_at,
                      int pages, unsigned long long page_bytes) {
    unsigned int touched = touch(pages_at, pages, page_bytes);
    unsigned long long at = starts[blockIdx.x];
#pragma unroll 1
    for (int i = 0; i < warm_steps; ++i) at = load_pointer<CACHE>(at);
    __syncthreads();
    if (at == 1) records[0].value = touched;  // never: it only makes the timer wait for the loads above
    Timer timer;
    timer.start();
#pragma unroll 16
    for (int i = 0; i < steps; ++i) at = load_pointer<CACHE>(at);
    if (at == 1) records[0].value = 1;
    timer.stop(records, (unsigned int)at);
}

template <int CACHE, int WORDS>
__device__ __forceinline__ unsigned int load_words(const char *address) {
    unsigned int a, b = 0, c = 0, d = 0;
    if (WORDS == 4 && CACHE == CACHED)
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(address));
    else if (WORDS == 4)
        asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(address));
    else if (CACHE == CACHED)
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(address));
    else
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(a) : "l"(address));
    return a ^ b ^ c ^ d;
}

// Every thread reads WORDS words, eight times before it waits. `bytes` is a multiple of what all do in one turn.
template <int CACHE, int WORDS>
__global__ void __launch_bounds__(1024, 1) read_stream(Record *records, const char *base, unsigned long long bytes, int passes) {
    unsigned long long first = threadIdx.x + (unsigned long long)blockIdx.x * blockDim.x;
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x * WORDS * 4;
    unsigned int sum = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 1
        for (unsigned long long at = first * WORDS * 4; at < bytes; at += 8 * stride) {
            unsigned int part[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) part[i] = load_words<CACHE, WORDS>(base + at + i * stride);
#pragma unroll
            for (int i = 0; i < 8; ++i) sum ^= part[i];
        }
    }
    timer.stop(records, sum);
}

// Every block of 1024 threads reads the same few KiB again and again. All addresses are a register and a constant:
// arithmetic on addresses would be the limit, not the cache. Turns differ by one line, or the assembler would see that
// they load the same and load it once.
template <int WORDS>
__global__ void __launch_bounds__(1024, 1) read_l1(Record *records, const char *base, int passes) {
    const char *at = base + threadIdx.x * WORDS * 4;
    long long step = 128;
    unsigned int sum = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        at += step;
        step = -step;
        unsigned int part[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = load_words<CACHED, WORDS>(at + i * 1024 * WORDS * 4);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum ^= part[i];
    }
    timer.stop(records, sum);
}

// Every warp of a block reads the same words of 64 KiB again and again, each lane at its own offset below 4 KiB.
extern "C" __global__ void __launch_bounds__(1024, 1) read_l1_pattern(Record *records, const char *base, const unsigned int *offsets, int passes) {
    const char *at = base + offsets[threadIdx.x & 31];
    long long step = 32768;
    unsigned int sum = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        at += step;
        step = -step;
        unsigned int part[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = load_words<CACHED, 1>(at + i * 4096);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum ^= part[i];
    }
    timer.stop(records, sum);
}

// Every warp loads, stores or adds to four pieces of a region of 2^n lines, in a scattered order: `lanes` lanes share a
// line, each with a word of its own. Where a lane has a line for itself, the words lie in different banks, or in one.
enum { LOADS, LOADS_THROUGH_L1, STORES, ADDITIONS };

template <int WHAT>
__global__ void __launch_bounds__(1024, 1) scattered(Record *records, char *base, unsigned int line_mask, int rounds, int lanes, int apart) {
    unsigned int lane = threadIdx.x & 31;
    unsigned int groups = 32 / lanes;
    unsigned int worker = ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * groups + lane / lanes;
    unsigned int workers = (gridDim.x * blockDim.x >> 5) * groups;
    unsigned int sum = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        unsigned int part[4] = {};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned int piece = ((unsigned int)(round * 4 + i) * workers + worker) * 2654435761u;
            char *address = base + (piece & line_mask) * 128ull + apart * lane;
            if (WHAT == STORES)
                asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(piece) : "memory");
            else if (WHAT == ADDITIONS)
                asm volatile("red.global.add.u32 [%0], %1;" ::"l"(address), "r"(piece) : "memory");
            else if (WHAT == LOADS_THROUGH_L1)
                part[i] = load_words<CACHED, 1>(address);
            else
                part[i] = load_words<PAST_L1, 1>(address);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sum ^= part[i];
    }
    if (WHAT >= STORES) __threadfence();
    timer.stop(records, sum);
}

extern "C" __global__ void write_stream(Record *records, uint4 *base, unsigned long long elements) {
    Timer timer;
    timer.start();
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < elements;
         i += (unsigned long long)gridDim.x * blockDim.x)
        base[i] = uint4{1u, 2u, 3u, 4u};
    timer.stop(records, 0);
}

extern "C" __global__ void copy_stream(Record *records, uint4 *to, const uint4 *from, unsigned long long elements) {
    unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    Timer timer;
    timer.start();
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += 4 * threads) {
        uint4 part[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) part[k] = from[i + k * threads];
#pragma unroll
        for (int k = 0; k < 4; ++k) to[i + k * threads] = part[k];
    }
    timer.stop(records, 0);
}

// Every warp loads LOADS pieces of a region of 2^n lines of 128 bytes that holds zeros, each once and in a scattered
// order, and waits for all of them before the next round. WORDS = 0: `lanes` lanes load a sector of a line of their
// own. WORDS = 1 and 4: the warp loads 128 and 512 bytes in a row.
template <int WORDS, int LOADS>
__global__ void __launch_bounds__(1024, 1) misses(Record *records, unsigned long long base, unsigned int line_mask, int rounds, int lanes,
                       int pages, unsigned long long page_bytes) {
    const unsigned int lines = WORDS == 4 ? 4 : 1;
    unsigned int lane = threadIdx.x & 31;
    unsigned int workers = (blockDim.x >> 5) * (WORDS ? 1 : lanes);
    unsigned int worker = (threadIdx.x >> 5) * (WORDS ? 1 : lanes) + (WORDS ? 0 : lane);
    unsigned long long inside = WORDS * 4 * lane;
    if (threadIdx.x == 0 && touch(base + 64, pages, page_bytes) == 1) records[0].value = 1;
    __syncthreads();
    unsigned int sum = 0;
    Timer timer;
    timer.start();
    if (lane < lanes) {
#pragma unroll 1
        for (int round = 0; round < rounds; ++round) {
            unsigned long long address[LOADS];
            unsigned int part[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                unsigned int piece = ((unsigned int)(round * LOADS + i) * workers + worker) * 2654435761u;
                address[i] = base + (piece * lines & line_mask) * 128ull + inside + sum;
            }
#pragma unroll
            for (int i = 0; i < LOADS; ++i)
                part[i] = load_words<PAST_L1, WORDS ? WORDS : 1>((const char *)address[i]);
#pragma unroll
            for (int i = 0; i < LOADS; ++i) sum += part[i];
        }
    }
    if (sum == 1) records[0].value = 1;
    __syncwarp();
    timer.stop(records, sum);
}

// Every warp adds to the 32 words of a line of its own, in four chains; the next line of a chain depends on what came
// back. Lines change from step to step: how far away a line is handled differs. `zero` is 0.
template <int CHAINS>
__global__ void __launch_bounds__(1024, 1) atomics(Record *records, unsigned long long base, unsigned int line_mask, int steps, unsigned int zero) {
    unsigned int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    unsigned int warps = gridDim.x * blockDim.x >> 5;
    unsigned int got[CHAINS] = {};
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
            unsigned int line = ((step * CHAINS + i) * warps + warp) * 2654435761u & line_mask;
            unsigned long long address = base + line * 128ull + 4 * (threadIdx.x & 31) + got[i];
            asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(got[i]) : "l"(address), "r"(zero) : "memory");
        }
    }
    unsigned int sum = 0;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += got[i];
    if (sum == 1) records[0].value = 1;
    timer.stop(records, sum);
}

// Blocks that hold their places for `cycles` and up to `spread` more; one record for each.
extern "C" __global__ void short_blocks(Record *records, int cycles, int spread) {
    Timer timer;
    timer.start();
    long long until = timer.start_cycle + cycles + (blockIdx.x * 2654435761u >> 8) % spread;
    while (clock64() < until) {
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned int sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        records[blockIdx.x] = Record{timer.start_cycle, clock64(), timer.start_ns, timer.start_ns, sm, 0};
    }
}

// Holds the GPU while launches queue up behind it.
extern "C" __global__ void hold(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

extern "C" __global__ void nothing() {}
