// The driver API: contexts that are all the same, modules from images, and the rest as the runtime has it.
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#include "objects.h"

using namespace warplens;

typedef uint64_t Address;

extern "C" {
int cudaGetDeviceCount(int*);
int cudaDeviceGetAttribute(int*, int, int);
int cudaDeviceSynchronize();
int cudaDeviceSetLimit(int, size_t);
int cudaDeviceGetLimit(size_t*, int);
int cudaDeviceGetStreamPriorityRange(int*, int*);
int cudaGetDeviceProperties_v2(void*, int);
int cudaMallocPitch(void**, size_t*, size_t, size_t);
int cudaMemGetInfo(size_t*, size_t*);
int cudaHostRegister(void*, size_t, unsigned);
int cudaHostUnregister(void*);
int cudaHostGetDevicePointer(void**, void*, unsigned);
}

namespace {

constexpr int VERSION = 13000;
char the_context;
thread_local std::vector<void*> contexts;

void* as_pointer(Address address) { return reinterpret_cast<void*>(address); }

struct Link {
  std::string image;
};

Function* function_in(Module* module, const char* name) {
  auto* function = new Function;
  function->module = module;
  function->name = name;
  return function;
}

int read_file(const char* path, std::string* text) {
  FILE* file = fopen(path, "rb");
  if (!file) return FILE_NOT_FOUND;
  char part[65536];
  while (size_t got = fread(part, 1, sizeof part, file)) text->append(part, got);
  fclose(file);
  return SUCCESS;
}

}  // namespace

// -- devices and contexts -------------------------------------------------------------------------------------

API int cuInit(unsigned) {
  int error = connect_once();
  return error == NO_DEVICE ? error : 0;
}
API int cuDriverGetVersion(int* version) {
  *version = VERSION;
  return SUCCESS;
}
API int cuDeviceGetCount(int* count) { return cudaGetDeviceCount(count); }
API int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? SUCCESS : INVALID_DEVICE;
}
API int cuDeviceGetName(char* name, int length, int) {
  char properties[4096];
  int error = cudaGetDeviceProperties_v2(properties, 0);
  if (!error) snprintf(name, static_cast<size_t>(length), "%s", properties);
  return error;
}
API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device);
}
API int cuDeviceComputeCapability(int* major, int* minor, int device) {
  int error = cudaDeviceGetAttribute(major, 75, device);
  return error ? error : cudaDeviceGetAttribute(minor, 76, device);
}
API int cuDeviceTotalMem_v2(size_t* bytes, int) {
  size_t free_bytes;
  return cudaMemGetInfo(&free_bytes, bytes);
}
API int cuDeviceGetUuid_v2(void* uuid, int) {
  memcpy(uuid, "warplens\0\0\0\0\0\0\0", 16);
  return SUCCESS;
}
API int cuDeviceGetUuid(void* uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
API int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return SUCCESS;
}

API int cuCtxCreate_v2(void** context, unsigned, int) {
  *context = &the_context;
  contexts.push_back(&the_context);
  return connect_once();
}
API int cuCtxCreate_v3(void** context, void*, int, unsigned flags, int device) {
  return cuCtxCreate_v2(context, flags, device);
}
API int cuCtxCreate_v4(void** context, void*, unsigned flags, int device) {
  return cuCtxCreate_v2(context, flags, device);
}
API int cuCtxDestroy_v2(void*) {
  if (!contexts.empty()) contexts.pop_back();
  return SUCCESS;
}
API int cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(context);
  return SUCCESS;
}
API int cuCtxPopCurrent_v2(void** context) {
  if (context) *context = contexts.empty() ? nullptr : contexts.back();
  if (!contexts.empty()) contexts.pop_back();
  return SUCCESS;
}
API int cuCtxSetCurrent(void* context) {
  if (contexts.empty())
    contexts.push_back(context);
  else
    contexts.back() = context;
  return SUCCESS;
}
API int cuCtxGetCurrent(void** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return SUCCESS;
}
API int cuCtxGetDevice(int* device) {
  *device = 0;
  return SUCCESS;
}
API int cuCtxGetFlags(unsigned* flags) {
  *flags = 0;
  return SUCCESS;
}
API int cuCtxGetApiVersion(void*, unsigned* version) {
  *version = VERSION;
  return SUCCESS;
}
API int cuCtxSynchronize() { return cudaDeviceSynchronize(); }
API int cuCtxSetLimit(int limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
API int cuCtxGetLimit(size_t* value, int limit) { return cudaDeviceGetLimit(value, limit); }
API int cuCtxSetCacheConfig(int) { return SUCCESS; }
API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return cudaDeviceGetStreamPriorityRange(least, greatest);
}
API int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &the_context;
  return connect_once();
}
API int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API int cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return SUCCESS; }
API int cuDevicePrimaryCtxReset_v2(int) { return SUCCESS; }
API int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  if (flags) *flags = 0;
  *active = 1;
  return SUCCESS;
}

