// CUDA arrays, and texture and surface objects.
#include <cstring>

#include "objects.h"

using namespace warplens;

namespace {

struct Channels {
  int x, y, z, w, kind;
};

struct Extent {
  size_t width, height, depth;
};

enum ResourceType { ARRAY = 0, MIPMAP = 1, LINEAR = 2, PITCHED = 3 };

struct Resource {
  int type;
  union {
    Array* array;
    struct {
      char* pointer;
      Channels channels;
      size_t bytes;
    } linear;
    struct {
      char* pointer;
      Channels channels;
      size_t width, height, pitch;
    } pitched;
  };
};

struct Reading {
  int modes[3], filter, values, srgb;
  float border[4];
  int normalised;
};

// As `runtime/textures.py` unpacks it.
struct Description {
  int64_t address, width, height, depth, row_bytes;
  int32_t bits, channels, kind, is_array, modes[3], filter, normalised_values, normalised_coordinates;
  float border[4];
};

int channel_count(const Channels& channels) {
  return (channels.x > 0) + (channels.y > 0) + (channels.z > 0) + (channels.w > 0);
}

size_t element_bytes(const Channels& channels) {
  return static_cast<size_t>(channels.x + channels.y + channels.z + channels.w) / 8;
}

void set_channels(Description* about, const Channels& channels) {
  about->bits = channels.x;
  about->channels = channel_count(channels);
  about->kind = channels.kind;
}

int describe(const Resource* resource, Description* about) {
  if (resource->type == ARRAY) {
    const Array* array = resource->array;
    about->address = reinterpret_cast<int64_t>(array->data);
    about->width = static_cast<int64_t>(array->width);
    about->height = static_cast<int64_t>(array->height ? array->height : 1);
    about->depth = static_cast<int64_t>(array->depth ? array->depth : 1);
    about->row_bytes = static_cast<int64_t>(array->pitch);
    about->is_array = 1;
    set_channels(about, {array->x, array->y, array->z, array->w, array->kind});
  } else if (resource->type == LINEAR) {
    set_channels(about, resource->linear.channels);
    about->address = reinterpret_cast<int64_t>(resource->linear.pointer);
    about->width = static_cast<int64_t>(resource->linear.bytes / element_bytes(resource->linear.channels));
    about->height = about->depth = 1;
    about->row_bytes = static_cast<int64_t>(resource->linear.bytes);
  } else if (resource->type == PITCHED) {
    set_channels(about, resource->pitched.channels);
    about->address = reinterpret_cast<int64_t>(resource->pitched.pointer);
    about->width = static_cast<int64_t>(resource->pitched.width);
    about->height = static_cast<int64_t>(resource->pitched.height);
    about->depth = 1;
    about->row_bytes = static_cast<int64_t>(resource->pitched.pitch);
  } else {
    return NOT_SUPPORTED;
  }
  return SUCCESS;
}

int create(unsigned long long* object, const Description& about) {
  Reply reply = ask(OP_TEXTURE, {1}, &about, sizeof about);
  *object = static_cast<unsigned long long>(reply.values[0]);
  return reply.error;
}

int destroy(unsigned long long object) { return ask(OP_TEXTURE, {0, static_cast<int64_t>(object)}).error; }

}  // namespace

API Channels cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }

API int cudaMalloc3DArray(Array** made, const Channels* channels, Extent extent, unsigned flags) {
  size_t element = element_bytes(*channels), rows = extent.height ? extent.height : 1;
  if (!extent.width || !element) return done(INVALID_VALUE);
  auto* array = new Array{nullptr, channels->x, channels->y, channels->z, channels->w, channels->kind,
                          extent.width, extent.height, extent.depth, element, extent.width * element, flags};
  size_t bytes = array->pitch * rows * (extent.depth ? extent.depth : 1);
  if (int error = allocate(reinterpret_cast<void**>(&array->data), bytes, DEVICE)) {
    delete array;
    return done(error);
  }
  *made = array;
  return SUCCESS;
}

API int cudaMallocArray(Array** array, const Channels* channels, size_t width, size_t height, unsigned flags) {
  return cudaMalloc3DArray(array, channels, {width, height, 0}, flags);
}

API int cudaFreeArray(Array* array) {
  if (!array) return SUCCESS;
  int error = release(array->data);
  delete array;
  return done(error);
}

