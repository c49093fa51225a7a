// The stand-in's link to warplens: messages over a Unix socket, and device memory that both processes map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace warplens {

// Numbers of messages; `runtime/messages.py` has the same.
enum Op : uint32_t {
  OP_HELLO = 1,
  OP_ALLOCATE,
  OP_FREE,
  OP_MODULE,
  OP_FUNCTION,
  OP_SYMBOL,
  OP_LAUNCH,
  OP_COPIED,
  OP_EVENT_RECORD,
  OP_EVENT_WAIT,
  OP_EVENT_ELAPSED,
  OP_SYNCHRONIZE,
  OP_PROPERTIES,
  OP_ATTRIBUTES,
  OP_OCCUPANCY,
  OP_MEMORY_INFO,
  OP_REFUSE,
  OP_TEXTURE,
  OP_LIMIT,
};

// Error codes; the runtime and the driver share them.
enum Error {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_CONFIGURATION = 9,  // by the runtime before CUDA 13; later ones say INVALID_VALUE, as the driver does
  INVALID_PITCH = 12,
  INVALID_SYMBOL = 13,
  INVALID_DEVICE_POINTER = 17,
  INVALID_DIRECTION = 21,
  MISSING_CONFIGURATION = 52,
  INVALID_FUNCTION = 98,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  FILE_NOT_FOUND = 301,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  OUT_OF_RESOURCES = 701,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  INVALID_CLUSTER = 912,
  ILLEGAL_STATE = 401,
  UNKNOWN = 999,
};

struct Reply {
  int error = 0;
  int64_t values[4] = {};
  std::string bytes;
};

enum Kind : int64_t { DEVICE = 0, MANAGED = 1, PINNED = 2 };

struct Block {
  size_t bytes;
  Kind kind;
  unsigned flags;
};

// Ask warplens and wait for the answer; the error is NO_DEVICE where no `warplens run` is listening.
Reply ask(Op op, std::initializer_list<int64_t> arguments, const void* data = nullptr, size_t bytes = 0);
// Tell warplens something that needs no answer.
void tell(Op op, std::initializer_list<int64_t> arguments);
// Connect if that has not happened; SUCCESS or an error.
int connect_once();

// Remember an error for cudaGetLastError and return it.
int done(int error);
int take_error(bool clear);
// Errors of kernels stay: every later call returns them.
void set_sticky(int error);
int sticky();
void reset_sticky();

bool is_device(const void* pointer);
// The same byte at an address that the host may read and write.
char* host_view(const void* pointer);
// Whether all bytes are allocated, if they are device memory; other memory is not checked.
bool is_allocated(const void* pointer, size_t bytes);

int allocate(void** pointer, size_t bytes, Kind kind, unsigned flags = 0);
int release(void* pointer);
// The block that an address lies in: its start and what is known of it; false where there is none.
bool find_block(const void* pointer, uintptr_t* start, Block* block);
// Give pages of the program to device memory, as cudaHostRegister does.
int adopt(void* pointer, size_t bytes);
int disown(void* pointer);
void* device_pointer_of(void* host);
// Let the host read and write pages of device memory at their own address.
void expose(void* pointer, size_t bytes);

}  // namespace warplens