// -- modules and linking --------------------------------------------------------------------------------------

API int cuModuleLoadData(void** handle, const void* image) {
  auto* module = new Module;
  module->image = image_bytes(image);
  *handle = module;
  return load_module(module);
}
API int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}
API int cuModuleLoadFatBinary(void** module, const void* image) { return cuModuleLoadData(module, image); }
API int cuModuleLoad(void** module, const char* path) {
  std::string text;
  if (int error = read_file(path, &text)) return error;
  return cuModuleLoadData(module, text.c_str());
}
API int cuModuleUnload(void*) { return SUCCESS; }
API int cuModuleGetLoadingMode(int* mode) {
  *mode = 1;
  return SUCCESS;
}
API int cuModuleGetFunction(void** function, void* module, const char* name) {
  Function* made = function_in(static_cast<Module*>(module), name);
  *function = made;
  int error = load_function(made);
  return error == INVALID_FUNCTION ? NOT_FOUND : error;
}
API int cuModuleGetGlobal_v2(Address* address, size_t* bytes, void* module, const char* name) {
  Reply reply = ask(OP_SYMBOL, {static_cast<Module*>(module)->id}, name, strlen(name));
  if (reply.error) return NOT_FOUND;
  if (address) *address = static_cast<Address>(reply.values[0]);
  if (bytes) *bytes = static_cast<size_t>(reply.values[1]);
  return SUCCESS;
}

API int cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  return cuModuleLoadData(library, image);
}
API int cuLibraryLoadFromFile(void** library, const char* path, int*, void**, unsigned, int*, void**, unsigned) {
  return cuModuleLoad(library, path);
}
API int cuLibraryUnload(void*) { return SUCCESS; }
API int cuLibraryGetModule(void** module, void* library) {
  *module = library;
  return SUCCESS;
}
API int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  return cuModuleGetFunction(kernel, library, name);
}
API int cuLibraryGetGlobal(Address* address, size_t* bytes, void* library, const char* name) {
  return cuModuleGetGlobal_v2(address, bytes, library, name);
}
API int cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return SUCCESS;
}

API int cuLinkCreate_v2(unsigned, int*, void**, void** link) {
  *link = new Link;
  return SUCCESS;
}
API int cuLinkAddData_v2(void* link, int, void* data, size_t bytes, const char*, unsigned, int*, void**) {
  static_cast<Link*>(link)->image.append(static_cast<const char*>(data), bytes);
  return SUCCESS;
}
API int cuLinkAddFile_v2(void* link, int, const char* path, unsigned, int*, void**) {
  return read_file(path, &static_cast<Link*>(link)->image);
}
API int cuLinkComplete(void* link, void** image, size_t* bytes) {
  std::string& linked = static_cast<Link*>(link)->image;
  *image = &linked[0];
  if (bytes) *bytes = linked.size();
  return SUCCESS;
}
API int cuLinkDestroy(void*) { return SUCCESS; }  // what it made may still be loaded

// -- kernels --------------------------------------------------------------------------------------------------

