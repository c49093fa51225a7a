#include "client.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace warplens {
namespace {

struct RequestHeader {
  uint32_t op;
  uint32_t bytes;
  int64_t arguments[7];
};

struct ReplyHeader {
  int32_t error;
  uint32_t bytes;
  int64_t values[4];
};

constexpr uint32_t NO_ANSWER = 1u << 31;
constexpr uintptr_t WINDOW = 0x7F0000000000;
constexpr size_t GRANULE = 256, PAGE = 4096, OWN_BYTES = size_t(1) << 30;

struct Adopted {
  size_t bytes;
  void* device;
};

std::recursive_mutex lock;
int connection = -1;
pid_t owner = 0;
bool tried = false;
size_t arena_bytes = 0;
char* view = nullptr;
const uint16_t* valid = nullptr;
int arena_file = -1;
std::map<uintptr_t, Block> blocks;
std::map<uintptr_t, Adopted> adopted;
thread_local int last_error = 0;
int sticky_error = 0;

bool send_all(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t sent = send(connection, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    ssize_t got = recv(connection, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// What cannot go on without warplens ends: results that no kernel computed would mislead.
[[noreturn]] void lost() {
  static const char text[] = "warplens: the connection to `warplens run` is lost\n";
  ssize_t ignored = write(2, text, sizeof text - 1);
  (void)ignored;
  _exit(1);
}

bool send_request(uint32_t op, std::initializer_list<int64_t> arguments, const void* data, size_t bytes) {
  RequestHeader header = {op, static_cast<uint32_t>(bytes), {}};
  size_t index = 0;
  for (int64_t each : arguments) header.arguments[index++] = each;
  return send_all(&header, sizeof header) && (bytes == 0 || send_all(data, bytes));
}

// The first answer carries the files of device memory and of the table of allocated bytes.
bool receive_files(ReplyHeader* header, int files[2]) {
  iovec part = {header, sizeof *header};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(connection, &message, 0) != static_cast<ssize_t>(sizeof *header)) return false;
  cmsghdr* found = CMSG_FIRSTHDR(&message);
  if (!found || found->cmsg_type != SCM_RIGHTS) return false;
  memcpy(files, CMSG_DATA(found), 2 * sizeof(int));
  return true;
}

bool map_memory(int file, int table, size_t bytes) {
  void* window = mmap(reinterpret_cast<void*>(WINDOW), bytes, PROT_NONE,
                      MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
  if (window != reinterpret_cast<void*>(WINDOW)) return false;
  void* seen = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* counts = mmap(nullptr, bytes / GRANULE * 2, PROT_READ, MAP_SHARED | MAP_NORESERVE, table, 0);
  if (seen == MAP_FAILED || counts == MAP_FAILED) return false;
  view = static_cast<char*>(seen);
  valid = static_cast<const uint16_t*>(counts);
  arena_bytes = bytes;
  arena_file = file;
  return true;
}

int open_connection() {
  const char* path = getenv("WARPLENS_RUN_SOCKET");
  if (!path) return NO_DEVICE;
  connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (connection < 0 || connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return NO_DEVICE;
  if (!send_request(OP_HELLO, {getpid()}, nullptr, 0)) return NO_DEVICE;
  ReplyHeader header = {};
  int files[2];
  if (!receive_files(&header, files)) return NO_DEVICE;
  if (!map_memory(files[0], files[1], static_cast<size_t>(header.values[0]))) return OUT_OF_MEMORY;
  close(files[1]);
  return SUCCESS;
}

size_t page_up(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

}  // namespace

int connect_once() {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (tried && owner != getpid()) return NOT_INITIALIZED;  // a child of a process that used CUDA cannot, as on a GPU
  if (!tried) {
    tried = true;
    owner = getpid();
    sticky_error = open_connection();
  }
  return connection < 0 ? NO_DEVICE : sticky_error;
}

Reply ask(Op op, std::initializer_list<int64_t> arguments, const void* data, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  Reply reply;
  int state = connect_once();
  if (connection < 0 || owner != getpid()) {
    reply.error = state;
    return reply;
  }
  ReplyHeader header = {};
  if (!send_request(op, arguments, data, bytes) || !receive_all(&header, sizeof header)) lost();
  reply.error = header.error;
  memcpy(reply.values, header.values, sizeof header.values);
  reply.bytes.resize(header.bytes);
  if (header.bytes && !receive_all(&reply.bytes[0], header.bytes)) lost();
  return reply;
}

void tell(Op op, std::initializer_list<int64_t> arguments) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (connect_once() == SUCCESS && !send_request(op | NO_ANSWER, arguments, nullptr, 0)) lost();
}

int done(int error) {
  if (error) last_error = error;
  return error;
}

int take_error(bool clear) {
  int found = sticky_error ? sticky_error : last_error;
  if (clear) last_error = 0;
  return found;
}

void set_sticky(int error) { sticky_error = error; }
int sticky() { return sticky_error; }
void reset_sticky() { sticky_error = 0; }

bool is_device(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) - WINDOW < arena_bytes; }

char* host_view(const void* pointer) {
  uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) - WINDOW;
  return offset < arena_bytes ? view + offset : const_cast<char*>(static_cast<const char*>(pointer));
}

bool is_allocated(const void* pointer, size_t bytes) {
  if (!is_device(pointer) || bytes == 0) return true;
  uintptr_t start, first = reinterpret_cast<uintptr_t>(pointer), last = first + bytes - 1;
  Block block;
  if (find_block(pointer, &start, &block)) return last - start < block.bytes;
  if (last - WINDOW >= arena_bytes) return false;
  for (uintptr_t granule = (first - WINDOW) / GRANULE; granule <= (last - WINDOW) / GRANULE; granule++)
    if (!(valid[granule] & 0x7FFF)) return false;
  return first - WINDOW < OWN_BYTES;  // a variable
}

int allocate(void** pointer, size_t bytes, Kind kind, unsigned flags) {
  if (!pointer) return INVALID_VALUE;
  *pointer = nullptr;
  if (int state = connect_once()) return state;
  if (bytes == 0) return SUCCESS;
  Reply reply = ask(OP_ALLOCATE, {static_cast<int64_t>(bytes), kind});
  if (reply.error) return reply.error;
  void* found = reinterpret_cast<void*>(reply.values[0]);
  if (kind != DEVICE && mprotect(found, page_up(bytes), PROT_READ | PROT_WRITE) != 0) return OUT_OF_MEMORY;
  std::lock_guard<std::recursive_mutex> guard(lock);
  blocks[static_cast<uintptr_t>(reply.values[0])] = {bytes, kind, flags};
  *pointer = found;
  return SUCCESS;
}

int release(void* pointer) {
  if (!pointer) return SUCCESS;
  std::lock_guard<std::recursive_mutex> guard(lock);
  auto found = blocks.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks.end()) return INVALID_VALUE;
  if (found->second.kind != DEVICE) mprotect(pointer, page_up(found->second.bytes), PROT_NONE);
  blocks.erase(found);
  return ask(OP_FREE, {static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer))}).error;
}

