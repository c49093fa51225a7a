// Timing of instruction classes: chains of one instruction, mixes of two, and barriers.
// Every step is volatile assembly, so that the compiler neither drops nor merges it.

extern __shared__ unsigned int shared_words[];

__device__ __forceinline__ unsigned int shared_base() {
    return (unsigned int)__cvta_generic_to_shared(shared_words);
}

__device__ __forceinline__ unsigned int shared_address() {
    return shared_base() + 4 * (threadIdx.x & 31);
}

// -- one struct per instruction: how a value begins, what one step is, and what it gives at the end ---------------

struct Add {  // one IADD3: two additions of two inputs would be merged into it anyway
    unsigned int x, b;
    __device__ void begin(unsigned int seed) { x = seed, b = seed + 7; }
    __device__ void step(unsigned int a, int) {
        asm volatile("{ .reg .s32 t; add.s32 t, %0, %1; add.s32 %0, t, %2; }" : "+r"(x) : "r"(a), "r"(b));
    }
    __device__ unsigned int end() { return x; }
};

struct Logic {  // LOP3
    unsigned int x, b;
    __device__ void begin(unsigned int seed) { x = seed, b = seed + 7; }
    __device__ void step(unsigned int a, int) {
        asm volatile("lop3.b32 %0, %0, %1, %2, 0xe4;" : "+r"(x) : "r"(a), "r"(b));
    }
    __device__ unsigned int end() { return x; }
};

struct AddThenLogic {  // VIADD and LOP3 in turn: what integer code looks like
    unsigned int x;
    __device__ void begin(unsigned int seed) { x = seed; }
    __device__ void step(unsigned int a, int turn) {
        if (turn & 1)
            asm volatile("xor.b32 %0, %0, %1;" : "+r"(x) : "r"(a));
        else
            asm volatile("add.s32 %0, %0, %1;" : "+r"(x) : "r"(a));
    }
    __device__ unsigned int end() { return x; }
};

struct Mad {
    unsigned int x;
    __device__ void begin(unsigned int seed) { x = seed; }
    __device__ void step(unsigned int a, int) { asm volatile("mad.lo.s32 %0, %0, %1, %1;" : "+r"(x) : "r"(a)); }
    __device__ unsigned int end() { return x; }
};

struct FmaF32 {
    float x;
    __device__ void begin(unsigned int seed) { x = 1.0f + (float)(seed & 15) * 0.0625f; }
    __device__ void step(unsigned int, int) { asm volatile("fma.rn.f32 %0, %0, 0f3F7FF000, 0f3A000000;" : "+f"(x)); }
    __device__ unsigned int end() { return __float_as_uint(x); }
};

struct FmaF64 {
    double x;
    __device__ void begin(unsigned int seed) { x = 1.0 + (double)(seed & 15) * 0.0625; }
    __device__ void step(unsigned int, int) {
        asm volatile("fma.rn.f64 %0, %0, 0d3FEFFE0000000000, 0d3F40000000000000;" : "+d"(x));
    }
    __device__ unsigned int end() { return (unsigned int)__double_as_longlong(x); }
};

struct FmaF16 {
    unsigned int x;
    __device__ void begin(unsigned int seed) { x = 0x3c003c00u + (seed & 15) * 0x00010001u; }
    __device__ void step(unsigned int a, int) { asm volatile("fma.rn.f16x2 %0, %0, %0, %1;" : "+r"(x) : "r"(a)); }
    __device__ unsigned int end() { return x; }
};

struct Exponential {  // MUFU.EX2
    float x;
    __device__ void begin(unsigned int seed) { x = (float)(seed & 15) * -0.0625f; }
    __device__ void step(unsigned int, int) { asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)); }
    __device__ unsigned int end() { return __float_as_uint(x); }
};

struct ReciprocalRoot {  // MUFU.RSQ
    float x;
    __device__ void begin(unsigned int seed) { x = 1.0f + (float)(seed & 15) * 0.0625f; }
    __device__ void step(unsigned int, int) { asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x)); }
    __device__ unsigned int end() { return __float_as_uint(x); }
};

struct FloatToInt {  // F2I; the bits of the integer are read as a float again, which costs nothing
    unsigned int x;
    __device__ void begin(unsigned int seed) { x = __float_as_uint((float)(seed & 1023)); }
    __device__ void step(unsigned int, int) { asm volatile("cvt.rzi.s32.f32 %0, %0;" : "+r"(x)); }
    __device__ unsigned int end() { return x; }
};

struct IntToFloat {  // I2F
    unsigned int x;
    __device__ void begin(unsigned int seed) { x = seed & 1023; }
    __device__ void step(unsigned int, int) { asm volatile("cvt.rn.f32.s32 %0, %0;" : "+r"(x)); }
    __device__ unsigned int end() { return x; }
};

struct DivideS32 {
    int x;
    __device__ void begin(unsigned int seed) { x = 1000 + (int)(seed & 255); }
    __device__ void step(unsigned int a, int) { asm volatile("div.s32 %0, %1, %0;" : "+r"(x) : "r"(a)); }
    __device__ unsigned int end() { return (unsigned int)x; }
};

