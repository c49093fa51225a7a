// Uses each part of the runtime API that programs use, and checks its own results: `api PART…` prints a line for each
// part, the same here and on a GPU.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <map>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static int failures = 0;

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      printf("line %d: %s does not hold\n", __LINE__, #condition); \
      failures++; \
    } \
  } while (0)
#define GOOD(call) CHECK((call) == cudaSuccess)

__constant__ int offsets[4] = {1, 2, 3, 4};
__device__ int counter;
__managed__ int shared_count = 5;

__global__ void add(int* values, int n, int what) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += what;
}

__global__ void add_offsets(int* values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += offsets[i % 4];
  if (i == 0) atomicAdd(&counter, n);
}

__global__ void reverse(int* values) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void touch_managed() { atomicAdd(&shared_count, 1); }

__global__ void store(int* at, int value) { *at = value; }

__global__ void say(int what) {
  if (threadIdx.x == 1) printf("block %d says %d and %.1f\n", blockIdx.x, what, 0.5 * what);
}

template <typename T>
__global__ void scale(T* values, T by) {
  values[threadIdx.x] *= by;
}

__global__ void sample(cudaTextureObject_t image, cudaTextureObject_t line, cudaSurfaceObject_t out, int width) {
  int x = threadIdx.x, y = blockIdx.x;
  float value = tex2D<float>(image, x + 1.0f, y + 0.5f) + tex1Dfetch<float>(line, x);
  surf2Dwrite(value, out, x * (int)sizeof(float), y);
}

// Each block adds what the one before it stored, on the other side of a barrier of the whole grid.
__global__ void pass_on(int* values) {
  auto grid = cooperative_groups::this_grid();
  if (threadIdx.x == 0) values[blockIdx.x] = blockIdx.x + 1;
  grid.sync();
  int before = values[(blockIdx.x + gridDim.x - 1) % gridDim.x];
  grid.sync();
  if (threadIdx.x == 0) values[blockIdx.x] += 100 * before;
}

__global__ void neighbour(int* values) {
  __shared__ int mine;
  auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) mine = blockIdx.x;
  cluster.sync();
  if (threadIdx.x == 0) values[blockIdx.x] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);
  cluster.sync();
}

// Copies a box of a tensor, or a column of its pixels with the filter moved by (1, 2), to global memory.
__global__ void copy_by_map(const __grid_constant__ CUtensorMap map, int* out, int count, int w, int h, bool pixels) {
  __shared__ alignas(128) int tile[1024];
  __shared__ alignas(8) unsigned long long arrived;
  unsigned bar = __cvta_generic_to_shared(&arrived), to = __cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count * 4));
    if (pixels)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%2, %3, %4, %2}], [%5], {%6, %7};" ::"r"(to), "l"(&map), "r"(0), "r"(w), "r"(h), "r"(bar),
          "h"((short)1), "h"((short)2));
    else
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(w), "r"(h), "r"(bar));
  }
  __syncthreads();
  int there = 0;
  while (!there)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                 : "=r"(there)
                 : "r"(bar));
  for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = tile[i];
}

static std::vector<int> numbers(int n) {
  std::vector<int> made(n);
  for (int i = 0; i < n; i++) made[i] = i;
  return made;
}

