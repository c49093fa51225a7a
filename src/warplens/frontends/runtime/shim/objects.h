// What handles of the API point to. Everything runs in the order in which the program asks for it, which is one that
// streams allow.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client.h"

namespace warplens {

struct Dim3 {
  unsigned x, y, z;
};

struct Module {
  std::string image;
  int64_t id = -1;
  int error = 0;
  bool tried = false;
};

struct Function {
  Module* module = nullptr;
  std::string name;
  int64_t id = -1;
  int error = 0;
  bool tried = false;
  int64_t dynamic_shared_limit = 0;
  unsigned cluster_limit = 8;
  // In the order of the reply to OP_FUNCTION.
  struct Attributes {
    int64_t shared_bytes, constant_bytes, local_bytes, most_threads, registers, ptx_version, binary_version,
        most_dynamic_shared_bytes;
  } attributes = {};
  struct Parameter {
    uint32_t offset, bytes;
  };
  std::vector<Parameter> parameters;
};

// Attributes of functions that programs set; the runtime and the driver share their numbers.
enum FunctionAttribute { DYNAMIC_SHARED = 8, LARGE_CLUSTERS = 14 };

struct Launch {
  Function* function;
  Dim3 grid, block;
  size_t shared_bytes;
  bool cooperative;
  Dim3 cluster;
  std::string parameters;
};

enum LaunchAttributeId { COOPERATIVE = 2, CLUSTER = 4 };

// An attribute of a launch, as the runtime and the driver lay it out.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char raw[64];
    int flag;
    Dim3 cluster;
  };
};

// The configuration of an extended launch. `Size` is size_t in the runtime and unsigned in the driver.
template <class Size>
struct LaunchConfiguration {
  Dim3 grid, block;
  Size shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;

  Launch of(Function* function, std::string parameters) const {
    Launch what = {function, grid, block, shared_bytes, false, {0, 0, 0}, std::move(parameters)};
    for (unsigned index = 0; index < count; index++) {
      if (attributes[index].id == COOPERATIVE) what.cooperative = attributes[index].flag;
      if (attributes[index].id == CLUSTER) what.cluster = attributes[index].cluster;
    }
    return what;
  }
};

enum NodeType { NODE_KERNEL = 0, NODE_COPY = 1, NODE_SET = 2, NODE_HOST = 3, NODE_GRAPH = 4, NODE_EMPTY = 5 };

struct Node {
  NodeType type;
  std::function<int(struct Stream*)> run;
  Launch launch = {};
};

struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
};

struct Stream {
  int64_t id;
  unsigned flags = 0;
  int priority = 0;
  Graph* capture = nullptr;
  bool began_capture = false;
};

struct Event {
  int64_t id;
  unsigned flags = 0;
  bool recorded = false;
  Graph* capture = nullptr;
};

// A handle of the API: null and 1 are the legacy stream, 2 is that of the thread.
Stream* stream_of(void* handle);
// Run now, or add to the graph that the stream records.
int submit(Stream* stream, NodeType type, std::function<int(Stream*)> run);
int run_graph(Graph* graph, Stream* stream);

int load_module(Module* module);
int load_function(Function* function);
// Bytes of a fat binary, a cubin or a PTX text.
std::string image_bytes(const void* image);
std::string pack_parameters(const Function* function, void** arguments);
// The first part of the version of the runtime that the program was linked with.
int runtime_major();
// INVALID_CONFIGURATION where the shape is at fault; the driver and CUDA 13 do not tell that from other arguments.
int launch(const Launch& launch, Stream* stream);
int without_shape(int error);
int run_launch(const Launch& launch, Stream* stream);
// Blocks that an SM holds, and clusters that the GPU holds if none is lost at the ends of its groups of SMs.
int resident_blocks(int* blocks, Function* function, int threads, size_t shared_bytes);
int resident_clusters(int* clusters, const Launch& what);
// Blocks of the largest cluster that a launch may have: 0 where an SM holds none.
int largest_cluster(int* blocks, const Launch& what);
// The kernel that a host function, or a handle, stands for; null where there is none.
Function* function_of(const void* handle);
// Address and size of a variable that a host variable stands for.
int symbol_of(const void* host, void** address, size_t* bytes);

enum Direction { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_POINTER };

// Rows of bytes: `width` of each of `height` rows in `depth` slices; pitches and slices are the bytes from one to the
// next.
struct Copy {
  char* to;
  const char* from;
  size_t to_pitch, from_pitch, to_slice, from_slice, width, height, depth;
};
int copy(void* to, const void* from, size_t bytes, int direction, Stream* stream);
int copy_rows(const Copy& what, int direction, Stream* stream);
// Set `width` elements of 1, 2 or 4 bytes in each of `height` rows.
int fill(void* at, size_t pitch, unsigned value, size_t element_bytes, size_t width, size_t height, Stream* stream);

// Channels of an array, and a piece of device memory that holds it.
struct Array {
  char* data;
  int x, y, z, w, kind;
  size_t width, height, depth, element_bytes, pitch;
  unsigned flags;
};

const char* error_name(int error);
const char* error_text(int error);

}  // namespace warplens
