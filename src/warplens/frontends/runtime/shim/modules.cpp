// Fat binaries that the program registers, their kernels and variables, and launches.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "objects.h"

namespace warplens {
namespace {

struct Wrapper {
  uint32_t magic, version;
  const char* data;
  void* more;
};

constexpr uint32_t FATBIN = 0xBA55ED50, WRAPPER = 0x466243B1;

struct HostVariable {
  Module* module;
  std::string name;
  size_t bytes;
  void** managed;
};

struct Configuration {
  Dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};

// Registration runs before main, in the order of constructors: nothing here may rely on another file's.
struct Registry {
  std::mutex lock;
  std::unordered_map<const void*, Function*> functions;
  std::unordered_map<const void*, HostVariable> variables;
};

Registry& registry() {
  static Registry* made = new Registry;
  return *made;
}

thread_local std::vector<Configuration> configurations;

}  // namespace

std::string image_bytes(const void* image) {
  const char* data = static_cast<const char*>(image);
  uint32_t magic;
  memcpy(&magic, data, 4);
  if (magic == WRAPPER) {
    Wrapper wrapper;
    memcpy(&wrapper, data, sizeof wrapper);
    return image_bytes(wrapper.data);
  }
  if (magic == FATBIN) {
    uint16_t header;
    uint64_t bytes;
    memcpy(&header, data + 6, 2);
    memcpy(&bytes, data + 8, 8);
    return std::string(data, header + bytes);
  }
  if (memcmp(data, "\x7f"
                   "ELF", 4) == 0) {
    uint64_t sections, programs;
    uint16_t section_bytes, section_count, program_bytes, program_count;
    memcpy(&programs, data + 32, 8);
    memcpy(&sections, data + 40, 8);
    memcpy(&program_bytes, data + 54, 2);
    memcpy(&program_count, data + 56, 2);
    memcpy(&section_bytes, data + 58, 2);
    memcpy(&section_count, data + 60, 2);
    uint64_t end = sections + uint64_t(section_bytes) * section_count;
    uint64_t other = programs + uint64_t(program_bytes) * program_count;
    return std::string(data, end > other ? end : other);
  }
  return std::string(data);
}

// Threads that launch a kernel for the first time wait for the one that loads it.
static std::recursive_mutex loading;

int load_module(Module* module) {
  std::lock_guard<std::recursive_mutex> guard(loading);
  if (!module->tried) {
    module->tried = true;
    Reply reply = ask(OP_MODULE, {}, module->image.data(), module->image.size());
    module->error = reply.error;
    module->id = reply.values[0];
    module->image.clear();
    module->image.shrink_to_fit();
  }
  return module->error;
}

int load_function(Function* function) {
  std::lock_guard<std::recursive_mutex> guard(loading);
  if (function->tried) return function->error;
  function->tried = true;
  if ((function->error = load_module(function->module))) return function->error;
  Reply reply = ask(OP_FUNCTION, {function->module->id}, function->name.data(), function->name.size());
  if ((function->error = reply.error)) return function->error;
  function->id = reply.values[0];
  size_t head = sizeof function->attributes;
  memcpy(&function->attributes, reply.bytes.data(), head);
  size_t count = (reply.bytes.size() - head) / sizeof(Function::Parameter);
  function->parameters.resize(count);
  if (count) memcpy(function->parameters.data(), reply.bytes.data() + head, count * sizeof(Function::Parameter));
  function->dynamic_shared_limit = function->attributes.most_dynamic_shared_bytes;
  return SUCCESS;
}

std::string pack_parameters(const Function* function, void** arguments) {
  std::string packed;
  for (size_t index = 0; index < function->parameters.size(); index++) {
    const auto& parameter = function->parameters[index];
    packed.resize(parameter.offset, '\0');
    packed.append(static_cast<const char*>(arguments[index]), parameter.bytes);
  }
  return packed;
}

int run_launch(const Launch& what, Stream* stream) {
  if (sticky()) return sticky();
  auto pair = [](int64_t low, int64_t high) { return low | high << 32; };
  const Dim3 &block = what.block, &cluster = what.cluster;
  Reply reply = ask(OP_LAUNCH,
                    {what.function->id, what.grid.x, pair(what.grid.y, what.grid.z),
                     pair(block.x | static_cast<int64_t>(block.y) << 16, block.z),
                     static_cast<int64_t>(what.shared_bytes), stream->id,
                     (what.cooperative ? 1 : 0) | static_cast<int64_t>(cluster.x) << 8 |
                         static_cast<int64_t>(cluster.y) << 16 | static_cast<int64_t>(cluster.z) << 24},
                    what.parameters.data(), what.parameters.size());
  if (!reply.bytes.empty()) fwrite(reply.bytes.data(), 1, reply.bytes.size(), stdout);
  if (reply.error && reply.values[0]) {  // a fault of the kernel is seen when the program next waits for it
    set_sticky(reply.error);
    return SUCCESS;
  }
  return reply.error;
}

int runtime_major() {
  static const char* known = getenv("WARPLENS_RUN_CUDART");
  return known ? atoi(known) : 13;
}

int without_shape(int error) {
  return error == INVALID_CONFIGURATION || error == OUT_OF_RESOURCES ? INVALID_VALUE : error;
}

int launch(const Launch& what, Stream* stream) {
  if (!what.function) return INVALID_FUNCTION;
  if (int error = load_function(what.function)) return error;
  const Dim3 &grid = what.grid, &block = what.block, &cluster = what.cluster;
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return INVALID_CONFIGURATION;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || grid.y > 65535 || grid.z > 65535)
    return INVALID_CONFIGURATION;
  if (uint64_t(block.x) * block.y * block.z > uint64_t(what.function->attributes.most_threads))
    return block.x * block.y * block.z > 1024 ? INVALID_CONFIGURATION : OUT_OF_RESOURCES;
  if (what.shared_bytes > uint64_t(what.function->dynamic_shared_limit)) return INVALID_VALUE;
  if (uint64_t(cluster.x) * cluster.y * cluster.z > what.function->cluster_limit) return INVALID_CLUSTER;
  if (cluster.x && (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)) return INVALID_CLUSTER;
  if (!stream->capture) return run_launch(what, stream);
  auto node = std::make_shared<Node>();
  node->type = NODE_KERNEL;
  node->launch = what;
  stream->capture->nodes.push_back(node);
  return SUCCESS;
}

