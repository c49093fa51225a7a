// Tensor maps: CUDA leaves their bytes open. These are those of `ptx/tensor_maps.py`.
#include <cstring>

#include "client.h"

using namespace warplens;

namespace {

// Element types of CUDA as PTX numbers them, and their bytes.
constexpr struct {
  uint8_t number, bytes;
} ELEMENTS[] = {{0, 1}, {1, 2}, {2, 4}, {3, 4}, {4, 8}, {5, 8}, {6, 2}, {7, 4}, {9, 8}, {10, 2}, {8, 4}, {11, 4}, {12, 4}};
constexpr unsigned MOST_DIMENSIONS = 5;

struct TensorMap {
  uint64_t address;
  uint8_t last_dimension, type, interleave, swizzle, fill, im2col;
  uint32_t dimensions[MOST_DIMENSIONS];
  uint64_t strides[MOST_DIMENSIONS - 1];
  uint32_t box[MOST_DIMENSIONS], steps[MOST_DIMENSIONS];
  int16_t lower[MOST_DIMENSIONS - 2], upper[MOST_DIMENSIONS - 2];
};
static_assert(sizeof(TensorMap) <= 128, "a map has 128 bytes");

// What both kinds of maps have. False where CUDA refuses them.
bool described(TensorMap* map, int type, unsigned rank, const void* address, const uint64_t* sizes,
               const uint64_t* strides, const uint32_t* steps, int interleave, int swizzle, int fill) {
  uint64_t start = reinterpret_cast<uint64_t>(address);
  if (type < 0 || type >= static_cast<int>(sizeof ELEMENTS / sizeof *ELEMENTS)) return false;
  if (rank < 1 || rank > MOST_DIMENSIONS || start % 16 || interleave < 0 || interleave > 2 || swizzle < 0) return false;
  *map = TensorMap{};
  map->address = start;
  map->last_dimension = static_cast<uint8_t>(rank - 1);
  map->type = ELEMENTS[type].number;
  map->interleave = static_cast<uint8_t>(interleave);
  map->swizzle = static_cast<uint8_t>(swizzle);
  map->fill = static_cast<uint8_t>(fill);
  for (unsigned i = 0; i < MOST_DIMENSIONS; i++) {
    map->dimensions[i] = map->box[i] = map->steps[i] = 1;
    if (i >= rank) continue;
    if (sizes[i] == 0 || sizes[i] > UINT32_MAX || steps[i] == 0 || steps[i] > 8) return false;
    map->dimensions[i] = static_cast<uint32_t>(sizes[i]);
    map->steps[i] = steps[i];
    if (i + 1 == rank) continue;
    if (strides[i] % 16 || strides[i] >= 1ull << 40) return false;
    map->strides[i] = strides[i];
  }
  return true;
}

int given(void* target, const TensorMap& map) {
  if (!target || reinterpret_cast<uint64_t>(target) % 64) return INVALID_VALUE;
  memset(target, 0, 128);
  memcpy(target, &map, sizeof map);
  return SUCCESS;
}

}  // namespace

API int cuTensorMapEncodeTiled(void* target, int type, unsigned rank, void* address, const uint64_t* sizes,
                               const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                               int swizzle, int, int fill) {
  TensorMap map;
  if (!described(&map, type, rank, address, sizes, strides, steps, interleave, swizzle, fill)) return INVALID_VALUE;
  for (unsigned i = 0; i < rank; i++) {
    if (box[i] == 0 || box[i] > 256) return INVALID_VALUE;
    map.box[i] = box[i];
  }
  if (!interleave && box[0] * ELEMENTS[type].bytes % 16) return INVALID_VALUE;
  return given(target, map);
}

API int cuTensorMapEncodeIm2col(void* target, int type, unsigned rank, void* address, const uint64_t* sizes,
                                const uint64_t* strides, const int* lower, const int* upper, uint32_t channels,
                                uint32_t pixels, const uint32_t* steps, int interleave, int swizzle, int, int fill) {
  TensorMap map;
  if (rank < 3 || !described(&map, type, rank, address, sizes, strides, steps, interleave, swizzle, fill))
    return INVALID_VALUE;
  if (channels == 0 || channels > 256 || pixels == 0 || pixels > 1024) return INVALID_VALUE;
  map.im2col = 1;
  map.box[0] = channels;
  map.box[1] = pixels;
  for (unsigned i = 0; i + 2 < rank; i++) {
    map.lower[i] = static_cast<int16_t>(lower[i]);
    map.upper[i] = static_cast<int16_t>(upper[i]);
  }
  return given(target, map);
}

API int cuTensorMapReplaceAddress(void* target, void* address) {
  uint64_t start = reinterpret_cast<uint64_t>(address);
  if (!target || start % 16) return INVALID_VALUE;
  memcpy(target, &start, sizeof start);
  return SUCCESS;
}
