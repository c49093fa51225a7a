// Devices, limits, attributes of kernels, occupancy and errors of the runtime API.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

#include "objects.h"

using namespace warplens;

namespace {

constexpr int VERSION = 13000;
// Layout of cudaDeviceProp: that of the runtime which the program was linked with. CUDA 12 calls another function.
int properties_version() { return runtime_major() == 11 ? 11 : 13; }

int properties(void* at, int version) {
  Reply reply = ask(OP_PROPERTIES, {version});
  if (!reply.error) memcpy(at, reply.bytes.data(), reply.bytes.size());
  return done(reply.error);
}

int check_device(int device) { return device == 0 ? SUCCESS : INVALID_DEVICE; }

}  // namespace

API int cudaGetDeviceCount(int* count) {
  int error = connect_once();
  *count = error == NO_DEVICE ? 0 : 1;
  return done(error == NO_DEVICE ? error : 0);
}

API int cudaSetDevice(int device) {
  int error = connect_once();
  return done(error == NO_DEVICE ? error : check_device(device));
}
API int cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
API int cudaGetDevice(int* device) {
  *device = 0;
  return done(connect_once() == NO_DEVICE ? NO_DEVICE : SUCCESS);
}
API int cudaChooseDevice(int* device, const void*) { return cudaGetDevice(device); }
API int cudaSetValidDevices(int*, int) { return SUCCESS; }
API int cudaGetDeviceProperties(void* at, int device) {
  return device == 0 ? properties(at, properties_version()) : done(INVALID_DEVICE);
}
API int cudaGetDeviceProperties_v2(void* at, int device) {
  return device == 0 ? properties(at, 12) : done(INVALID_DEVICE);
}

API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (device != 0) return done(INVALID_DEVICE);
  Reply reply = ask(OP_ATTRIBUTES, {attribute});
  *value = static_cast<int>(reply.values[0]);
  return done(reply.error);
}

API int cudaDeviceSynchronize() {
  tell(OP_SYNCHRONIZE, {-1});
  return done(connect_once());
}
API int cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
API int cudaDeviceReset() {
  reset_sticky();
  take_error(true);
  return SUCCESS;
}
API int cudaThreadExit() { return cudaDeviceReset(); }
API int cudaSetDeviceFlags(unsigned) { return SUCCESS; }
API int cudaGetDeviceFlags(unsigned* flags) {
  *flags = 8;
  return SUCCESS;
}
API int cudaDeviceSetCacheConfig(int) { return SUCCESS; }
API int cudaDeviceGetCacheConfig(int* config) {
  *config = 0;
  return SUCCESS;
}
API int cudaThreadSetCacheConfig(int) { return SUCCESS; }
API int cudaDeviceSetSharedMemConfig(int) { return SUCCESS; }
API int cudaDeviceGetSharedMemConfig(int* config) {
  *config = 1;
  return SUCCESS;
}
API int cudaDeviceSetLimit(int limit, size_t value) {
  return done(ask(OP_LIMIT, {1, limit, static_cast<int64_t>(value)}).error);
}
API int cudaDeviceGetLimit(size_t* value, int limit) {
  Reply reply = ask(OP_LIMIT, {0, limit, 0});
  *value = static_cast<size_t>(reply.values[0]);
  return done(reply.error);
}
API int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return SUCCESS;
}
API int cudaDeviceGetPCIBusId(char* text, int length, int) {
  snprintf(text, static_cast<size_t>(length), "0000:01:00.0");
  return SUCCESS;
}
API int cudaDeviceGetByPCIBusId(int* device, const char*) { return cudaGetDevice(device); }
API int cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return SUCCESS;
}
API int cudaDeviceEnablePeerAccess(int, unsigned) { return done(INVALID_DEVICE); }
API int cudaDeviceDisablePeerAccess(int) { return done(INVALID_DEVICE); }
API int cudaDriverGetVersion(int* version) {
  *version = VERSION;
  return SUCCESS;
}
API int cudaRuntimeGetVersion(int* version) {
  *version = 1000 * runtime_major();
  return SUCCESS;
}
API int cudaProfilerStart() { return SUCCESS; }
API int cudaProfilerStop() { return SUCCESS; }

// -- attributes of kernels ------------------------------------------------------------------------------------

namespace {

struct FunctionAttributes {
  size_t shared_bytes, constant_bytes, local_bytes;
  int most_threads, registers, ptx_version, binary_version, cache_mode, most_dynamic_shared_bytes, carveout;
};

int loaded(const void* handle, Function** function) {
  *function = function_of(handle);
  return *function ? load_function(*function) : int(INVALID_FUNCTION);
}

}  // namespace

