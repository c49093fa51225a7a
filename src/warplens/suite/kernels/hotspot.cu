// Transient temperature of a chip, explicit Euler on a grid with clamped edges. A block computes
// kSteps time steps on a tile in shared memory; the valid part shrinks by one ring a step.
constexpr int kTile = 16;
constexpr int kSteps = 2;
constexpr int kOutput = kTile - 2 * kSteps;

extern "C" __global__ void hotspot(const float* __restrict__ power, const float* __restrict__ temperature,
                                   float* __restrict__ result, int width, int height, float step_by_capacity,
                                   float inverse_rx, float inverse_ry, float inverse_rz, float ambient) {
  __shared__ float now[kTile][kTile];
  __shared__ float next[kTile][kTile];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * kOutput + tx - kSteps;
  int y = blockIdx.y * kOutput + ty - kSteps;
  bool inside = x >= 0 && x < width && y >= 0 && y < height;
  long long cell = (long long)y * width + x;
  float my_power = 0.0f;
  if (inside) {
    now[ty][tx] = temperature[cell];
    my_power = power[cell];
  }
  __syncthreads();

  // beyond an edge of the chip a cell sees itself
  int west = x > 0 ? tx - 1 : tx, east = x < width - 1 ? tx + 1 : tx;
  int north = y > 0 ? ty - 1 : ty, south = y < height - 1 ? ty + 1 : ty;
  for (int step = 1; step <= kSteps; ++step) {
    bool valid = inside && tx >= step && tx < kTile - step && ty >= step && ty < kTile - step;
    if (valid) {
      float centre = now[ty][tx];
      float flow = my_power + (now[south][tx] + now[north][tx] - 2.0f * centre) * inverse_ry +
                   (now[ty][east] + now[ty][west] - 2.0f * centre) * inverse_rx + (ambient - centre) * inverse_rz;
      next[ty][tx] = centre + step_by_capacity * flow;
    }
    __syncthreads();
    if (valid) now[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (inside && tx >= kSteps && tx < kTile - kSteps && ty >= kSteps && ty < kTile - kSteps)
    result[cell] = now[ty][tx];
}
