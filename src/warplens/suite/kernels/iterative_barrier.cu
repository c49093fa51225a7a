// One multiply-add and one barrier, over and over.
extern "C" __global__ void iterative_barrier(float* __restrict__ values, float factor, float summand,
                                             int repetitions) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = values[i];
#pragma unroll 4
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    x = x * factor + summand;
    __syncthreads();
  }
  values[i] = x;
}
