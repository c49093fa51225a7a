// Language features that a tracer may stumble over: streams, cooperative launches, recursion, indirect calls, clusters,
// textures, graphs, printf, managed memory, several contexts of templates.
#include "checked.h"
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

template <typename T>
__global__ void scale(T* values, T factor, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] *= factor;
}

__global__ void grid_sum(const float* in, float* partial, float* out, int n) {
    cg::grid_group grid = cg::this_grid();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
    float sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += in[i];
    for (int offset = 16; offset; offset /= 2) sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0) atomicAdd(&partial[blockIdx.x], sum);
    grid.sync();
    if (grid.thread_rank() == 0)
        for (int i = 0; i < gridDim.x; ++i) *out += partial[i];
}

__device__ __noinline__ int collatz(unsigned n) { return n <= 1 ? 0 : 1 + collatz(n % 2 ? 3 * n + 1 : n / 2); }

__global__ void recursive(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = collatz(i % 97 + 1);
}

struct Shape {
    __device__ virtual float area(float x) const = 0;
};
struct Square : Shape {
    __device__ float area(float x) const override { return x * x; }
};
struct Disc : Shape {
    __device__ float area(float x) const override { return 3.14159f * x * x; }
};

__global__ void indirect(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Square square;
    Disc disc;
    const Shape* shape = in[i] > 0.5f ? static_cast<const Shape*>(&square) : &disc;
    out[i] = shape->area(in[i]);
}

__global__ void __cluster_dims__(2, 1, 1) clustered(const float* in, float* out, int n) {
    __shared__ float mine[256];
    cg::cluster_group cluster = cg::this_cluster();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = i < n ? in[i] : 0;
    cluster.sync();
    const float* other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    if (i < n) out[i] = mine[threadIdx.x] + other[threadIdx.x];
    cluster.sync();
}

__global__ void textured(cudaTextureObject_t texture, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(texture, i) + tex1Dfetch<float>(texture, (i * 7) % n);
}

__global__ void spilling(const double* in, double* out, int n) {
    double held[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < 64; ++k) held[k] = in[(i + k) % n];
    for (int k = 0; k < 64; ++k) held[(k * (i % 5 + 1)) % 64] += sqrt(held[k]);
    double sum = 0;
    for (int k = 0; k < 64; ++k) sum += held[k];
    out[i] = sum;
}

__global__ void saying(int n) {
    if (threadIdx.x == 0 && blockIdx.x < n) printf("block %d\n", blockIdx.x);
}

int main() {
    const int n = 1 << 18;
    float *a, *b, *c, *d;
    double *x, *y;
    int* numbers;
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMalloc(&b, n * sizeof(float)));
    CHECK(cudaMalloc(&c, n * sizeof(float)));
    CHECK(cudaMallocManaged(&d, n * sizeof(float)));
    CHECK(cudaMalloc(&x, n * sizeof(double)));
    CHECK(cudaMalloc(&y, n * sizeof(double)));
    CHECK(cudaMalloc(&numbers, n * sizeof(int)));
    for (int i = 0; i < n; ++i) d[i] = float(i % 1000) / 1000;
    CHECK(cudaMemcpy(a, d, n * sizeof(float), cudaMemcpyDefault));
    CHECK(cudaMemset(b, 0, n * sizeof(float)));
    CHECK(cudaMemset(c, 0, n * sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(double)));
    cudaStream_t streams[4];
    for (auto& stream : streams) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        scale<float><<<64, 256, 0, stream>>>(d, 1.5f, n);
        scale<double><<<32, 128, 0, stream>>>(x, 2.0, n);
    }
    CHECK(cudaDeviceSynchronize());
    int size = n;
    void* arguments[] = {&a, &b, &c, &size};
    CHECK(cudaLaunchCooperativeKernel((void*)grid_sum, 132, 256, arguments, 0, nullptr));
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    recursive<<<64, 128>>>(numbers, 64 * 128);
    CHECK(cudaDeviceSynchronize());
    indirect<<<256, 128>>>(a, b, 256 * 128);
    clustered<<<64, 256>>>(a, b, 64 * 256);
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = a;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = n * sizeof(float);
    cudaTextureDesc description{};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    textured<<<64, 256>>>(texture, b, 64 * 256);
    spilling<<<132, 64>>>(x, y, n);
    saying<<<2, 32>>>(1);
    CHECK(cudaDeviceSynchronize());
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    scale<float><<<16, 256, 0, streams[0]>>>(a, 1.1f, n);
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphLaunch(ready, streams[0]));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
