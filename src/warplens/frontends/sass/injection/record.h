// What the patches write and the host reads: kept in step with ../raw.py.
#pragma once
#include <stdint.h>

// For functions that the patches and the host share.
#ifdef __CUDACC__
#define WARPLENS_BOTH static __device__ __forceinline__
#else
#define WARPLENS_BOTH static inline
#endif

// What every patch of a launch gets a pointer to.
struct Tracker {
    unsigned long long* head;       // 16-byte units reserved so far, including those that found no room
    unsigned long long dropped;     // records that found no room
    unsigned long long foreign;     // records of code outside the kernel's own function
    unsigned long long executions;  // how often the kernel ran, and kernels that it launched
    unsigned long long entered;     // how often its own code did so, outside graphs
    unsigned long long capacity;    // units of `records`
    unsigned long long code_base;
    unsigned long long code_bytes;
    unsigned long long block_limit;  // thread blocks that are recorded; see chosen.h for which
    unsigned long long run_blocks;   // consecutive ones of these
    unsigned long long run_period;   // from the first of a run to the first of the next
    unsigned long long first_run;    // the first of all
    unsigned long long first_block;  // the number of the first block in records, which tells kernels of a graph apart
    void* records;
    uint32_t grid_x, grid_y;
    uint32_t block_x, block_y;
    uint32_t dynamic_shared_bytes;  // set by the device
    uint32_t total_shared_bytes;
    // What kernels of a CUDA graph need to share a pointer; see turns.h.
    Tracker* turn;               // of the kernels with this function, the one that runs
    Tracker* other;              // the first kernel with another function
    Tracker* again;              // the next kernel with this function
    Tracker* recent;             // the first kernel with the function that was looked for last
    unsigned long long blocks;   // of the kernel
    unsigned long long threads;
    unsigned long long left;     // threads that have left it
    unsigned long long begun;    // blocks of all that share the pointer, as they began
    unsigned long long ended;    // and as kernels ended
    uint32_t shared;             // 0 outside graphs
    uint32_t overlapped;         // others that share the pointer had begun when the kernel ended
};

// How the device memory for records begins; they follow it.
struct Start {
    alignas(256) unsigned long long head;
    alignas(256) Tracker tracker;
};

// A record: one header unit, and units with addresses.
//   x: instruction's offset in the kernel   y: active lanes   z: number among the recorded blocks + first_block
//   w: warp | kind << 8 | units << 16 | payload << 24
// payload 1: base and stride (two 64-bit numbers). payload 2: an address per active lane.
enum { PAYLOAD_NONE = 0, PAYLOAD_EVEN = 1, PAYLOAD_LISTED = 2 };
// A record that found no room, but whose first unit did: nothing follows it.
enum { KIND_HOLE = 255 };
