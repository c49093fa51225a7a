// Streams, events, callbacks and graphs. Work is done when it is asked for: that order is one that streams allow.
#include <atomic>

#include "objects.h"

namespace warplens {
namespace {

std::atomic<int64_t> next_stream{2}, next_event{1};
Stream legacy{0}, per_thread{1};
std::mutex capture_lock;
std::vector<Stream*> capturing;

void join_capture(Stream* stream, Graph* graph) {
  std::lock_guard<std::mutex> guard(capture_lock);
  stream->capture = graph;
  capturing.push_back(stream);
}

void end_capture(Graph* graph) {
  std::lock_guard<std::mutex> guard(capture_lock);
  for (size_t index = capturing.size(); index-- > 0;) {
    if (capturing[index]->capture != graph) continue;
    capturing[index]->capture = nullptr;
    capturing[index]->began_capture = false;
    capturing.erase(capturing.begin() + static_cast<long>(index));
  }
}

}  // namespace

Stream* stream_of(void* handle) {
  uintptr_t value = reinterpret_cast<uintptr_t>(handle);
  if (value <= 1) return &legacy;
  return value == 2 ? &per_thread : static_cast<Stream*>(handle);
}

int submit(Stream* stream, NodeType type, std::function<int(Stream*)> run) {
  if (!stream->capture) return sticky() ? sticky() : run(stream);
  auto node = std::make_shared<Node>();
  node->type = type;
  node->run = std::move(run);
  stream->capture->nodes.push_back(node);
  return SUCCESS;
}

int run_graph(Graph* graph, Stream* stream) {
  for (auto& node : graph->nodes) {
    int error = node->type == NODE_KERNEL ? run_launch(node->launch, stream)
                : node->run               ? node->run(stream)
                                          : SUCCESS;
    if (error) return error;
  }
  return SUCCESS;
}

}  // namespace warplens

using namespace warplens;

// -- streams --------------------------------------------------------------------------------------------------

API int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  if (!stream) return done(INVALID_VALUE);
  if (int error = connect_once()) return done(error);
  *stream = new Stream{next_stream++, flags, priority};
  return SUCCESS;
}

API int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
API int cudaStreamCreate(void** stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

API int cudaStreamDestroy(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return done(INVALID_HANDLE);
  delete static_cast<Stream*>(stream);
  return SUCCESS;
}

API int cudaStreamSynchronize(void* stream) {
  if (stream_of(stream)->capture) return done(CAPTURE_UNSUPPORTED);
  tell(OP_SYNCHRONIZE, {stream_of(stream)->id});
  return done(sticky());
}

API int cudaStreamQuery(void*) { return done(sticky()); }

API int cudaStreamGetFlags(void* stream, unsigned* flags) {
  *flags = stream_of(stream)->flags;
  return SUCCESS;
}

API int cudaStreamGetPriority(void* stream, int* priority) {
  *priority = stream_of(stream)->priority;
  return SUCCESS;
}

API int cudaStreamGetId(void* stream, unsigned long long* id) {
  *id = static_cast<unsigned long long>(stream_of(stream)->id);
  return SUCCESS;
}

API int cudaStreamGetDevice(void*, int* device) {
  *device = 0;
  return SUCCESS;
}

API int cudaStreamAttachMemAsync(void*, void*, size_t, unsigned) { return done(sticky()); }
API int cudaStreamSetAttribute(void*, int, const void*) { return SUCCESS; }
API int cudaCtxResetPersistingL2Cache() { return SUCCESS; }

API int cudaStreamWaitEvent(void* handle, void* event, unsigned) {
  Stream* stream = stream_of(handle);
  Event* awaited = static_cast<Event*>(event);
  if (!awaited) return done(INVALID_HANDLE);
  if (awaited->capture && !stream->capture) join_capture(stream, awaited->capture);
  if (stream->capture) return SUCCESS;
  tell(OP_EVENT_WAIT, {stream->id, awaited->id});
  return done(sticky());
}

API int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return done(submit(stream_of(stream), NODE_HOST, [=](Stream*) {
    function(data);
    return int(SUCCESS);
  }));
}

API int cudaStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data, unsigned) {
  function(stream, sticky(), data);
  return done(sticky());
}

// -- events ---------------------------------------------------------------------------------------------------

