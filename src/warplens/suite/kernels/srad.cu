// Speckle reducing anisotropic diffusion of an image, with mirrored edges.

// Step 1: differences to the four neighbours, and the diffusion coefficient they give.
extern "C" __global__ void srad_step1(const float* __restrict__ image, float* __restrict__ north_difference,
                                      float* __restrict__ south_difference, float* __restrict__ west_difference,
                                      float* __restrict__ east_difference, float* __restrict__ coefficient,
                                      int width, int height, float q0_squared) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  long long cell = (long long)y * width + x;
  float centre = image[cell];
  float north = (y > 0 ? image[cell - width] : centre) - centre;
  float south = (y < height - 1 ? image[cell + width] : centre) - centre;
  float west = (x > 0 ? image[cell - 1] : centre) - centre;
  float east = (x < width - 1 ? image[cell + 1] : centre) - centre;

  float gradient = (north * north + south * south + west * west + east * east) / (centre * centre);
  float laplacian = (north + south + west + east) / centre;
  float numerator = 0.5f * gradient - 0.0625f * laplacian * laplacian;
  float denominator = 1.0f + 0.25f * laplacian;
  float q_squared = numerator / (denominator * denominator);
  float excess = (q_squared - q0_squared) / (q0_squared * (1.0f + q0_squared));
  float c = 1.0f / (1.0f + excess);

  north_difference[cell] = north;
  south_difference[cell] = south;
  west_difference[cell] = west;
  east_difference[cell] = east;
  coefficient[cell] = fminf(fmaxf(c, 0.0f), 1.0f);
}

// Step 2: the divergence of the diffusion, added to the image.
extern "C" __global__ void srad_step2(const float* __restrict__ north_difference,
                                      const float* __restrict__ south_difference,
                                      const float* __restrict__ west_difference,
                                      const float* __restrict__ east_difference,
                                      const float* __restrict__ coefficient, float* __restrict__ image, int width,
                                      int height, float lambda) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  long long cell = (long long)y * width + x;
  float here = coefficient[cell];
  float south = y < height - 1 ? coefficient[cell + width] : here;
  float east = x < width - 1 ? coefficient[cell + 1] : here;
  float divergence = here * north_difference[cell] + south * south_difference[cell] + here * west_difference[cell] +
                     east * east_difference[cell];
  image[cell] += 0.25f * lambda * divergence;
}
