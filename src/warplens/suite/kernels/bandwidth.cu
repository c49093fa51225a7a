// Copies an array with loads and stores of 16 bytes.
extern "C" __global__ void bandwidth(const float4* __restrict__ source, float4* __restrict__ target, int n) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    target[i] = source[i];
}