API int cudaArrayGetInfo(Channels* channels, Extent* extent, unsigned* flags, Array* array) {
  if (channels) *channels = {array->x, array->y, array->z, array->w, array->kind};
  if (extent) *extent = {array->width, array->height, array->depth};
  if (flags) *flags = array->flags;
  return SUCCESS;
}

API int cudaGetChannelDesc(Channels* channels, const Array* array) {
  *channels = {array->x, array->y, array->z, array->w, array->kind};
  return SUCCESS;
}

API int cudaMemcpy2DToArrayAsync(Array* to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                                 size_t height, int direction, void* stream) {
  return done(copy_rows({to->data + y * to->pitch + x, static_cast<const char*>(from), to->pitch, pitch, 0, 0, width,
                         height, 1},
                        direction, stream_of(stream)));
}
API int cudaMemcpy2DToArray(Array* to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                            size_t height, int direction) {
  return cudaMemcpy2DToArrayAsync(to, x, y, from, pitch, width, height, direction, nullptr);
}
API int cudaMemcpy2DFromArray(void* to, size_t pitch, const Array* from, size_t x, size_t y, size_t width,
                              size_t height, int direction) {
  return done(copy_rows({static_cast<char*>(to), from->data + y * from->pitch + x, pitch, from->pitch, 0, 0, width,
                         height, 1},
                        direction, stream_of(nullptr)));
}
API int cudaMemcpyToArray(Array* to, size_t x, size_t y, const void* from, size_t bytes, int direction) {
  return done(copy(to->data + y * to->pitch + x, from, bytes, direction, stream_of(nullptr)));
}
API int cudaMemcpyFromArray(void* to, const Array* from, size_t x, size_t y, size_t bytes, int direction) {
  return done(copy(to, from->data + y * from->pitch + x, bytes, direction, stream_of(nullptr)));
}

API int cudaCreateTextureObject(unsigned long long* object, const Resource* resource, const Reading* reading,
                                const void*) {
  Description about = {};
  if (int error = describe(resource, &about)) return done(error);
  memcpy(about.modes, reading->modes, sizeof about.modes);
  memcpy(about.border, reading->border, sizeof about.border);
  about.filter = reading->filter;
  about.normalised_values = reading->values;
  about.normalised_coordinates = reading->normalised;
  return done(create(object, about));
}

API int cudaCreateSurfaceObject(unsigned long long* object, const Resource* resource) {
  Description about = {};
  if (int error = describe(resource, &about)) return done(error);
  return done(create(object, about));
}

API int cudaDestroyTextureObject(unsigned long long object) { return done(destroy(object)); }
API int cudaDestroySurfaceObject(unsigned long long object) { return done(destroy(object)); }

// -- references, which CUDA 12 removed: the server names the reference and what to use in its place ------------------

static void refuse_reference(const char* name) { ask(OP_REFUSE, {1}, name, strlen(name)); }

API void __cudaRegisterTexture(void**, const void*, const void**, const char* name, int, int, int) {
  refuse_reference(name);
}
API void __cudaRegisterSurface(void**, const void*, const void**, const char* name, int, int) {
  refuse_reference(name);
}
API int cudaBindTexture(size_t*, const void*, const void*, const void*, size_t) { return done(NOT_SUPPORTED); }
API int cudaBindTexture2D(size_t*, const void*, const void*, const void*, size_t, size_t, size_t) {
  return done(NOT_SUPPORTED);
}
API int cudaBindTextureToArray(const void*, const void*, const void*) { return done(NOT_SUPPORTED); }
API int cudaBindTextureToMipmappedArray(const void*, const void*, const void*) { return done(NOT_SUPPORTED); }
API int cudaBindSurfaceToArray(const void*, const void*, const void*) { return done(NOT_SUPPORTED); }
API int cudaUnbindTexture(const void*) { return done(NOT_SUPPORTED); }
API int cudaGetTextureReference(const void**, const void*) { return done(NOT_SUPPORTED); }
API int cudaGetSurfaceReference(const void**, const void*) { return done(NOT_SUPPORTED); }
API int cuModuleGetTexRef(void**, void*, const char* name) {
  refuse_reference(name);
  return NOT_SUPPORTED;
}
API int cuModuleGetSurfRef(void**, void*, const char* name) {
  refuse_reference(name);
  return NOT_SUPPORTED;
}
