// Small kernels with the control flow that a tracer meets; records of a run on an H200 lie beside this file.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t error = (call);                                              \
        if (error != cudaSuccess) {                                              \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
            std::exit(3);                                                        \
        }                                                                        \
    } while (0)

__global__ void guarded(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + y[i];
}

__global__ void reduce(const float* x, float* sums, int n) {
    __shared__ float part[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) sum += part[w];
        atomicAdd(sums, sum);
    }
}

// A loop without any access, whose length differs from lane to lane.
__global__ void mandelbrot(int* steps, int width, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float cx = -2.0f + 3.0f * (i % width) / width, cy = -1.0f + 2.0f * (i / width) / width, x = 0, y = 0;
    int k = 0;
    while (k < most && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        ++k;
    }
    steps[i] = k;
}

// Rows of different lengths: lanes leave the loop at different times.
__global__ void rows(const int* start, const int* column, const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0.0f;
    for (int k = start[row]; k < start[row + 1]; ++k) sum += x[column[k]];
    y[row] = sum;
}

// Division of doubles calls a function; an array with indices unknown at compile time is local memory.
__global__ void divide(const double* a, const double* b, double* c, const int* order) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double held[8];
    for (int k = 0; k < 8; ++k) held[k] = a[(i + k) % 256] / b[i];
    double sum = 0;
    for (int k = 0; k < 8; ++k) sum += held[order[(i + k) % 8]];
    c[i] = sum;
}

__global__ void choose(const int* what, int* out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = what[i];
    for (int k = 0; k < rounds; ++k) switch ((value + k) & 7) {
            case 0: value = value * 3 + 1; break;
            case 1: value ^= __popc(value) << 3; break;
            case 2: value = out[i] + value; break;
            case 3: out[i] = value; break;
            case 4: value = __brev(value); break;
            case 5: value += atomicAdd(&out[i], 1); break;
            case 6: value = value / (k + 1); break;
            default: value = value - 7; break;
        }
    out[i] = value;
}

__global__ void tensor(const half* a, const half* b, float* c, int k) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) half tile[512];
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x * 8));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place),
                     "l"(a + blockIdx.x * 256 + threadIdx.x * 8));
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
        __syncwarp();
        load_matrix_sync(fa, tile, 16);
        load_matrix_sync(fb, b + i * 16, 16);
        mma_sync(fc, fa, fb, fc);
        __syncwarp();
    }
    store_matrix_sync(c + blockIdx.x * 256, fc, 16, mem_row_major);
}

template <class T>
T* buffer(int n, int modulus) {
    T* host = new T[n];
    unsigned seed = 12345;
    for (int i = 0; i < n; ++i) host[i] = T(float(((seed = seed * 1664525u + 1013904223u) >> 16) % modulus + 1));
    T* device;
    CHECK(cudaMalloc(&device, n * sizeof(T)));
    CHECK(cudaMemcpy(device, host, n * sizeof(T), cudaMemcpyHostToDevice));
    delete[] host;
    return device;
}

int main(int count, char** arguments) {
    if (count > 1 && arguments[1][0] == 'c') std::abort();
    float *x = buffer<float>(4096, 7), *y = buffer<float>(4096, 7);
    int *order = buffer<int>(4096, 7), *out = buffer<int>(4096, 100);
    double *a = buffer<double>(4096, 9), *b = buffer<double>(4096, 9), *c = buffer<double>(4096, 9);
    int start[201], total = 0, *starts;
    for (int i = 0; i <= 200; ++i) start[i] = total, total += (i * 7) % 13;
    CHECK(cudaMalloc(&starts, sizeof start));
    CHECK(cudaMemcpy(starts, start, sizeof start, cudaMemcpyHostToDevice));
    guarded<<<3, 96>>>(x, y, 250);
    reduce<<<2, 256>>>(x, y, 3000);
    mandelbrot<<<4, 64>>>(out, 16, 50);
    rows<<<2, 128>>>(starts, order, x, y, 200);
    divide<<<2, 64>>>(a, b, c, order);
    choose<<<2, 64>>>(order, out, 9);
    tensor<<<2, 32>>>(reinterpret_cast<half*>(x), reinterpret_cast<half*>(y), reinterpret_cast<float*>(c), 64);
    guarded<<<dim3(2, 2), dim3(16, 3)>>>(x, y, 90);
    if (count > 1 && arguments[1][0] == 'w') guarded<<<1, 32>>>(nullptr, y, 32);
    CHECK(cudaDeviceSynchronize());
    std::puts("done");
}
