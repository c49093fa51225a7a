__device__ __forceinline__ float weight(float x, float a) { return x * a + 0.5f; }
__constant__ float table[8] = {1.f, 2.f, 4.f, 8.f, 16.f, 32.f, 64.f, 128.f};
__device__ int counter = 7;

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = weight(x[i], a) + y[i];
}

extern "C" __global__ void block_sum(const int *in, int *out, int n)
{
    __shared__ int part[64];
    int t = threadIdx.x;
    int sum = 0;
    for (int i = blockIdx.x * 64 + t; i < n; i += 64 * gridDim.x)
        sum += in[i];
    part[t] = sum;
    __syncthreads();
    for (int step = 32; step > 0; step >>= 1) {
        if (t < step)
            part[t] += part[t + step];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

extern "C" __global__ void collatz(const unsigned *in, unsigned *steps, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long value = in[i];
    unsigned count = 0;
    while (value != 1 && count < 60) {
        value = value & 1 ? 3 * value + 1 : value >> 1;
        ++count;
    }
    steps[i] = count;
}