Function* function_of(const void* handle) {
  std::lock_guard<std::mutex> guard(registry().lock);
  auto found = registry().functions.find(handle);
  return found == registry().functions.end() ? nullptr : found->second;
}

int symbol_of(const void* host, void** address, size_t* bytes) {
  HostVariable variable;
  {
    std::lock_guard<std::mutex> guard(registry().lock);
    auto found = registry().variables.find(host);
    if (found == registry().variables.end()) return INVALID_SYMBOL;
    variable = found->second;
  }
  if (int error = load_module(variable.module)) return error;
  Reply reply = ask(OP_SYMBOL, {variable.module->id}, variable.name.data(), variable.name.size());
  if (reply.error) return INVALID_SYMBOL;
  *address = reinterpret_cast<void*>(reply.values[0]);
  *bytes = static_cast<size_t>(reply.values[1]);
  return SUCCESS;
}

}  // namespace warplens

using namespace warplens;

API void** __cudaRegisterFatBinary(void* wrapper) {
  auto* module = new Module;
  module->image = image_bytes(wrapper);
  Wrapper parts;
  memcpy(&parts, wrapper, sizeof parts);
  if (parts.version == 2 && parts.more) {  // linked device code: the PTX lies in the binaries that were linked
    for (void** each = static_cast<void**>(parts.more); *each; each++) module->image += image_bytes(*each);
  }
  return reinterpret_cast<void**>(module);
}

API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}

API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, void*, void*, void*,
                                void*, int*) {
  auto* function = new Function;
  function->module = reinterpret_cast<Module*>(handle);
  function->name = name;
  std::lock_guard<std::mutex> guard(registry().lock);
  registry().functions[host] = function;
  registry().functions[function] = function;
}

API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes, int, int) {
  std::lock_guard<std::mutex> guard(registry().lock);
  registry().variables[host] = {reinterpret_cast<Module*>(handle), name, bytes, nullptr};
}

API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t bytes, int, int) {
  std::lock_guard<std::mutex> guard(registry().lock);
  registry().variables[host] = {reinterpret_cast<Module*>(handle), name, bytes, host};
}

// Managed variables are read through a pointer that is set when the module is loaded.
API char __cudaInitModule(void** handle) {
  std::vector<void**> pointers;
  {
    std::lock_guard<std::mutex> guard(registry().lock);
    for (auto& each : registry().variables)
      if (each.second.managed && each.second.module == reinterpret_cast<Module*>(handle))
        pointers.push_back(each.second.managed);
  }
  for (void** each : pointers) {
    size_t bytes;
    void* address = nullptr;
    if (symbol_of(each, &address, &bytes) != SUCCESS) continue;
    expose(address, bytes);
    *each = address;
  }
  return 1;
}

API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

API int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return done(MISSING_CONFIGURATION);
  Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  return SUCCESS;
}

API int __cudaGetKernel(void** kernel, const void* host) {
  *kernel = function_of(host);
  return *kernel ? SUCCESS : done(INVALID_FUNCTION);
}

API int cudaGetKernel(void** kernel, const void* host) { return __cudaGetKernel(kernel, host); }

static int launch_of(const void* handle, const LaunchConfiguration<size_t>& with, void** arguments) {
  Function* function = function_of(handle);
  if (!function) return done(INVALID_FUNCTION);
  if (int error = load_function(function)) return done(error);
  int error = launch(with.of(function, pack_parameters(function, arguments)), stream_of(with.stream));
  return done(runtime_major() < 13 ? error : without_shape(error));
}

API int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes,
                         void* stream) {
  return launch_of(function, {grid, block, shared_bytes, stream, nullptr, 0}, arguments);
}

API int cudaLaunchKernel_ptsz(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes,
                              void* stream) {
  return launch_of(function, {grid, block, shared_bytes, stream, nullptr, 0}, arguments);
}

API int __cudaLaunchKernel(void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes,
                           void* stream) {
  return launch_of(function, {grid, block, shared_bytes, stream, nullptr, 0}, arguments);
}

API int __cudaLaunchKernel_ptsz(void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared_bytes,
                                void* stream) {
  return launch_of(function, {grid, block, shared_bytes, stream, nullptr, 0}, arguments);
}

API int cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                                    size_t shared_bytes, void* stream) {
  LaunchAttribute cooperative = {COOPERATIVE, {}, {}};
  cooperative.flag = 1;
  return launch_of(function, {grid, block, shared_bytes, stream, &cooperative, 1}, arguments);
}

API int cudaLaunchKernelExC(const LaunchConfiguration<size_t>* with, const void* function, void** arguments) {
  return launch_of(function, *with, arguments);
}
