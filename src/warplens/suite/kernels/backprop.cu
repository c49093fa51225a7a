// Forward pass of a fully connected layer with 16 hidden units: a block multiplies 16 inputs with
// their weights and adds them up in a tree; partial[block][unit] is left for a second pass.
constexpr int kSide = 16;

extern "C" __global__ void backprop_forward(const float* __restrict__ input, const float* __restrict__ weights,
                                            float* __restrict__ partial) {
  __shared__ float node[kSide];
  __shared__ float product[kSide][kSide];
  int unit = threadIdx.x, row = threadIdx.y;
  int first = blockIdx.x * kSide;
  if (unit == 0) node[row] = input[first + row];
  __syncthreads();
  product[row][unit] = weights[(long long)(first + row) * kSide + unit] * node[row];
  __syncthreads();
  for (int stride = 1; stride < kSide; stride *= 2) {
    if (row % (2 * stride) == 0) product[row][unit] += product[row + stride][unit];
    __syncthreads();
  }
  if (row == 0) partial[(long long)blockIdx.x * kSide + unit] = product[0][unit];
}

// Weights after one step of gradient descent with momentum.
extern "C" __global__ void backprop_adjust(const float* __restrict__ delta, const float* __restrict__ input,
                                           float* __restrict__ weights, float* __restrict__ previous,
                                           float rate, float momentum) {
  int unit = threadIdx.x;
  int row = blockIdx.x * kSide + threadIdx.y;
  long long cell = (long long)row * kSide + unit;
  float change = rate * delta[unit] * input[row] + momentum * previous[cell];
  weights[cell] += change;
  previous[cell] = change;
}
