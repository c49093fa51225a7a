// Sums of series that end at a negative term. The fault: the test after each load lets only one load be in flight.
// The cure: eight terms are loaded before the first is tested.
constexpr int kAhead = 8;

extern "C" __global__ void fault(int threads, int terms, const float *series, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < terms; ++k) {
        float term = series[k * threads + i];
        if (term < 0.0f)
            break;
        sum += term;
    }
    sums[i] = sum;
}

extern "C" __global__ void cure(int threads, int terms, const float *series, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    bool ended = false;
    for (int k = 0; k < terms && !ended; k += kAhead) {
        float ahead[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j)
            ahead[j] = k + j < terms ? series[(k + j) * threads + i] : -1.0f;
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
            ended = ended || ahead[j] < 0.0f;
            sum += ended ? 0.0f : ahead[j];
        }
    }
    sums[i] = sum;
}
