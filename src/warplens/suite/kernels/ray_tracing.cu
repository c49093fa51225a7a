// Ray tracing of mirroring spheres over a dark background: nearest hit, one directional light
// without shadows, and up to kBounces reflections per pixel.
constexpr int kBounces = 3;

struct Vector {
  float x, y, z;
};

__device__ Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__device__ Vector operator*(float s, Vector a) { return {s * a.x, s * a.y, s * a.z}; }
__device__ float dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ Vector unit(Vector a) { return (1.0f / sqrtf(dot(a, a))) * a; }

// spheres: centre x, y, z, radius, brightness, reflectivity
extern "C" __global__ void ray_tracing(const float* __restrict__ spheres, int count, float* __restrict__ image,
                                       int width, int height) {
  int px = blockIdx.x * blockDim.x + threadIdx.x;
  int py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  Vector light = {0.48f, 0.8f, -0.36f};
  Vector origin = {0.0f, 0.0f, -4.0f};
  Vector direction = unit({(px + 0.5f - 0.5f * width) / height, (0.5f * height - py - 0.5f) / height, 1.0f});

  float colour = 0.0f, weight = 1.0f;
  for (int bounce = 0; bounce < kBounces; ++bounce) {
    float nearest = 1e30f;
    int hit = -1;
    for (int s = 0; s < count; ++s) {
      const float* sphere = spheres + 6 * s;
      Vector offset = origin - Vector{sphere[0], sphere[1], sphere[2]};
      float b = dot(offset, direction);
      float c = dot(offset, offset) - sphere[3] * sphere[3];
      float discriminant = b * b - c;
      if (discriminant > 0.0f) {
        float distance = -b - sqrtf(discriminant);
        if (distance > 1e-3f && distance < nearest) {
          nearest = distance;
          hit = s;
        }
      }
    }
    if (hit < 0) {
      colour += weight * 0.1f;
      break;
    }
    const float* sphere = spheres + 6 * hit;
    origin = origin + nearest * direction;
    Vector normal = (1.0f / sphere[3]) * (origin - Vector{sphere[0], sphere[1], sphere[2]});
    float diffuse = fmaxf(dot(normal, light), 0.0f);
    colour += weight * sphere[4] * (0.2f + 0.8f * diffuse);
    weight *= sphere[5];
    direction = direction - (2.0f * dot(direction, normal)) * normal;
  }
  image[(long long)py * width + px] = colour;
}
