// Memory, streams and events of the driver API: the runtime's under other names.
#include <cstring>

#include "objects.h"

using namespace warplens;

typedef uint64_t Address;

static void* at(Address address) { return reinterpret_cast<void*>(address); }

// `FORWARD(cuName, cudaName, (parameters), (arguments))`: the same function of the runtime.
#define FORWARD(driver, runtime, parameters, arguments) \
  extern "C" int runtime parameters; \
  API int driver parameters { return runtime arguments; }

// -- allocations ----------------------------------------------------------------------------------------------

API int cuMemAlloc_v2(Address* address, size_t bytes) {
  return bytes == 0 ? int(INVALID_VALUE) : allocate(reinterpret_cast<void**>(address), bytes, DEVICE);
}
API int cuMemAllocAsync(Address* address, size_t bytes, void*) { return cuMemAlloc_v2(address, bytes); }
API int cuMemAllocManaged(Address* address, size_t bytes, unsigned flags) {
  return allocate(reinterpret_cast<void**>(address), bytes, MANAGED, flags);
}
API int cuMemAllocHost_v2(void** pointer, size_t bytes) { return allocate(pointer, bytes, PINNED); }
API int cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return allocate(pointer, bytes, PINNED, flags);
}
API int cuMemFree_v2(Address address) { return release(at(address)); }
API int cuMemFreeAsync(Address address, void*) { return release(at(address)); }
API int cuMemFreeHost(void* pointer) { return release(pointer); }
API int cuMemAllocPitch_v2(Address* address, size_t* pitch, size_t width, size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(reinterpret_cast<void**>(address), *pitch * height, DEVICE);
}
API int cuMemGetAddressRange_v2(Address* base, size_t* bytes, Address address) {
  uintptr_t start;
  Block block;
  if (!find_block(at(address), &start, &block)) return NOT_FOUND;
  if (base) *base = start;
  if (bytes) *bytes = block.bytes;
  return SUCCESS;
}
API int cuPointerGetAttribute(void* value, int attribute, Address address) {
  constexpr int CONTEXT = 1, TYPE = 2, DEVICE_POINTER = 3, HOST_POINTER = 4, MANAGED_MEMORY = 8, ORDINAL = 9;
  uintptr_t start;
  Block block;
  if (!find_block(at(address), &start, &block)) return INVALID_VALUE;
  switch (attribute) {
    case CONTEXT: *static_cast<void**>(value) = nullptr; break;
    case TYPE: *static_cast<unsigned*>(value) = block.kind == PINNED ? 1 : 2; break;
    case DEVICE_POINTER:
    case HOST_POINTER: *static_cast<Address*>(value) = address; break;
    case MANAGED_MEMORY: *static_cast<bool*>(value) = block.kind == MANAGED; break;
    case ORDINAL: *static_cast<int*>(value) = 0; break;
    default: return NOT_SUPPORTED;
  }
  return SUCCESS;
}
FORWARD(cuMemGetInfo_v2, cudaMemGetInfo, (size_t* free_bytes, size_t* total), (free_bytes, total))
FORWARD(cuMemHostRegister_v2, cudaHostRegister, (void* pointer, size_t bytes, unsigned flags), (pointer, bytes, flags))
FORWARD(cuMemHostUnregister, cudaHostUnregister, (void* pointer), (pointer))
FORWARD(cuMemHostGetDevicePointer_v2, cudaHostGetDevicePointer, (void** device, void* host, unsigned flags),
        (device, host, flags))

// -- copies and fills -----------------------------------------------------------------------------------------

static int copy_now(void* to, const void* from, size_t bytes, int direction, void* stream = nullptr) {
  return copy(to, from, bytes, direction, stream_of(stream));
}

