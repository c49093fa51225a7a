// Fluxes of the Euler equations over the four faces of each cell of an unstructured mesh. Density,
// momentum and energy are stored variable by variable; neighbours are found through an index array.
constexpr int kFaces = 4;
constexpr int kVariables = 5;
constexpr float kGamma = 1.4f;
constexpr float kSmoothing = 0.2f;
constexpr int kWall = -1;  // any other negative neighbour is the far field

struct State {
  float density, momentum_x, momentum_y, momentum_z, energy;
};

__device__ State load_state(const float* __restrict__ variables, int cell, int cells) {
  return {variables[cell], variables[cell + (long long)cells], variables[cell + 2LL * cells],
          variables[cell + 3LL * cells], variables[cell + 4LL * cells]};
}

struct Flow {
  float velocity_x, velocity_y, velocity_z, pressure, wave_speed;
};

__device__ Flow flow_of(const State& s) {
  float inverse = 1.0f / s.density;
  Flow flow = {s.momentum_x * inverse, s.momentum_y * inverse, s.momentum_z * inverse, 0.0f, 0.0f};
  float speed_squared = flow.velocity_x * flow.velocity_x + flow.velocity_y * flow.velocity_y +
                        flow.velocity_z * flow.velocity_z;
  flow.pressure = (kGamma - 1.0f) * (s.energy - 0.5f * s.density * speed_squared);
  flow.wave_speed = sqrtf(speed_squared) + sqrtf(kGamma * flow.pressure * inverse);
  return flow;
}

__device__ void add_flux(float* flux, const State& s, const Flow& f, float nx, float ny, float nz) {
  float through = 0.5f * (f.velocity_x * nx + f.velocity_y * ny + f.velocity_z * nz);
  float push = 0.5f * f.pressure;
  flux[0] += through * s.density;
  flux[1] += through * s.momentum_x + push * nx;
  flux[2] += through * s.momentum_y + push * ny;
  flux[3] += through * s.momentum_z + push * nz;
  flux[4] += through * (s.energy + f.pressure);
}

extern "C" __global__ void cfd_flux(const int* __restrict__ neighbours, const float* __restrict__ normals,
                                    const float* __restrict__ variables, const float* __restrict__ far_field,
                                    float* __restrict__ fluxes, int cells) {
  int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  State mine = load_state(variables, cell, cells);
  Flow my_flow = flow_of(mine);
  float flux[kVariables] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int face = 0; face < kFaces; ++face) {
    int neighbour = neighbours[cell + (long long)face * cells];
    const float* normal = normals + cell + 3LL * face * cells;
    float nx = normal[0], ny = normal[cells], nz = normal[2LL * cells];
    if (neighbour >= 0) {
      State other = load_state(variables, neighbour, cells);
      Flow other_flow = flow_of(other);
      float area = sqrtf(nx * nx + ny * ny + nz * nz);
      float damping = 0.5f * kSmoothing * area * (my_flow.wave_speed + other_flow.wave_speed);
      flux[0] += damping * (mine.density - other.density);
      flux[1] += damping * (mine.momentum_x - other.momentum_x);
      flux[2] += damping * (mine.momentum_y - other.momentum_y);
      flux[3] += damping * (mine.momentum_z - other.momentum_z);
      flux[4] += damping * (mine.energy - other.energy);
      add_flux(flux, mine, my_flow, nx, ny, nz);
      add_flux(flux, other, other_flow, nx, ny, nz);
    } else if (neighbour == kWall) {
      flux[1] += my_flow.pressure * nx;
      flux[2] += my_flow.pressure * ny;
      flux[3] += my_flow.pressure * nz;
    } else {
      State other = load_state(far_field, 0, 1);
      add_flux(flux, mine, my_flow, nx, ny, nz);
      add_flux(flux, other, flow_of(other), nx, ny, nz);
    }
  }
#pragma unroll
  for (int v = 0; v < kVariables; ++v) fluxes[cell + (long long)v * cells] = flux[v];
}
