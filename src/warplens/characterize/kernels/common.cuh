// What every kernel here shares: the record that each warp leaves, and how it is written.

struct Record {
    long long start_cycle;
    long long end_cycle;
    long long start_ns;
    long long end_ns;
    unsigned int sm;
    unsigned int value;  // keeps results alive
};

__device__ __forceinline__ long long nanoseconds() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

struct Timer {
    long long start_cycle, start_ns;
    __device__ __forceinline__ void start() {
        start_ns = nanoseconds();
        start_cycle = clock64();
    }
    // Lane 0 writes for its warp. The caller passes what was computed, so that the compiler keeps the work.
    __device__ __forceinline__ void stop(Record *records, unsigned int value) {
        long long end_cycle = clock64();
        long long end_ns = nanoseconds();
        unsigned int sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        if ((threadIdx.x & 31) == 0 || value == ~sm) {
            unsigned int warp = blockIdx.x * ((blockDim.x + 31) >> 5) + (threadIdx.x >> 5);
            records[warp] = Record{start_cycle, end_cycle, start_ns, end_ns, sm, value};
        }
    }
};