API int cudaEventCreateWithFlags(void** event, unsigned flags) {
  if (!event) return done(INVALID_VALUE);
  if (int error = connect_once()) return done(error);
  *event = new Event{next_event++, flags};
  return SUCCESS;
}

API int cudaEventCreate(void** event) { return cudaEventCreateWithFlags(event, 0); }

API int cudaEventDestroy(void* event) {
  if (!event) return done(INVALID_HANDLE);
  delete static_cast<Event*>(event);
  return SUCCESS;
}

API int cudaEventRecord(void* handle, void* stream) {
  Event* event = static_cast<Event*>(handle);
  if (!event) return done(INVALID_HANDLE);
  event->capture = stream_of(stream)->capture;
  event->recorded = true;
  if (!event->capture) tell(OP_EVENT_RECORD, {event->id, stream_of(stream)->id});
  return done(sticky());
}

API int cudaEventRecordWithFlags(void* event, void* stream, unsigned) { return cudaEventRecord(event, stream); }
API int cudaEventSynchronize(void* event) { return done(event ? sticky() : int(INVALID_HANDLE)); }
API int cudaEventQuery(void* event) { return done(event ? sticky() : int(INVALID_HANDLE)); }

API int cudaEventElapsedTime(float* milliseconds, void* from, void* to) {
  Event *first = static_cast<Event*>(from), *second = static_cast<Event*>(to);
  constexpr unsigned WITHOUT_TIME = 2;
  if (!milliseconds || !first || !second) return done(INVALID_VALUE);
  if (!first->recorded || !second->recorded || (first->flags | second->flags) & WITHOUT_TIME)
    return done(INVALID_HANDLE);
  Reply reply = ask(OP_EVENT_ELAPSED, {first->id, second->id});
  *milliseconds = static_cast<float>(static_cast<double>(reply.values[0]) * 1e-6);  // from nanoseconds
  return done(reply.error ? reply.error : sticky());
}

API int cudaEventElapsedTime_v2(float* milliseconds, void* from, void* to) {
  return cudaEventElapsedTime(milliseconds, from, to);
}

// -- graphs ---------------------------------------------------------------------------------------------------

API int cudaStreamBeginCapture(void* handle, int) {
  Stream* stream = stream_of(handle);
  if (stream == &legacy || stream->capture) return done(stream == &legacy ? CAPTURE_UNSUPPORTED : ILLEGAL_STATE);
  join_capture(stream, new Graph);
  stream->began_capture = true;
  return SUCCESS;
}

API int cudaStreamEndCapture(void* handle, void** graph) {
  Stream* stream = stream_of(handle);
  if (!stream->capture) return done(ILLEGAL_STATE);
  *graph = stream->capture;
  end_capture(stream->capture);
  return SUCCESS;
}

API int cudaStreamIsCapturing(void* stream, int* status) {
  *status = stream_of(stream)->capture ? 1 : 0;
  return SUCCESS;
}

API int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id) {
  if (id) *id = 1;
  return cudaStreamIsCapturing(stream, status);
}

API int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph, const void***,
                                    size_t* count) {
  if (id) *id = 1;
  if (graph) *graph = stream_of(stream)->capture;
  if (count) *count = 0;
  return cudaStreamIsCapturing(stream, status);
}

API int cudaThreadExchangeStreamCaptureMode(int*) { return SUCCESS; }

API int cudaGraphCreate(void** graph, unsigned) {
  *graph = new Graph;
  return SUCCESS;
}

API int cudaGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return SUCCESS;
}

API int cudaGraphClone(void** copied, void* graph) {
  *copied = new Graph(*static_cast<Graph*>(graph));
  return SUCCESS;
}

// An executable graph is a copy: changes of the graph do not reach it.
API int cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
  auto* made = new Graph;
  for (auto& node : static_cast<Graph*>(graph)->nodes) made->nodes.push_back(std::make_shared<Node>(*node));
  *executable = made;
  return SUCCESS;
}

API int cudaGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}

API int cudaGraphExecUpdate(void* executable, void* graph, void*) {
  static_cast<Graph*>(executable)->nodes = static_cast<Graph*>(graph)->nodes;
  return SUCCESS;
}

API int cudaGraphExecDestroy(void* executable) { return cudaGraphDestroy(executable); }
API int cudaGraphUpload(void*, void*) { return SUCCESS; }

