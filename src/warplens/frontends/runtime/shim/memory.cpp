// Memory of the runtime API: allocations, copies, fills, symbols and pools.
#include <cstring>

#include "objects.h"

namespace warplens {
namespace {

bool on_device(const void* pointer) {
  uintptr_t start;
  Block block;
  return is_device(pointer) && !(find_block(pointer, &start, &block) && block.kind == PINNED);
}

// What a pointer may be by the direction that the program gives; a wrong one is an error, as on a GPU.
bool allowed(const void* to, const void* from, int direction) {
  if (direction == BY_POINTER || direction == HOST_TO_HOST) return true;
  bool to_device = direction == HOST_TO_DEVICE || direction == DEVICE_TO_DEVICE;
  bool from_device = direction == DEVICE_TO_HOST || direction == DEVICE_TO_DEVICE;
  return (!to_device || device_pointer_of(const_cast<void*>(to))) &&
         (!from_device || device_pointer_of(const_cast<void*>(from)));
}

void note(const void* to, const void* from, size_t bytes, Stream* stream) {
  int direction = (on_device(to) ? 1 : 0) | (on_device(from) ? 2 : 0);
  const void* host = on_device(to) ? from : to;
  bool pinned = is_device(host) || device_pointer_of(const_cast<void*>(host));
  tell(OP_COPIED, {direction, static_cast<int64_t>(bytes), stream->id, pinned});
}

constexpr size_t PITCH = 512;

}  // namespace

int copy_rows(const Copy& what, int direction, Stream* stream) {
  if (direction < 0 || direction > BY_POINTER) return INVALID_DIRECTION;
  if (what.width == 0 || what.height == 0 || what.depth == 0) return SUCCESS;
  if (!what.to || !what.from || !allowed(what.to, what.from, direction)) return INVALID_VALUE;
  if (what.height > 1 && (what.width > what.to_pitch || what.width > what.from_pitch)) return INVALID_PITCH;
  size_t last_to = (what.depth - 1) * what.to_slice + (what.height - 1) * what.to_pitch;
  size_t last_from = (what.depth - 1) * what.from_slice + (what.height - 1) * what.from_pitch;
  if (!is_allocated(what.to, 1) || !is_allocated(what.to + last_to, what.width) || !is_allocated(what.from, 1) ||
      !is_allocated(what.from + last_from, what.width))
    return INVALID_VALUE;
  return submit(stream, NODE_COPY, [=](Stream* on) {
    for (size_t slice = 0; slice < what.depth; slice++)
      for (size_t row = 0; row < what.height; row++)
        memmove(host_view(what.to + slice * what.to_slice + row * what.to_pitch),
                host_view(what.from + slice * what.from_slice + row * what.from_pitch), what.width);
    note(what.to, what.from, what.width * what.height * what.depth, on);
    return int(SUCCESS);
  });
}

int copy(void* to, const void* from, size_t bytes, int direction, Stream* stream) {
  if (int state = connect_once()) return state;
  if (!is_allocated(to, bytes) || !is_allocated(from, bytes)) return INVALID_VALUE;
  return copy_rows({static_cast<char*>(to), static_cast<const char*>(from), bytes, bytes, bytes, bytes, bytes, 1, 1},
                   direction, stream);
}

int fill(void* at, size_t pitch, unsigned value, size_t element_bytes, size_t width, size_t height, Stream* stream) {
  if (int state = connect_once()) return state;
  size_t row_bytes = width * element_bytes;
  if (row_bytes == 0 || height == 0) return SUCCESS;
  char* start = static_cast<char*>(at);
  if (!is_device(at) && device_pointer_of(at)) start = static_cast<char*>(device_pointer_of(at));
  if (!is_device(start) || !is_allocated(start, 1) || !is_allocated(start + (height - 1) * pitch, row_bytes))
    return INVALID_VALUE;
  return submit(stream, NODE_SET, [=](Stream* on) {
    for (size_t row = 0; row < height; row++) {
      char* place = host_view(start + row * pitch);
      if (element_bytes == 1)
        memset(place, static_cast<int>(value), row_bytes);
      else
        for (size_t index = 0; index < width; index++) memcpy(place + index * element_bytes, &value, element_bytes);
    }
    tell(OP_COPIED, {4, static_cast<int64_t>(row_bytes * height), on->id, 1});
    return int(SUCCESS);
  });
}

}  // namespace warplens

using namespace warplens;

// -- allocations ----------------------------------------------------------------------------------------------