struct DivideF32 {
    float x;
    __device__ void begin(unsigned int seed) { x = 1.0f + (float)(seed & 15) * 0.0625f; }
    __device__ void step(unsigned int, int) {
        asm volatile("{ .reg .f32 a; mov.f32 a, 0f40490FDB; div.rn.f32 %0, a, %0; }" : "+f"(x));
    }
    __device__ unsigned int end() { return __float_as_uint(x); }
};

struct DivideF64 {
    double x;
    __device__ void begin(unsigned int seed) { x = 1.0 + (double)(seed & 15) * 0.0625; }
    __device__ void step(unsigned int, int) {
        asm volatile("{ .reg .f64 a; mov.f64 a, 0d400921FB54442D18; div.rn.f64 %0, a, %0; }" : "+d"(x));
    }
    __device__ unsigned int end() { return (unsigned int)__double_as_longlong(x); }
};

struct LoadShared {  // every lane reads its own bank and finds there the address that it reads next
    unsigned int x;
    __device__ void begin(unsigned int) { x = shared_address(); }
    __device__ void step(unsigned int, int) { asm volatile("ld.shared.u32 %0, [%0];" : "+r"(x)::"memory"); }
    __device__ unsigned int end() { return x; }
};

struct LoadSharedWide {  // 16 bytes a lane: four passes over all banks
    unsigned int x;
    __device__ void begin(unsigned int) { x = shared_base() + 512 + 16 * (threadIdx.x & 31); }
    __device__ void step(unsigned int, int) {
        [[maybe_unused]] unsigned int y, z, w;
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%0];" : "+r"(x), "=r"(y), "=r"(z), "=r"(w)::"memory");
    }
    __device__ unsigned int end() { return x; }
};

struct StoreShared {  // no result: only the interval means anything
    unsigned int x;
    __device__ void begin(unsigned int) { x = shared_address() + 256; }
    __device__ void step(unsigned int, int) { asm volatile("st.volatile.shared.u32 [%0], %0;" ::"r"(x) : "memory"); }
    __device__ unsigned int end() { return x; }
};

struct AtomicShared {  // exchange: the lane's own bank, and the address depends on what came before
    unsigned int x;
    __device__ void begin(unsigned int) { x = shared_address(); }
    __device__ void step(unsigned int, int) {
        asm volatile("atom.shared.exch.b32 %0, [%0], %0;" : "+r"(x)::"memory");
    }
    __device__ unsigned int end() { return x; }
};

struct Shuffle {
    unsigned int x;
    __device__ void begin(unsigned int seed) { x = seed; }
    __device__ void step(unsigned int, int) {
        asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(x));
    }
    __device__ unsigned int end() { return x; }
};

struct Matrix {  // HMMA.16816.F32, a chain through the accumulator
    float d[4];
    unsigned int a[4], b[2];
    __device__ void begin(unsigned int seed) {
        for (int i = 0; i < 4; ++i) d[i] = 0.0f, a[i] = 0x00100010u + ((seed + i) & 15);
        for (int i = 0; i < 2; ++i) b[i] = 0x00200020u + ((seed + i) & 15);
    }
    __device__ void step(unsigned int, int) {
#if __CUDA_ARCH__ >= 800
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
    }
    __device__ unsigned int end() { return __float_as_uint(d[0] + d[1] + d[2] + d[3]); }
};

// -- kernels -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void fill_shared() {
    // Words 0 to 127 lead LoadShared to itself, words 128 to 255 LoadSharedWide.
    for (unsigned int i = threadIdx.x; i < 256; i += blockDim.x)
        shared_words[i] = shared_base() + (i < 128 ? 4 * (i & 31) : 512 + 16 * ((i - 128) >> 2));
    __syncthreads();
}

// LENGTH instructions an iteration, in CHAINS independent chains.
template <class Operation, int CHAINS, int LENGTH>
__global__ void chain(Record *records, int iterations, unsigned int operand) {
    fill_shared();
    Operation value[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) value[i].begin(threadIdx.x + i + operand);
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int n = 0; n < iterations; ++n) {
#pragma unroll
        for (int step = 0; step < LENGTH / CHAINS; ++step)
#pragma unroll
            for (int i = 0; i < CHAINS; ++i) value[i].step(operand, step);
    }
    unsigned int sum = 0;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += value[i].end();
    timer.stop(records, sum);
}

// REPEATS times an iteration: BETA instructions of the first kind (two chains), then one of the second.
template <class First, class Second, int BETA, int REPEATS>
__global__ void mix(Record *records, int iterations, unsigned int operand) {
    fill_shared();
    First first[2];
    Second second;
    first[0].begin(threadIdx.x + operand);
    first[1].begin(threadIdx.x + operand + 1);
    second.begin(threadIdx.x + operand + 2);
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int n = 0; n < iterations; ++n) {
#pragma unroll
        for (int repeat = 0; repeat < REPEATS; ++repeat) {
#pragma unroll
            for (int i = 0; i < BETA; ++i) {
                int turn = repeat * BETA + i;
                first[turn & 1].step(operand, turn >> 1);
            }
            second.step(operand, repeat);
        }
    }
    timer.stop(records, first[0].end() + first[1].end() + second.end());
}

template <int LENGTH>
__global__ void barriers(Record *records, int iterations, unsigned int operand) {
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int n = 0; n < iterations; ++n) {
#pragma unroll
        for (int i = 0; i < LENGTH; ++i) asm volatile("bar.sync 0;" ::: "memory");
    }
    timer.stop(records, operand);
}
