// Kinds of memory: surfaces, a 3-D texture, a constant array with an index of its own in each lane, host memory that the
// GPU reads, a pool, malloc in a kernel, an assert that holds; kernels of one name, and a template with a very long one.
#include "checked.h"
#include <cassert>
#include <utility>

__constant__ float weights[256];

__global__ void surfaced(cudaSurfaceObject_t surface, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float value;
    surf2Dread(&value, surface, x * 4, y);
    surf2Dwrite(value + 1, surface, (width - 1 - x) * 4, y);
}
__global__ void textured(cudaTextureObject_t texture, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex3D<float>(texture, i % 32 + 0.25f, i / 32 % 32 + 0.5f, i / 1024 % 32 + 0.75f);
}
__global__ void indexed(const int* index, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = weights[index[i] & 255] + weights[threadIdx.x & 7];
}
__global__ void from_host(const float* host, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += host[i];
}
__global__ void allocating(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float* mine = static_cast<float*>(malloc(16 * sizeof(float)));
    assert(mine != nullptr);
    for (int k = 0; k < 16; ++k) mine[k] = out[i] + k;
    out[i] = mine[i % 16];
    free(mine);
}
namespace one {
__global__ void same(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
}
namespace two {
__global__ void same(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] += out[threadIdx.x]; }
}
template <int... Numbers> struct Pack {};
template <class T> __global__ void long_name(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] *= sizeof(T*); }
template <int... Numbers>
void launch_long_name(float* out, std::integer_sequence<int, Numbers...>) {
    long_name<Pack<(Numbers + 100000)...>><<<16, 64>>>(out);
}
__global__ void nothing() {}

int main() {
    const int n = 1 << 15;
    float *out, *host, *pooled;
    int* index;
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    CHECK(cudaMallocManaged(&index, n * sizeof(int)));
    for (int i = 0; i < n; ++i) index[i] = i * 37;
    CHECK(cudaHostAlloc(&host, n * sizeof(float), cudaHostAllocMapped));
    float values[256];
    for (int i = 0; i < 256; ++i) values[i] = i;
    CHECK(cudaMemcpyToSymbol(weights, values, sizeof values));
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t flat, cube;
    CHECK(cudaMallocArray(&flat, &format, 256, 128, cudaArraySurfaceLoadStore));
    CHECK(cudaMalloc3DArray(&cube, &format, make_cudaExtent(32, 32, 32)));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = flat;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    resource.res.array.array = cube;
    cudaTextureDesc description{};
    description.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    surfaced<<<dim3(8, 16), dim3(32, 8)>>>(surface, 256, 128);
    textured<<<n / 256, 256>>>(texture, out, n);
    indexed<<<n / 256, 256>>>(index, out, n);
    from_host<<<n / 256, 256>>>(host, out, n);
    allocating<<<8, 64>>>(out, 512);
    one::same<<<16, 64>>>(out);
    two::same<<<16, 64>>>(out);
    launch_long_name(out, std::make_integer_sequence<int, 400>());
    nothing<<<4, 32>>>();
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocAsync(&pooled, n * sizeof(float), stream));
    from_host<<<n / 256, 256, 0, stream>>>(host, pooled, n);
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