API int cudaMalloc(void** pointer, size_t bytes) { return done(allocate(pointer, bytes, DEVICE)); }
API int cudaMallocAsync(void** pointer, size_t bytes, void*) { return cudaMalloc(pointer, bytes); }
API int cudaMallocFromPoolAsync(void** pointer, size_t bytes, void*, void*) { return cudaMalloc(pointer, bytes); }
API int cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return done(bytes == 0 ? INVALID_VALUE : allocate(pointer, bytes, MANAGED, flags));
}
API int cudaMallocHost(void** pointer, size_t bytes) { return done(allocate(pointer, bytes, PINNED)); }
API int cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return done(allocate(pointer, bytes, PINNED, flags));
}
API int cudaFree(void* pointer) { return done(pointer ? release(pointer) : connect_once()); }
API int cudaFreeAsync(void* pointer, void*) { return cudaFree(pointer); }
API int cudaFreeHost(void* pointer) { return done(release(pointer)); }

API int cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + PITCH - 1) / PITCH * PITCH;
  return done(allocate(pointer, *pitch * height, DEVICE));
}

struct Extent {
  size_t width, height, depth;
};
struct Pitched {
  void* pointer;
  size_t pitch, width, height;
};

API int cudaMalloc3D(Pitched* pitched, Extent extent) {
  pitched->width = extent.width;
  pitched->height = extent.height;
  pitched->pitch = (extent.width + PITCH - 1) / PITCH * PITCH;
  return done(allocate(&pitched->pointer, pitched->pitch * extent.height * extent.depth, DEVICE));
}

API int cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  if (int error = connect_once()) return done(error);
  if (!pointer || !bytes) return done(INVALID_VALUE);
  return done(device_pointer_of(pointer) ? 712 : adopt(pointer, bytes));
}
API int cudaHostUnregister(void* pointer) { return done(disown(pointer) ? 713 : 0); }

API int cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = device_pointer_of(host);
  return done(*device ? SUCCESS : INVALID_VALUE);
}

API int cudaHostGetFlags(unsigned* flags, void* host) {
  uintptr_t start;
  Block block;
  if (!find_block(host, &start, &block) || block.kind != PINNED) return done(INVALID_VALUE);
  *flags = block.flags | 2;  // memory is always mapped
  return SUCCESS;
}

struct PointerAttributes {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};

// The structure had no reserved part before CUDA 13: only the first four fields are written.
API int cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  uintptr_t start;
  Block block;
  void* device = device_pointer_of(const_cast<void*>(pointer));
  attributes->type = 0;
  attributes->device = -2;
  attributes->device_pointer = attributes->host_pointer = nullptr;
  if (!device || !find_block(device, &start, &block)) return SUCCESS;
  constexpr int TYPE[] = {2, 3, 1};  // device, managed, host
  attributes->type = TYPE[block.kind];
  attributes->device = 0;
  attributes->device_pointer = device;
  attributes->host_pointer = block.kind == DEVICE ? nullptr : const_cast<void*>(pointer);
  return SUCCESS;
}

API int cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  Reply reply = ask(OP_MEMORY_INFO, {});
  *free_bytes = static_cast<size_t>(reply.values[0]);
  *total = static_cast<size_t>(reply.values[1]);
  return done(reply.error);
}

API int cudaMemPrefetchAsync(const void*, size_t) { return done(sticky()); }
API int cudaMemAdvise(const void*, size_t) { return done(sticky()); }
API int cudaMemPrefetchAsync_v2(const void*, size_t) { return done(sticky()); }
API int cudaMemAdvise_v2(const void*, size_t) { return done(sticky()); }

// -- copies ---------------------------------------------------------------------------------------------------

API int cudaMemcpy(void* to, const void* from, size_t bytes, int direction) {
  return done(copy(to, from, bytes, direction, stream_of(nullptr)));
}
API int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int direction, void* stream) {
  return done(copy(to, from, bytes, direction, stream_of(stream)));
}
API int cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return done(copy(to, from, bytes, BY_POINTER, stream_of(nullptr)));
}
API int cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void* stream) {
  return done(copy(to, from, bytes, BY_POINTER, stream_of(stream)));
}

API int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                          size_t height, int direction, void* stream) {
  if (int error = connect_once()) return done(error);
  return done(copy_rows({static_cast<char*>(to), static_cast<const char*>(from), to_pitch, from_pitch, 0, 0, width,
                         height, 1},
                        direction, stream_of(stream)));
}
API int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                     int direction) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, direction, nullptr);
}

struct Position {
  size_t x, y, z;
};
struct Copy3D {
  Array* from_array;
  Position from_position;
  Pitched from;
  Array* to_array;
  Position to_position;
  Pitched to;
  Extent extent;
  int direction;
};

