// The same kernels launched one by one and in CUDA graphs: captured from two streams, launched three times, and as the
// child of a graph made of nodes; and a graph with the same kernels several times, one after the other and side by side.
// `graphs conditional` has a kernel in the body of a loop node, which runs three times, between others.
#include "checked.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int kBlocks = 64, kThreads = 256, kValues = kBlocks * kThreads;

__global__ void fill(float* values) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    values[i] = float(i % 7);
}

__global__ void blur(const float* in, float* out) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[threadIdx.x] + tile[(threadIdx.x + 1) % blockDim.x];
}

__global__ void gather(const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 1 + i % 5; ++k) sum += in[(i * 33 + k * 129) % kValues];
    out[i] = sum;
}

__global__ void add(const float* one, const float* other, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] += one[i] + other[i];
}

__global__ void count_down(cudaGraphConditionalHandle again, int* left) {
    if (threadIdx.x == 0) cudaGraphSetConditional(again, --*left > 0);
}

float *values, *blurred, *gathered, *total, *spare;

// blur and gather have no need of each other.
void launch_all(cudaStream_t stream, cudaStream_t other) {
    cudaEvent_t forked, joined;
    CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    fill<<<kBlocks, kThreads, 0, stream>>>(values);
    CHECK(cudaEventRecord(forked, stream));
    CHECK(cudaStreamWaitEvent(other, forked, 0));
    blur<<<kBlocks, kThreads, kThreads * sizeof(float), stream>>>(values, blurred);
    gather<<<kBlocks, kThreads, 0, other>>>(values, gathered);
    CHECK(cudaEventRecord(joined, other));
    CHECK(cudaStreamWaitEvent(stream, joined, 0));
    add<<<kBlocks, kThreads, 0, stream>>>(blurred, gathered, total);
}

// Kernels several times, with grids of two sizes, between them nodes that are no kernels; gather in both branches.
void launch_again(cudaStream_t stream, cudaStream_t other) {
    const int half = kBlocks / 2;
    cudaEvent_t forked, joined;
    CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    fill<<<kBlocks, kThreads, 0, stream>>>(values);
    CHECK(cudaMemsetAsync(total, 0, kValues * sizeof(float), stream));
    blur<<<kBlocks, kThreads, kThreads * sizeof(float), stream>>>(values, blurred);
    CHECK(cudaMemcpyAsync(values, blurred, kValues * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    blur<<<half, kThreads, kThreads * sizeof(float), stream>>>(values, blurred);
    CHECK(cudaEventRecord(forked, stream));
    CHECK(cudaStreamWaitEvent(other, forked, 0));
    gather<<<kBlocks, kThreads, 0, other>>>(values, gathered);
    gather<<<half, kThreads, 0, stream>>>(blurred, spare);
    CHECK(cudaEventRecord(joined, other));
    CHECK(cudaStreamWaitEvent(stream, joined, 0));
    add<<<kBlocks, kThreads, 0, stream>>>(blurred, gathered, total);
    add<<<half, kThreads, 0, stream>>>(blurred, spare, total);
    fill<<<half, kThreads, 0, stream>>>(spare);
}

float sum_of(const float* device) {
    std::vector<float> host(kValues);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host.data(), device, kValues * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float value : host) sum += value;
    return float(sum);
}

int conditional(cudaStream_t stream) {
    int* left;
    CHECK(cudaMalloc(&left, sizeof(int)));
    const int turns = 3;
    CHECK(cudaMemcpy(left, &turns, sizeof turns, cudaMemcpyHostToDevice));
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaGraphNode_t before, loop, body, after;
    cudaGraphConditionalHandle again;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams loop_parameters{};
    loop_parameters.type = cudaGraphNodeTypeConditional;
    loop_parameters.conditional.handle = again;
    loop_parameters.conditional.type = cudaGraphCondTypeWhile;
    loop_parameters.conditional.size = 1;
    void *arguments[] = {&again, &left}, *fill_arguments[] = {&values};
    cudaKernelNodeParams fill_parameters{}, parameters{};
    fill_parameters.func = (void*)fill;
    fill_parameters.gridDim = kBlocks;
    fill_parameters.blockDim = kThreads;
    fill_parameters.kernelParams = fill_arguments;
    CHECK(cudaGraphAddKernelNode(&before, graph, nullptr, 0, &fill_parameters));
    CHECK(cudaGraphAddNode(&loop, graph, &before, nullptr, 1, &loop_parameters));
    CHECK(cudaGraphAddKernelNode(&after, graph, &loop, 1, &fill_parameters));
    parameters.func = (void*)count_down;
    parameters.gridDim = 1;
    parameters.blockDim = 32;
    parameters.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&body, loop_parameters.conditional.phGraph_out[0], nullptr, 0, &parameters));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    fill<<<kBlocks, kThreads, 0, stream>>>(values);
    CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    int still = -1;
    CHECK(cudaMemcpy(&still, left, sizeof still, cudaMemcpyDeviceToHost));
    printf("%d turns left\n", still);
    return still != 0;
}

int main(int count, char** words) {
    for (float** each : {&values, &blurred, &gathered, &total, &spare}) CHECK(cudaMalloc(each, kValues * sizeof(float)));
    CHECK(cudaMemset(total, 0, kValues * sizeof(float)));
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    if (count > 1 && !strcmp(words[1], "conditional")) return conditional(stream);

    launch_all(stream, other);
    const float once = sum_of(total);

    cudaGraph_t captured, made;
    cudaGraphExec_t ready, made_ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch_all(stream, other);
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphCreate(&made, 0));
    cudaGraphNode_t zero, child;
    cudaMemsetParams memset_parameters{};
    memset_parameters.dst = total;
    memset_parameters.elementSize = 4;
    memset_parameters.width = kValues;
    memset_parameters.height = 1;
    CHECK(cudaGraphAddMemsetNode(&zero, made, nullptr, 0, &memset_parameters));
    CHECK(cudaGraphAddChildGraphNode(&child, made, &zero, 1, captured));
    CHECK(cudaGraphInstantiate(&ready, captured, 0));
    CHECK(cudaGraphInstantiate(&made_ready, made, 0));
    CHECK(cudaGraphDestroy(made));
    CHECK(cudaGraphDestroy(captured));

    CHECK(cudaGraphUpload(ready, stream));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(ready, stream));
    const float four_times = sum_of(total);
    CHECK(cudaGraphLaunch(made_ready, stream));
    const float once_again = sum_of(total);
    launch_all(stream, other);
    const float twice = sum_of(total);
    launch_again(stream, other);
    const float chained = sum_of(total);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch_again(stream, other);
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&ready, captured, 0));
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(ready, stream));
    const float chained_again = sum_of(total);
    printf("%g %g %g %g %g %g\n", once, four_times, once_again, twice, chained, chained_again);
    return once == 0 || four_times != 4 * once || once_again != once || twice != 2 * once || chained == 0 ||
           chained_again != chained;
}
