// Steps of a state machine whose table is copied to shared memory where it fits. The fault: one pointer stands for
// either memory, so every look-up is a generic load. The cure: the choice is made once, outside the loop.
constexpr int kMost = 1024;

__device__ int walk(const int *table, int mask, int steps, int state)
{
#pragma unroll 4
    for (int step = 0; step < steps; ++step)
        state = table[(state + step) & mask];
    return state;
}

__device__ void copy(int entries, const int *table, int *own)
{
    if (entries <= kMost)
        for (int k = threadIdx.x; k < entries; k += blockDim.x)
            own[k] = table[k];
    __syncthreads();
}

extern "C" __global__ void fault(int entries, int steps, const int *table, const int *start, int *end)
{
    __shared__ int own[kMost];
    copy(entries, table, own);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int *place = entries <= kMost ? own : table;
    end[i] = walk(place, entries - 1, steps, start[i]);
}

extern "C" __global__ void cure(int entries, int steps, const int *table, const int *start, int *end)
{
    __shared__ int own[kMost];
    copy(entries, table, own);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (entries <= kMost)
        end[i] = walk(own, entries - 1, steps, start[i]);
    else
        end[i] = walk(table, entries - 1, steps, start[i]);
}
