// Counts the sixteen values of half-bytes; every thread has counters of its own in shared memory. The fault: a
// thread's counters lie side by side, 16 words from the next thread's, so lanes crowd into few banks. The cure: the
// threads' counters of one value lie side by side, and every lane has a bank of its own.
constexpr int kThreads = 256, kValues = 16, kPerWord = 8;

template <int kOfThread, int kOfValue>
__device__ void count(int words, const unsigned *in, int *counts)
{
    __shared__ int own[kThreads * kValues];
    for (int i = threadIdx.x; i < kThreads * kValues; i += kThreads)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < words; i += gridDim.x * kThreads) {
        unsigned word = in[i];
        for (int k = 0; k < kPerWord; ++k, word >>= 4)
            ++own[kOfThread * threadIdx.x + kOfValue * (word & 15)];
    }
    __syncthreads();
    for (int value = threadIdx.x / 32; value < kValues; value += kThreads / 32) {
        int sum = 0;
        for (int thread = threadIdx.x % 32; thread < kThreads; thread += 32)
            sum += own[kOfThread * thread + kOfValue * value];
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, distance);
        if (threadIdx.x % 32 == 0)
            counts[blockIdx.x * kValues + value] = sum;
    }
}

extern "C" __global__ void fault(int words, const unsigned *in, int *counts) { count<kValues, 1>(words, in, counts); }

extern "C" __global__ void cure(int words, const unsigned *in, int *counts) { count<1, kThreads>(words, in, counts); }
