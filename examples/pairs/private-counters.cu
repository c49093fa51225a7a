// Counts the sixteen values of half-bytes; every thread has counters of its own in shared memory. The fault: a
// thread's counters lie side by side, 16 words from the next thread's, so lanes crowd into few banks. The cure: the
// threads' counters of one value lie side by side, and every lane has a bank of its own.
constexpr int kThreads = 256, kValues = 16, kPerWord = 8;

__device__ void add_up(int value, int sum, int *counts)
{
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&counts[value], sum);
}

extern "C" __global__ void fault(int words, const unsigned *in, int *counts)
{
    __shared__ int own[kThreads][kValues];
    for (int value = 0; value < kValues; ++value)
        own[threadIdx.x][value] = 0;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < words; i += gridDim.x * kThreads) {
        unsigned word = in[i];
        for (int k = 0; k < kPerWord; ++k, word >>= 4)
            ++own[threadIdx.x][word & 15];
    }
    for (int value = 0; value < kValues; ++value)
        add_up(value, own[threadIdx.x][value], counts);
}

extern "C" __global__ void cure(int words, const unsigned *in, int *counts)
{
    __shared__ int own[kValues][kThreads];
    for (int value = 0; value < kValues; ++value)
        own[value][threadIdx.x] = 0;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < words; i += gridDim.x * kThreads) {
        unsigned word = in[i];
        for (int k = 0; k < kPerWord; ++k, word >>= 4)
            ++own[word & 15][threadIdx.x];
    }
    for (int value = 0; value < kValues; ++value)
        add_up(value, own[value][threadIdx.x], counts);
}