API int cudaGraphLaunch(void* executable, void* handle) {
  Stream* stream = stream_of(handle);
  Graph* graph = static_cast<Graph*>(executable);
  return done(submit(stream, NODE_GRAPH, [=](Stream* on) { return run_graph(graph, on); }));
}

API int cudaGraphGetNodes(void* handle, void** nodes, size_t* count) {
  auto& all = static_cast<Graph*>(handle)->nodes;
  if (nodes)
    for (size_t index = 0; index < *count && index < all.size(); index++) nodes[index] = all[index].get();
  *count = all.size();
  return SUCCESS;
}

API int cudaGraphNodeGetType(void* node, int* type) {
  *type = static_cast<Node*>(node)->type;
  return SUCCESS;
}

namespace {

struct KernelParameters {
  void* function;
  Dim3 grid, block;
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};

struct SetParameters {
  void* at;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};

struct HostParameters {
  void (*function)(void*);
  void* data;
};

int add_node(void** made, void* graph, NodeType type, std::function<int(Stream*)> run, Launch launch = {}) {
  auto node = std::make_shared<Node>();
  node->type = type;
  node->run = std::move(run);
  node->launch = std::move(launch);
  static_cast<Graph*>(graph)->nodes.push_back(node);
  if (made) *made = node.get();
  return SUCCESS;
}

int launch_of(const KernelParameters* with, Launch* launch) {
  Function* function = function_of(with->function);
  if (!function) return INVALID_FUNCTION;
  if (int error = load_function(function)) return error;
  *launch = {function, with->grid, with->block, with->shared_bytes, false, {0, 0, 0},
             pack_parameters(function, with->arguments)};
  return SUCCESS;
}

}  // namespace

API int cudaGraphAddKernelNode(void** node, void* graph, const void*, size_t, const KernelParameters* with) {
  Launch launch;
  if (int error = launch_of(with, &launch)) return done(error);
  return add_node(node, graph, NODE_KERNEL, nullptr, launch);
}

API int cudaGraphKernelNodeSetParams(void* node, const KernelParameters* with) {
  return done(launch_of(with, &static_cast<Node*>(node)->launch));
}

// Nodes of an executable graph are found by their place.
API int cudaGraphExecKernelNodeSetParams(void* executable, void* node, const KernelParameters* with) {
  Launch launch;
  if (int error = launch_of(with, &launch)) return done(error);
  for (auto& each : static_cast<Graph*>(executable)->nodes)
    if (each->type == NODE_KERNEL && each->launch.function == static_cast<Node*>(node)->launch.function) {
      each->launch = launch;
      return SUCCESS;
    }
  return done(INVALID_VALUE);
}

API int cudaGraphAddMemcpyNode1D(void** node, void* graph, const void*, size_t, void* to, const void* from,
                                 size_t bytes, int direction) {
  return add_node(node, graph, NODE_COPY, [=](Stream* stream) { return copy(to, from, bytes, direction, stream); });
}

API int cudaGraphAddMemsetNode(void** node, void* graph, const void*, size_t, const SetParameters* with) {
  SetParameters set = *with;
  return add_node(node, graph, NODE_SET, [=](Stream* stream) {
    return fill(set.at, set.pitch, set.value, set.element_bytes, set.width, set.height, stream);
  });
}

API int cudaGraphAddHostNode(void** node, void* graph, const void*, size_t, const HostParameters* with) {
  HostParameters host = *with;
  return add_node(node, graph, NODE_HOST, [=](Stream*) {
    host.function(host.data);
    return int(SUCCESS);
  });
}

API int cudaGraphAddEmptyNode(void** node, void* graph, const void*, size_t) {
  return add_node(node, graph, NODE_EMPTY, nullptr);
}

API int cudaGraphAddChildGraphNode(void** node, void* graph, const void*, size_t, void* child) {
  Graph* inner = new Graph(*static_cast<Graph*>(child));
  return add_node(node, graph, NODE_GRAPH, [=](Stream* stream) { return run_graph(inner, stream); });
}

API int cudaGraphAddDependencies(void*, const void*, const void*, size_t) { return SUCCESS; }
API int cudaGraphDebugDotPrint(void*, const char*, unsigned) { return SUCCESS; }