static void memory() {
  const int n = 1000;
  std::vector<int> host = numbers(n), back(n);
  int* device = nullptr;
  GOOD(cudaMalloc(&device, n * sizeof(int)));
  GOOD(cudaMemcpy(device, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  add<<<4, 256>>>(device, n, 7);
  GOOD(cudaMemcpy(back.data(), device, n * sizeof(int), cudaMemcpyDefault));
  CHECK(back[0] == 7 && back[n - 1] == n + 6);
  GOOD(cudaMemset(device, 1, 16));
  GOOD(cudaMemcpy(back.data(), device, 16, cudaMemcpyDeviceToHost));
  CHECK(back[3] == 0x01010101);
  int* other = nullptr;
  GOOD(cudaMallocAsync(&other, n * sizeof(int), 0));
  GOOD(cudaMemcpyAsync(other, device, n * sizeof(int), cudaMemcpyDeviceToDevice, 0));
  GOOD(cudaMemcpy(back.data(), other, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(back[n - 1] == n + 6);
  cudaPointerAttributes about;
  GOOD(cudaPointerGetAttributes(&about, device));
  CHECK(about.type == cudaMemoryTypeDevice && about.devicePointer == device);
  GOOD(cudaPointerGetAttributes(&about, host.data()));
  CHECK(about.type == cudaMemoryTypeUnregistered);
  GOOD(cudaFreeAsync(other, 0));
  GOOD(cudaFree(device));
  GOOD(cudaFree(nullptr));
  size_t free_bytes, total;
  GOOD(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes > 0 && free_bytes <= total);
}

static void pitched() {
  const int width = 100, height = 20;
  std::vector<int> host = numbers(width * height), back(width * height);
  int* device;
  size_t pitch;
  GOOD(cudaMallocPitch(&device, &pitch, width * sizeof(int), height));
  CHECK(pitch >= width * sizeof(int));
  GOOD(cudaMemcpy2D(device, pitch, host.data(), width * sizeof(int), width * sizeof(int), height, cudaMemcpyHostToDevice));
  GOOD(cudaMemset2D(device, pitch, 0, sizeof(int), height));
  GOOD(cudaMemcpy2D(back.data(), width * sizeof(int), device, pitch, width * sizeof(int), height, cudaMemcpyDeviceToHost));
  CHECK(back[0] == 0 && back[width] == 0 && back[width + 1] == width + 1 && back.back() == host.back());
  cudaExtent extent = make_cudaExtent(width * sizeof(int), 5, 4);
  cudaPitchedPtr volume;
  GOOD(cudaMalloc3D(&volume, extent));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(host.data(), width * sizeof(int), width, 5);
  copy.dstPtr = volume;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  GOOD(cudaMemcpy3D(&copy));
  std::fill(back.begin(), back.end(), 0);
  copy.srcPtr = volume;
  copy.dstPtr = make_cudaPitchedPtr(back.data(), width * sizeof(int), width, 5);
  copy.kind = cudaMemcpyDeviceToHost;
  GOOD(cudaMemcpy3D(&copy));
  CHECK(back == host);
  GOOD(cudaFree(volume.ptr));
  GOOD(cudaFree(device));
}

static void mapped() {
  int *pinned, *managed, *seen;
  GOOD(cudaHostAlloc(&pinned, 256 * sizeof(int), cudaHostAllocMapped));
  GOOD(cudaMallocManaged(&managed, 256 * sizeof(int)));
  for (int i = 0; i < 256; i++) pinned[i] = managed[i] = i;
  GOOD(cudaHostGetDevicePointer(&seen, pinned, 0));
  add<<<1, 256>>>(seen, 256, 1);
  add<<<1, 256>>>(managed, 256, 2);
  touch_managed<<<2, 32>>>();
  GOOD(cudaDeviceSynchronize());
  CHECK(pinned[255] == 256 && managed[255] == 257 && shared_count == 69);
  std::vector<int> own = numbers(4096);
  GOOD(cudaHostRegister(own.data(), own.size() * sizeof(int), cudaHostRegisterMapped));
  GOOD(cudaHostGetDevicePointer(&seen, own.data(), 0));
  add<<<16, 256>>>(seen, 4096, 3);
  GOOD(cudaDeviceSynchronize());
  CHECK(own[0] == 3 && own[4095] == 4098);
  GOOD(cudaHostUnregister(own.data()));
  CHECK(own[4095] == 4098);
  GOOD(cudaFreeHost(pinned));
  GOOD(cudaFree(managed));
}

static void symbols() {
  int given[4] = {10, 20, 30, 40}, *device, total = 0;
  std::vector<int> host(8);
  GOOD(cudaMalloc(&device, 8 * sizeof(int)));
  GOOD(cudaMemset(device, 0, 8 * sizeof(int)));
  GOOD(cudaMemcpyToSymbol(offsets, given, 2 * sizeof(int), 2 * sizeof(int)));
  GOOD(cudaMemcpyToSymbol(counter, &total, sizeof total));
  add_offsets<<<1, 32>>>(device, 8);
  GOOD(cudaMemcpy(host.data(), device, 8 * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(host[0] == 1 && host[1] == 2 && host[2] == 10 && host[7] == 20);
  GOOD(cudaMemcpyFromSymbol(&total, counter, sizeof total));
  CHECK(total == 8);
  void* address;
  size_t bytes;
  GOOD(cudaGetSymbolAddress(&address, counter));
  GOOD(cudaGetSymbolSize(&bytes, offsets));
  CHECK(address && bytes == 16);
  GOOD(cudaFree(device));
}

static void streams() {
  cudaStream_t first, second;
  cudaEvent_t start, stop;
  int* device;
  GOOD(cudaStreamCreate(&first));
  GOOD(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  GOOD(cudaEventCreate(&start));
  GOOD(cudaEventCreate(&stop));
  GOOD(cudaMalloc(&device, 1024 * sizeof(int)));
  GOOD(cudaMemsetAsync(device, 0, 1024 * sizeof(int), first));
  GOOD(cudaEventRecord(start, first));
  for (int i = 0; i < 4; i++) add<<<4, 256, 0, first>>>(device, 1024, 1);
  GOOD(cudaEventRecord(stop, first));
  GOOD(cudaStreamWaitEvent(second, stop, 0));
  add<<<4, 256, 0, second>>>(device, 1024, 10);
  int called = 0;
  GOOD(cudaLaunchHostFunc(second, [](void* data) { *static_cast<int*>(data) = 1; }, &called));
  GOOD(cudaStreamSynchronize(second));
  CHECK(called == 1);
  float milliseconds = -1;
  GOOD(cudaEventElapsedTime(&milliseconds, start, stop));
  CHECK(milliseconds > 0.001f && milliseconds < 100.0f);
  int value;
  GOOD(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 14);
  CHECK(cudaStreamQuery(first) == cudaSuccess && cudaEventQuery(stop) == cudaSuccess);
  GOOD(cudaFree(device));
  GOOD(cudaStreamDestroy(first));
  GOOD(cudaStreamDestroy(second));
  GOOD(cudaEventDestroy(start));
  GOOD(cudaEventDestroy(stop));
}

static void launches() {
  int* device;
  std::vector<int> host = numbers(256), back(256);
  GOOD(cudaMalloc(&device, 256 * sizeof(int)));
  GOOD(cudaMemcpy(device, host.data(), 256 * sizeof(int), cudaMemcpyHostToDevice));
  reverse<<<1, 256, 256 * sizeof(int)>>>(device);
  int n = 256, what = 5;
  void* arguments[] = {&device, &n, &what};
  GOOD(cudaLaunchKernel((const void*)add, dim3(2), dim3(128), arguments, 0, 0));
  GOOD(cudaLaunchCooperativeKernel((const void*)add, dim3(2), dim3(128), arguments, 0, 0));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(128);
  GOOD(cudaLaunchKernelEx(&config, add, device, n, what));
  GOOD(cudaMemcpy(back.data(), device, 256 * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(back[0] == 255 + 15 && back[255] == 15);
  double *values, result;
  GOOD(cudaMalloc(&values, 32 * sizeof(double)));
  GOOD(cudaMemset(values, 0, 32 * sizeof(double)));
  scale<double><<<1, 32>>>(values, 2.0);
  GOOD(cudaMemcpy(&result, values, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(result == 0.0);
  GOOD(cudaFree(values));
  GOOD(cudaFree(device));
}

static void queries() {
  int count = 0, device = -1, value = 0, blocks = 0, least = 0, threads = 0;
  GOOD(cudaGetDeviceCount(&count));
  GOOD(cudaGetDevice(&device));
  CHECK(count >= 1 && device == 0);
  cudaDeviceProp properties;
  GOOD(cudaGetDeviceProperties(&properties, 0));
  GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(value == properties.multiProcessorCount && properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024);
  CHECK(properties.sharedMemPerBlock == 49152 && properties.totalConstMem == 65536 && properties.managedMemory == 1);
  CHECK(properties.maxGridSize[0] == 2147483647 && properties.maxThreadsDim[2] == 64 && properties.cooperativeLaunch);
  cudaFuncAttributes about;
  GOOD(cudaFuncGetAttributes(&about, add));
  CHECK(about.maxThreadsPerBlock == 1024 && about.numRegs > 0 && about.sharedSizeBytes == 0);
  GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  CHECK(blocks == properties.maxThreadsPerMultiProcessor / 256);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 2, 1};
  cudaLaunchConfig_t shape = {};
  shape.gridDim = {4, 4, 1}, shape.blockDim = {256, 1, 1}, shape.attrs = &cluster, shape.numAttrs = 1;
  GOOD(cudaOccupancyMaxActiveClusters(&value, add, &shape));
  CHECK(value > blocks && value <= blocks * properties.multiProcessorCount / 4);
  GOOD(cudaOccupancyMaxPotentialClusterSize(&value, add, &shape));
  CHECK(value == 8);
  GOOD(cudaOccupancyMaxPotentialBlockSize(&least, &threads, add, 0, 0));
  CHECK(least >= properties.multiProcessorCount && threads % 32 == 0);
  printf("%d.%d: %d SMs, %d registers, %zu bytes of shared memory\n", properties.major, properties.minor,
         properties.multiProcessorCount, properties.regsPerMultiprocessor, properties.sharedMemPerMultiprocessor);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
}

static void graphs() {
  cudaStream_t stream, side;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t fork, join;
  int *device, value;
  GOOD(cudaStreamCreate(&stream));
  GOOD(cudaStreamCreate(&side));
  GOOD(cudaEventCreate(&fork));
  GOOD(cudaEventCreate(&join));
  GOOD(cudaMalloc(&device, 64 * sizeof(int)));
  GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  GOOD(cudaMemsetAsync(device, 0, 64 * sizeof(int), stream));
  add<<<1, 64, 0, stream>>>(device, 64, 1);
  GOOD(cudaEventRecord(fork, stream));
  GOOD(cudaStreamWaitEvent(side, fork, 0));
  add<<<1, 64, 0, side>>>(device, 64, 2);
  GOOD(cudaEventRecord(join, side));
  GOOD(cudaStreamWaitEvent(stream, join, 0));
  add<<<1, 64, 0, stream>>>(device, 64, 4);
  GOOD(cudaStreamEndCapture(stream, &graph));
  GOOD(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; i++) GOOD(cudaGraphLaunch(executable, stream));
  GOOD(cudaStreamSynchronize(stream));
  GOOD(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 7);
  size_t nodes = 0;
  GOOD(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 4);
  GOOD(cudaGraphExecDestroy(executable));
  GOOD(cudaGraphDestroy(graph));
  GOOD(cudaFree(device));
}

static void errors() {
  int* device;
  GOOD(cudaMalloc(&device, 1024));
  constexpr cudaError_t shape = CUDART_VERSION < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
  const dim3 shapes[][2] = {{1, 2048}, {1, dim3(64, 32)}, {1, dim3(1, 1, 65)}, {0, 32}, {1, 0}, {dim3(1, 70000), 32}};
  for (auto& each : shapes) {
    add<<<each[0], each[1]>>>(device, 256, 1);
    CHECK(cudaGetLastError() == shape);
  }
  for (int bytes : {(48 << 10) + 16, 100 << 20}) {
    add<<<1, 32, bytes>>>(device, 256, 1);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  }
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(16);
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  for (int blocks : {3, 16}) {
    attribute.val.clusterDim.x = blocks;
    CHECK(cudaLaunchKernelEx(&config, add, device, 256, 1) == cudaErrorInvalidClusterSize);
    cudaGetLastError();
  }
  CHECK(cudaMemcpy(device, device, 16, (cudaMemcpyKind)77) == cudaErrorInvalidMemcpyDirection);
  void* huge;
  CHECK(cudaMalloc(&huge, size_t(1) << 50) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  CHECK(!strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress"));
  CHECK(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
  store<<<1, 1>>>(device + 4096, 1);  // within the page that is mapped: only a sanitizer sees it
  cudaDeviceSynchronize();
  store<<<1, 1>>>(device + (size_t(1) << 32), 1);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaMemset(device, 0, 4) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
}

static void grids() {
  int *device, host[8];
  GOOD(cudaMalloc(&device, sizeof host));
  void* arguments[] = {&device};
  GOOD(cudaLaunchCooperativeKernel((const void*)pass_on, dim3(8), dim3(64), arguments, 0, 0));
  GOOD(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 801 && host[7] == 708);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  GOOD(cudaLaunchKernelEx(&config, neighbour, device));
  GOOD(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 1 && host[1] == 0 && host[7] == 6);
  GOOD(cudaFree(device));
}

static void textures() {
  const int width = 32, height = 4;
  std::vector<float> host(width * height), back(width * height);
  for (size_t i = 0; i < host.size(); i++) host[i] = float(i);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t image, out;
  GOOD(cudaMallocArray(&image, &format, width, height));
  GOOD(cudaMallocArray(&out, &format, width, height, cudaArraySurfaceLoadStore));
  GOOD(cudaMemcpy2DToArray(image, 0, 0, host.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  float* line;
  GOOD(cudaMalloc(&line, width * 4));
  GOOD(cudaMemcpy(line, host.data(), width * 4, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = image;
  cudaTextureDesc reading = {};
  reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeClamp;
  reading.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t smooth, plain;
  GOOD(cudaCreateTextureObject(&smooth, &resource, &reading, nullptr));
  cudaSurfaceObject_t surface;
  resource.res.array.array = out;
  GOOD(cudaCreateSurfaceObject(&surface, &resource));
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = line;
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = width * 4;
  reading = {};
  GOOD(cudaCreateTextureObject(&plain, &resource, &reading, nullptr));
  sample<<<height, width>>>(smooth, plain, surface, width);
  GOOD(cudaMemcpy2DFromArray(back.data(), width * 4, out, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
  CHECK(back[0] == 0.5f && back[31] == 62.0f && back[32] == 32.5f);
  GOOD(cudaDestroyTextureObject(smooth));
  GOOD(cudaDestroySurfaceObject(surface));
  GOOD(cudaFreeArray(image));
}

static void tensor_maps() {
  int *device, *out;
  const int width = 20, height = 12;
  std::vector<int> given = numbers(2 * 6 * 5 * 4), back(64);
  GOOD(cudaMalloc(&device, given.size() * 4));
  GOOD(cudaMalloc(&out, back.size() * 4));
  GOOD(cudaMemcpy(device, given.data(), given.size() * 4, cudaMemcpyHostToDevice));
  void *tiled, *columns;
  GOOD(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &tiled, 12000, cudaEnableDefault, nullptr));
  GOOD(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &columns, 12000, cudaEnableDefault, nullptr));

  CUtensorMap map;
  cuuint64_t sizes[] = {width, height}, strides[] = {width * 4};
  cuuint32_t box[] = {8, 4}, ones[] = {1, 1, 1, 1};
  auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(tiled);
  auto made = [&](unsigned rank) {
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, rank, device, sizes, strides, box, ones,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CHECK(made(6) == CUDA_ERROR_INVALID_VALUE);
  CHECK(made(2) == CUDA_SUCCESS);
  copy_by_map<<<1, 32>>>(map, out, 32, 16, 9, false);
  GOOD(cudaMemcpy(back.data(), out, 32 * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) {
    int x = 16 + i % 8, y = 9 + i / 8;
    CHECK(back[i] == (x < width && y < height ? y * width + x : 0));
  }

  cuuint64_t image[] = {4, 5, 6, 2}, apart[] = {16, 80, 480};  // C, W, H, N
  int lower[] = {-1, -1}, upper[] = {-1, -1};
  auto encode_columns = reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(columns);
  CHECK(encode_columns(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, device, image, apart, lower, upper, 4, 16, ones,
                       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
  copy_by_map<<<1, 32>>>(map, out, 64, 2, 3, true);
  GOOD(cudaMemcpy(back.data(), out, 64 * 4, cudaMemcpyDeviceToHost));
  int w = 2, h = 3, n = 0;
  for (int pixel = 0; pixel < 16; pixel++) {
    int x = w + 1, y = h + 2;
    bool inside = x >= 0 && x < 5 && y >= 0 && y < 6;
    for (int c = 0; c < 4; c++) CHECK(back[4 * pixel + c] == (inside ? ((n * 6 + y) * 5 + x) * 4 + c : 0));
    if (++w > 3) {
      w = -1;
      if (++h > 4) h = -1, n++;
    }
  }
}

static void printing() {
  for (int i = 0; i < 3; i++) say<<<2, 2>>>(i);
  GOOD(cudaDeviceSynchronize());
}

static void threads() {
  std::vector<std::thread> all;
  std::vector<int> results(4);
  for (int t = 0; t < 4; t++)
    all.emplace_back([t, &results] {
      int* device;
      cudaMalloc(&device, 64 * sizeof(int));
      cudaMemset(device, 0, 64 * sizeof(int));
      for (int i = 0; i < 5; i++) add<<<1, 64, 0, cudaStreamPerThread>>>(device, 64, t);
      cudaMemcpyAsync(&results[t], device, sizeof(int), cudaMemcpyDeviceToHost, cudaStreamPerThread);
      cudaStreamSynchronize(cudaStreamPerThread);
      cudaFree(device);
    });
  for (auto& each : all) each.join();
  CHECK(results[0] == 0 && results[1] == 5 && results[3] == 15);
}

static void children() {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int *device, value = 0;
    cudaMalloc(&device, 64 * sizeof(int));
    cudaMemset(device, 0, 64 * sizeof(int));
    add<<<1, 64>>>(device, 64, 3);
    cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost);
    _exit(value);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

int main(int count, char** given) {
  const std::map<std::string, void (*)()> parts = {
      {"memory", memory},     {"pitched", pitched}, {"mapped", mapped}, {"symbols", symbols},
      {"streams", streams},   {"launches", launches}, {"queries", queries}, {"graphs", graphs},
      {"errors", errors},     {"printing", printing}, {"textures", textures}, {"grids", grids}, {"threads", threads}, {"children", children},
      {"tensor_maps", tensor_maps}};
  for (int i = 1; i < count; i++) {
    int before = failures;
    parts.at(given[i])();
    printf("%s: %s\n", given[i], failures == before ? "good" : "bad");
  }
  return failures != 0;
}
