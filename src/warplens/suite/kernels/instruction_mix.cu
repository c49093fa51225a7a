// A chain of BETA multiply-adds followed by one special function, over and over.
#ifndef BETA
#define BETA 4
#endif

extern "C" __global__ void instruction_mix(const float* __restrict__ factors, float* __restrict__ values,
                                           float summand, int repetitions) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = values[i], factor = factors[i];
#pragma unroll 8
  for (int repetition = 0; repetition < repetitions; ++repetition) {
#pragma unroll
    for (int j = 0; j < BETA; ++j) x = x * factor + summand;
    x = rsqrtf(x);
  }
  values[i] = x;
}