bool find_block(const void* pointer, uintptr_t* start, Block* block) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return false;
  auto found = std::prev(next);
  if (address - found->first >= found->second.bytes) return false;
  *start = found->first;
  *block = found->second;
  return true;
}

#ifdef __SANITIZE_ADDRESS__
// Pages hold what stands beside an allocation too, which the sanitizer would take for an error.
__attribute__((no_sanitize("address"))) static void copy_pages(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<volatile uint64_t*>(to);
  auto* source = static_cast<const volatile uint64_t*>(from);
  for (size_t index = 0; index < bytes / sizeof *source; index++) target[index] = source[index];
}
#else
static void copy_pages(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
#endif

int adopt(void* pointer, size_t bytes) {
  uintptr_t start = reinterpret_cast<uintptr_t>(pointer) / PAGE * PAGE;
  size_t whole = page_up(reinterpret_cast<uintptr_t>(pointer) + bytes - start);
  void* device = nullptr;
  if (int error = allocate(&device, whole, PINNED)) return error;
  copy_pages(device, reinterpret_cast<void*>(start), whole);
  off_t offset = static_cast<off_t>(reinterpret_cast<uintptr_t>(device) - WINDOW);
  void* mapped = mmap(reinterpret_cast<void*>(start), whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      arena_file, offset);
  if (mapped == MAP_FAILED) return OUT_OF_MEMORY;
  std::lock_guard<std::recursive_mutex> guard(lock);
  adopted[start] = {whole, device};
  return SUCCESS;
}

int disown(void* pointer) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  auto found = adopted.find(reinterpret_cast<uintptr_t>(pointer) / PAGE * PAGE);
  if (found == adopted.end()) return INVALID_VALUE;
  // The heap may lie in these pages: nothing is allocated between the copy and its taking their place.
  void* start = reinterpret_cast<void*>(found->first);
  size_t whole = found->second.bytes;
  void* kept = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kept == MAP_FAILED) return OUT_OF_MEMORY;
  copy_pages(kept, start, whole);
  mremap(kept, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, start);
  void* device = found->second.device;
  adopted.erase(found);
  return release(device);
}

void expose(void* pointer, size_t bytes) {
  uintptr_t start = reinterpret_cast<uintptr_t>(pointer) / PAGE * PAGE;
  mprotect(reinterpret_cast<void*>(start), page_up(reinterpret_cast<uintptr_t>(pointer) + bytes - start),
           PROT_READ | PROT_WRITE);
}

void* device_pointer_of(void* host) {
  if (is_device(host)) return host;
  std::lock_guard<std::recursive_mutex> guard(lock);
  uintptr_t address = reinterpret_cast<uintptr_t>(host);
  auto next = adopted.upper_bound(address);
  if (next == adopted.begin()) return nullptr;
  auto found = std::prev(next);
  if (address - found->first >= found->second.bytes) return nullptr;
  return static_cast<char*>(found->second.device) + (address - found->first);
}

}  // namespace warplens
