// Sums of table entries by an index, with a running clamp. The fault: each step waits for its index and then for its
// entry. The cure: indices and entries of four steps are loaded together.
constexpr int kAhead = 4;

extern "C" __global__ void fault(int threads, int steps, const int *index, const float *table, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        float entry = table[index[step * threads + i]];
        sum = fminf(sum + entry, 1.0e6f);
    }
    sums[i] = sum;
}

extern "C" __global__ void cure(int threads, int steps, const int *index, const float *table, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step += kAhead) {
        float entry[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j)
            entry[j] = table[index[(step + j) * threads + i]];
#pragma unroll
        for (int j = 0; j < kAhead; ++j)
            sum = fminf(sum + entry[j], 1.0e6f);
    }
    sums[i] = sum;
}