API int cuMemcpy(Address to, Address from, size_t bytes) { return copy_now(at(to), at(from), bytes, BY_POINTER); }
API int cuMemcpyAsync(Address to, Address from, size_t bytes, void* stream) {
  return copy_now(at(to), at(from), bytes, BY_POINTER, stream);
}
API int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  return copy_now(at(to), from, bytes, HOST_TO_DEVICE);
}
API int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  return copy_now(at(to), from, bytes, HOST_TO_DEVICE, stream);
}
API int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  return copy_now(to, at(from), bytes, DEVICE_TO_HOST);
}
API int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  return copy_now(to, at(from), bytes, DEVICE_TO_HOST, stream);
}
API int cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
  return copy_now(at(to), at(from), bytes, DEVICE_TO_DEVICE);
}
API int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return copy_now(at(to), at(from), bytes, DEVICE_TO_DEVICE, stream);
}

#define FILL(name, type, element_bytes) \
  API int cuMemset##name##_v2(Address address, type value, size_t count) { \
    return fill(at(address), count * element_bytes, value, element_bytes, count, 1, stream_of(nullptr)); \
  } \
  API int cuMemset##name##Async(Address address, type value, size_t count, void* stream) { \
    return fill(at(address), count * element_bytes, value, element_bytes, count, 1, stream_of(stream)); \
  }
FILL(D8, unsigned char, 1)
FILL(D16, unsigned short, 2)
FILL(D32, unsigned, 4)

// -- streams, events and graphs -------------------------------------------------------------------------------

FORWARD(cuStreamCreate, cudaStreamCreateWithFlags, (void** stream, unsigned flags), (stream, flags))
FORWARD(cuStreamCreateWithPriority, cudaStreamCreateWithPriority, (void** stream, unsigned flags, int priority),
        (stream, flags, priority))
FORWARD(cuStreamDestroy_v2, cudaStreamDestroy, (void* stream), (stream))
FORWARD(cuStreamSynchronize, cudaStreamSynchronize, (void* stream), (stream))
FORWARD(cuStreamQuery, cudaStreamQuery, (void* stream), (stream))
FORWARD(cuStreamWaitEvent, cudaStreamWaitEvent, (void* stream, void* event, unsigned flags), (stream, event, flags))
FORWARD(cuStreamAddCallback, cudaStreamAddCallback,
        (void* stream, void (*function)(void*, int, void*), void* data, unsigned flags), (stream, function, data, flags))
FORWARD(cuLaunchHostFunc, cudaLaunchHostFunc, (void* stream, void (*function)(void*), void* data),
        (stream, function, data))
FORWARD(cuStreamBeginCapture_v2, cudaStreamBeginCapture, (void* stream, int mode), (stream, mode))
FORWARD(cuStreamEndCapture, cudaStreamEndCapture, (void* stream, void** graph), (stream, graph))
FORWARD(cuStreamIsCapturing, cudaStreamIsCapturing, (void* stream, int* status), (stream, status))
FORWARD(cuGraphInstantiateWithFlags, cudaGraphInstantiate,
        (void** executable, void* graph, unsigned long long flags), (executable, graph, flags))
FORWARD(cuGraphLaunch, cudaGraphLaunch, (void* executable, void* stream), (executable, stream))
FORWARD(cuGraphExecDestroy, cudaGraphExecDestroy, (void* executable), (executable))
FORWARD(cuGraphDestroy, cudaGraphDestroy, (void* graph), (graph))
FORWARD(cuEventCreate, cudaEventCreateWithFlags, (void** event, unsigned flags), (event, flags))
FORWARD(cuEventDestroy_v2, cudaEventDestroy, (void* event), (event))
FORWARD(cuEventRecord, cudaEventRecord, (void* event, void* stream), (event, stream))
FORWARD(cuEventSynchronize, cudaEventSynchronize, (void* event), (event))
FORWARD(cuEventQuery, cudaEventQuery, (void* event), (event))
FORWARD(cuEventElapsedTime, cudaEventElapsedTime, (float* milliseconds, void* from, void* to),
        (milliseconds, from, to))
FORWARD(cuEventElapsedTime_v2, cudaEventElapsedTime, (float* milliseconds, void* from, void* to),
        (milliseconds, from, to))
FORWARD(cuProfilerStart, cudaProfilerStart, (), ())
FORWARD(cuProfilerStop, cudaProfilerStop, (), ())
