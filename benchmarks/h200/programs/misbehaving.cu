// What programs do wrong, or do with processes: `crash`, `exit`, `abort`, `fork`, `children`, `nothing`, `endless-records`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime.h>

__global__ void fill(float* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = float(i);
}

__global__ void many(float* values, int n) {
    for (int k = 0; k < 4096; ++k) values[(blockIdx.x * blockDim.x + threadIdx.x + k * 64) % n] += 1.0f;
}

static int work(int offset) {
    float* values = nullptr;
    if (cudaMalloc(&values, 1 << 20) != cudaSuccess) return 3;
    fill<<<256, 256>>>(values + offset, 65536);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}

int main(int, char** arguments) {
    const char* what = arguments[1];
    if (!strcmp(what, "crash")) return work(1 << 30);
    if (!strcmp(what, "exit")) return work(0), 7;
    if (!strcmp(what, "abort")) work(0), abort();
    if (!strcmp(what, "fork")) {  // after CUDA has begun: the child must not use it
        int failed = work(0);
        if (fork() == 0) _exit(0);
        wait(nullptr);
        return failed + work(0);
    }
    if (!strcmp(what, "children")) {  // before CUDA has begun: both may use it
        pid_t child = fork();
        if (child == 0) return work(0);
        int status = 0;
        waitpid(child, &status, 0);
        return work(0) + status;
    }
    if (!strcmp(what, "endless-records")) {
        float* values;
        cudaMalloc(&values, 1 << 26);
        many<<<8192, 256>>>(values, 1 << 24);
        return cudaDeviceSynchronize() != cudaSuccess;
    }
    return 0;
}