namespace {

// Arguments as pointers, or as a buffer that is laid out already.
std::string packed(const Function* function, void** arguments, void** extra) {
  constexpr uintptr_t BUFFER = 1, BYTES = 2;
  if (arguments || !extra) return pack_parameters(function, arguments);
  const char* buffer = nullptr;
  size_t bytes = 0;
  for (; reinterpret_cast<uintptr_t>(extra[0]) != 0; extra += 2) {
    if (reinterpret_cast<uintptr_t>(extra[0]) == BUFFER) buffer = static_cast<const char*>(extra[1]);
    if (reinterpret_cast<uintptr_t>(extra[0]) == BYTES) bytes = *static_cast<size_t*>(extra[1]);
  }
  return std::string(buffer, bytes);
}

}  // namespace

API int cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared_bytes, void* stream, void** arguments, void** extra) {
  auto* function = static_cast<Function*>(handle);
  return without_shape(launch({function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, false, {0, 0, 0},
                               packed(function, arguments, extra)},
                              stream_of(stream)));
}

API int cuLaunchCooperativeKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                  unsigned bz, unsigned shared_bytes, void* stream, void** arguments) {
  auto* function = static_cast<Function*>(handle);
  return without_shape(launch({function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, true, {0, 0, 0},
                               packed(function, arguments, nullptr)},
                              stream_of(stream)));
}

API int cuLaunchKernelEx(const LaunchConfiguration<unsigned>* with, void* handle, void** arguments, void** extra) {
  auto* function = static_cast<Function*>(handle);
  return without_shape(launch(with->of(function, packed(function, arguments, extra)), stream_of(with->stream)));
}

API int cuFuncGetAttribute(int* value, int attribute, void* handle) {
  auto* function = static_cast<Function*>(handle);
  if (int error = load_function(function)) return error;
  const auto& known = function->attributes;
  const int64_t values[] = {known.most_threads, known.shared_bytes, known.constant_bytes, known.local_bytes,
                            known.registers, known.ptx_version, known.binary_version, 0,
                            function->dynamic_shared_limit, -1};
  if (attribute < 0) return INVALID_VALUE;
  *value = attribute < 10 ? static_cast<int>(values[attribute]) : 0;
  return SUCCESS;
}
API int cuFuncSetAttribute(void* handle, int attribute, int value) {
  auto* function = static_cast<Function*>(handle);
  if (attribute == DYNAMIC_SHARED) function->dynamic_shared_limit = value;
  if (attribute == LARGE_CLUSTERS) function->cluster_limit = value ? 16 : 8;
  return SUCCESS;
}
API int cuFuncSetCacheConfig(void*, int) { return SUCCESS; }
API int cuFuncGetName(const char** name, void* handle) {
  *name = static_cast<Function*>(handle)->name.c_str();
  return SUCCESS;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* handle, int threads,
                                                             size_t shared_bytes, unsigned) {
  return resident_blocks(blocks, static_cast<Function*>(handle), threads, shared_bytes);
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, shared_bytes, 0);
}
API int cuOccupancyMaxActiveClusters(int* clusters, void* handle, const LaunchConfiguration<unsigned>* with) {
  return resident_clusters(clusters, with->of(static_cast<Function*>(handle), {}));
}
API int cuOccupancyMaxPotentialClusterSize(int* blocks, void* handle, const LaunchConfiguration<unsigned>* with) {
  return largest_cluster(blocks, with->of(static_cast<Function*>(handle), {}));
}

// -- errors and entry points ----------------------------------------------------------------------------------

API int cuGetErrorName(int error, const char** name) {
  *name = error_name(error);
  return SUCCESS;
}
API int cuGetErrorString(int error, const char** text) {
  *text = error_text(error);
  return SUCCESS;
}

// Names stand for their latest version, which is the one that is here.
API int cuGetProcAddress_v2(const char* name, void** function, int, uint64_t, int* found) {
  *function = nullptr;
  for (const char* version : {"_v4", "_v2", ""}) {
    std::string full = std::string(name) + version;
    if ((*function = dlsym(RTLD_DEFAULT, full.c_str()))) break;
  }
  if (found) *found = *function ? 0 : 1;
  return *function ? SUCCESS : NOT_FOUND;
}
API int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

// Only CUDA's own runtime asks for these tables: one that is linked into a program without a table of symbols.
API int cuGetExportTable(const void**, const void*) {
  ask(OP_REFUSE, {});
  return NOT_SUPPORTED;
}