int warplens::resident_blocks(int* blocks, Function* function, int threads, size_t shared_bytes) {
  Reply reply = ask(OP_OCCUPANCY, {function->id, threads, static_cast<int64_t>(shared_bytes)});
  *blocks = static_cast<int>(reply.values[0]);
  return reply.error;
}

int warplens::resident_clusters(int* clusters, const Launch& what) {
  int blocks = 0;
  Reply reply = ask(OP_ATTRIBUTES, {16});  // SMs
  int error = reply.error;
  if (!error) error = resident_blocks(&blocks, what.function, int(what.block.x * what.block.y * what.block.z), what.shared_bytes);
  uint64_t size = uint64_t(what.cluster.x) * what.cluster.y * what.cluster.z;
  *clusters = static_cast<int>(blocks * reply.values[0] / int64_t(size ? size : 1));
  return !error && size > what.function->cluster_limit ? int(INVALID_CLUSTER) : error;
}

int warplens::largest_cluster(int* blocks, const Launch& what) {
  int resident = 0;
  int error = resident_blocks(&resident, what.function, int(what.block.x * what.block.y * what.block.z), what.shared_bytes);
  *blocks = resident ? static_cast<int>(what.function->cluster_limit) : 0;
  return error;
}

// Later versions have more fields; those up to the carveout have stayed.
API int cudaFuncGetAttributes(FunctionAttributes* at, const void* handle) {
  Function* function;
  if (int error = loaded(handle, &function)) return done(error);
  const auto& known = function->attributes;
  *at = {static_cast<size_t>(known.shared_bytes), static_cast<size_t>(known.constant_bytes),
         static_cast<size_t>(known.local_bytes),  static_cast<int>(known.most_threads),
         static_cast<int>(known.registers),       static_cast<int>(known.ptx_version),
         static_cast<int>(known.binary_version),  0,
         static_cast<int>(function->dynamic_shared_limit), -1};
  return SUCCESS;
}

API int cudaFuncSetAttribute(const void* handle, int attribute, int value) {
  Function* function;
  if (int error = loaded(handle, &function)) return done(error);
  if (attribute == LARGE_CLUSTERS) function->cluster_limit = value ? 16 : 8;
  if (attribute == DYNAMIC_SHARED) {
    Reply reply = ask(OP_ATTRIBUTES, {97});  // shared memory of a block that opts in
    if (value < 0 || value + function->attributes.shared_bytes > reply.values[0]) return done(INVALID_VALUE);
    function->dynamic_shared_limit = value;
  }
  return SUCCESS;
}

API int cudaFuncSetCacheConfig(const void*, int) { return SUCCESS; }
API int cudaFuncSetSharedMemConfig(const void*, int) { return SUCCESS; }

API int cudaFuncGetName(const char** name, const void* handle) {
  Function* function = function_of(handle);
  if (!function) return done(INVALID_FUNCTION);
  *name = function->name.c_str();
  return SUCCESS;
}

API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* handle, int threads,
                                                               size_t shared_bytes, unsigned) {
  Function* function;
  if (int error = loaded(handle, &function)) return done(error);
  return done(resident_blocks(blocks, function, threads, shared_bytes));
}

API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* handle, int threads,
                                                      size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, shared_bytes, 0);
}

API int cudaOccupancyMaxActiveClusters(int* clusters, const void* handle,
                                       const LaunchConfiguration<size_t>* with) {
  Function* function;
  if (int error = loaded(handle, &function)) return done(error);
  return done(resident_clusters(clusters, with->of(function, {})));
}

API int cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* handle,
                                             const LaunchConfiguration<size_t>* with) {
  Function* function;
  if (int error = loaded(handle, &function)) return done(error);
  return done(largest_cluster(blocks, with->of(function, {})));
}

API int cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void*, int blocks, int) {
  Reply reply = ask(OP_ATTRIBUTES, {81});
  *bytes = static_cast<size_t>(reply.values[0]) / static_cast<size_t>(blocks > 0 ? blocks : 1) - 1024;
  return done(reply.error);
}

// -- errors ---------------------------------------------------------------------------------------------------

API int cudaGetLastError() { return take_error(true); }
API int cudaPeekAtLastError() { return take_error(false); }
API const char* cudaGetErrorName(int error) { return error_name(error); }
API const char* cudaGetErrorString(int error) { return error_text(error); }

// -- entry points ---------------------------------------------------------------------------------------------

API int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, int* found) {
  *function = dlsym(RTLD_DEFAULT, name);
  if (found) *found = *function ? 0 : 1;
  return *function || found ? SUCCESS : done(NOT_FOUND);
}
API int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long flags,
                                         int* found) {
  return cudaGetDriverEntryPoint(name, function, flags, found);
}
API int cudaGetExportTable(const void**, const void*) { return done(NOT_SUPPORTED); }