// One end of a copy as rows; extents and positions count elements where an array takes part.
static char* end_of_copy(Array* array, const Pitched& pitched, Position at, size_t* pitch, size_t* slice,
                         size_t element_bytes) {
  *pitch = array ? array->pitch : pitched.pitch;
  *slice = *pitch * (array ? (array->height ? array->height : 1) : pitched.height);
  size_t x = array ? at.x * element_bytes : at.x;
  return (array ? array->data : static_cast<char*>(pitched.pointer)) + at.z * *slice + at.y * *pitch + x;
}

API int cudaMemcpy3DAsync(const Copy3D* with, void* stream) {
  if (int error = connect_once()) return done(error);
  Array* array = with->from_array ? with->from_array : with->to_array;
  size_t element = array ? array->element_bytes : 1;
  Copy rows = {};
  rows.from = end_of_copy(with->from_array, with->from, with->from_position, &rows.from_pitch, &rows.from_slice, element);
  rows.to = end_of_copy(with->to_array, with->to, with->to_position, &rows.to_pitch, &rows.to_slice, element);
  rows.width = with->extent.width * element;
  rows.height = with->extent.height;
  rows.depth = with->extent.depth;
  return done(copy_rows(rows, with->direction, stream_of(stream)));
}
API int cudaMemcpy3D(const Copy3D* with) { return cudaMemcpy3DAsync(with, nullptr); }

// -- fills ----------------------------------------------------------------------------------------------------

API int cudaMemsetAsync(void* at, int value, size_t bytes, void* stream) {
  return done(fill(at, bytes, static_cast<unsigned>(value), 1, bytes, 1, stream_of(stream)));
}
API int cudaMemset(void* at, int value, size_t bytes) { return cudaMemsetAsync(at, value, bytes, nullptr); }
API int cudaMemset2DAsync(void* at, size_t pitch, int value, size_t width, size_t height, void* stream) {
  return done(fill(at, pitch, static_cast<unsigned>(value), 1, width, height, stream_of(stream)));
}
API int cudaMemset2D(void* at, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(at, pitch, value, width, height, nullptr);
}
API int cudaMemset3D(Pitched at, int value, Extent extent) {
  return done(fill(at.pointer, at.pitch, static_cast<unsigned>(value), 1, extent.width, at.height * extent.depth,
                   stream_of(nullptr)));
}

// -- symbols --------------------------------------------------------------------------------------------------

static int symbol_part(const void* symbol, size_t offset, size_t bytes, char** at) {
  void* address = nullptr;
  size_t size = 0;
  if (int error = symbol_of(symbol, &address, &size)) return error;
  if (offset > size || bytes > size - offset) return INVALID_VALUE;
  *at = static_cast<char*>(address) + offset;
  return SUCCESS;
}

API int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int direction,
                                void* stream) {
  char* at;
  if (int error = symbol_part(symbol, offset, bytes, &at)) return done(error);
  return done(copy(at, from, bytes, direction, stream_of(stream)));
}
API int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int direction) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, direction, nullptr);
}
API int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, int direction,
                                  void* stream) {
  char* at;
  if (int error = symbol_part(symbol, offset, bytes, &at)) return done(error);
  return done(copy(to, at, bytes, direction, stream_of(stream)));
}
API int cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, int direction) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, direction, nullptr);
}
API int cudaGetSymbolAddress(void** address, const void* symbol) {
  size_t bytes;
  return done(symbol_of(symbol, address, &bytes));
}
API int cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  void* address;
  return done(symbol_of(symbol, &address, bytes));
}

// -- pools: all memory comes from the one that there is --------------------------------------------------------

static char the_pool;
API int cudaDeviceGetDefaultMemPool(void** pool, int) {
  *pool = &the_pool;
  return SUCCESS;
}
API int cudaDeviceGetMemPool(void** pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
API int cudaDeviceSetMemPool(int, void*) { return SUCCESS; }
API int cudaMemPoolCreate(void** pool, const void*) { return cudaDeviceGetDefaultMemPool(pool, 0); }
API int cudaMemPoolDestroy(void*) { return SUCCESS; }
API int cudaMemPoolSetAttribute(void*, int, void*) { return SUCCESS; }
API int cudaMemPoolGetAttribute(void*, int, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return SUCCESS;
}
API int cudaMemPoolTrimTo(void*, size_t) { return SUCCESS; }
API int cudaMemPoolSetAccess(void*, const void*, size_t) { return SUCCESS; }
