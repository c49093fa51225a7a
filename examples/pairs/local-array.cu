// The eight least of a thread's values, in order. The fault: insertion at a run-time index keeps the array in local
// memory. The cure: unrolled exchanges have constant indices, and the array stays in registers.
constexpr int kKept = 8;

extern "C" __global__ void fault(int threads, int values, const float *in, float *least)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float kept[kKept];
    for (int k = 0; k < kKept; ++k)
        kept[k] = 3.4e38f;
    for (int i = 0; i < values; ++i) {
        float value = in[i * threads + thread];
        int place = kKept - 1;
        if (value >= kept[place])
            continue;
        for (; place > 0 && kept[place - 1] > value; --place)
            kept[place] = kept[place - 1];
        kept[place] = value;
    }
    for (int k = 0; k < kKept; ++k)
        least[k * threads + thread] = kept[k];
}

extern "C" __global__ void cure(int threads, int values, const float *in, float *least)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float kept[kKept];
#pragma unroll
    for (int k = 0; k < kKept; ++k)
        kept[k] = 3.4e38f;
    for (int i = 0; i < values; ++i) {
        float value = in[i * threads + thread];
        if (value >= kept[kKept - 1])
            continue;
#pragma unroll
        for (int k = 0; k < kKept; ++k) {
            float low = fminf(kept[k], value);
            value = fmaxf(kept[k], value);
            kept[k] = low;
        }
    }
#pragma unroll
    for (int k = 0; k < kKept; ++k)
        least[k * threads + thread] = kept[k];
}
