// Device functions that NVIDIA's Compute Sanitizer inserts before instructions. Each writes one record per warp.
#include "chosen.h"
#include "record.h"
#include "turns.h"

#include <sanitizer_patching.h>

static __device__ __forceinline__ unsigned lane_number() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// Launches that nobody prepared may come with any pointer; ours are aligned as all allocations are.
static __device__ __forceinline__ Tracker* given(void* userdata) {
    return reinterpret_cast<uint64_t>(userdata) % 256 ? nullptr : static_cast<Tracker*>(userdata);
}

static __device__ __forceinline__ SanitizerPatchResult write_record(void* userdata, uint64_t pc, uint32_t kind,
                                                                    bool has_address, uint64_t address) {
    const unsigned mask = __activemask();
    Tracker* tracker = given(userdata);
    if (tracker == nullptr) return SANITIZER_PATCH_SUCCESS;
    tracker = tracker_at(tracker, pc);
    const uint64_t block = recorded_number(
        tracker, blockIdx.x + uint64_t(tracker->grid_x) * (blockIdx.y + uint64_t(tracker->grid_y) * blockIdx.z));
    if (block >= tracker->block_limit) return SANITIZER_PATCH_SUCCESS;
    const unsigned rank = __popc(mask & ((1u << lane_number()) - 1u));
    const unsigned leader = __ffs(mask) - 1;
    const uint64_t offset = pc - tracker->code_base;
    if (offset >= tracker->code_bytes) {
        if (rank == 0) atomicAdd(&tracker->foreign, 1ull);
        return SANITIZER_PATCH_SUCCESS;
    }
    const unsigned count = __popc(mask);
    uint64_t first = 0, stride = 0;
    bool even = true;
    if (has_address) {
        first = __shfl_sync(mask, address, leader);
        const unsigned rest = mask & (mask - 1);
        if (rest) stride = __shfl_sync(mask, address, __ffs(rest) - 1) - first;
        even = __all_sync(mask, address == first + rank * stride);
    }
    const unsigned units = has_address ? (even ? 2 : 1 + (count + 1) / 2) : 1;
    unsigned long long at = 0;
    if (rank == 0) at = atomicAdd(tracker->head, static_cast<unsigned long long>(units));
    at = __shfl_sync(mask, at, leader);
    const unsigned warp =
        (threadIdx.x + tracker->block_x * (threadIdx.y + tracker->block_y * threadIdx.z)) / 32;
    uint4* out = static_cast<uint4*>(tracker->records) + at;
    if (at + units > tracker->capacity) {
        if (rank == 0) {
            atomicAdd(&tracker->dropped, 1ull);
            if (at < tracker->capacity) *out = make_uint4(0, 0, 0, KIND_HOLE << 8 | 1 << 16);
        }
        return SANITIZER_PATCH_SUCCESS;
    }
    if (rank == 0) {
        const unsigned payload = !has_address ? PAYLOAD_NONE : even ? PAYLOAD_EVEN : PAYLOAD_LISTED;
        *out = make_uint4(static_cast<unsigned>(offset), mask, static_cast<unsigned>(tracker->first_block + block),
                          warp | kind << 8 | units << 16 | payload << 24);
    }
    if (has_address) {
        unsigned long long* words = reinterpret_cast<unsigned long long*>(out + 1);
        if (!even) {
            words[rank] = address;
        } else if (rank == 0) {
            words[0] = first;
            words[1] = stride;
        }
    }
    return SANITIZER_PATCH_SUCCESS;
}

#define PATCH(name, ...) extern "C" __device__ __noinline__ SanitizerPatchResult warplens_##name(void* data, uint64_t pc, ##__VA_ARGS__)
#define AT(kind, address) write_record(data, pc, SANITIZER_INSTRUCTION_##kind, true, uint64_t(address))
#define PLAIN(kind) write_record(data, pc, SANITIZER_INSTRUCTION_##kind, false, 0)

static __device__ __forceinline__ void note_shared_memory(Tracker* tracker) {
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(tracker->dynamic_shared_bytes));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(tracker->total_shared_bytes));
}

PATCH(enter) {
    Tracker* tracker = given(data);
    if (tracker == nullptr || threadIdx.x || threadIdx.y || threadIdx.z) return SANITIZER_PATCH_SUCCESS;
    if (is_shared(tracker)) {
        begin_block(tracker);
    } else if (!(blockIdx.x || blockIdx.y || blockIdx.z)) {
        if (atomicAdd(&tracker->executions, 1ull) == 0) note_shared_memory(tracker);
        if (has(tracker, pc)) atomicAdd(&tracker->entered, 1ull);
    }
    return SANITIZER_PATCH_SUCCESS;
}
PATCH(exit) {
    const unsigned mask = __activemask();
    PLAIN(BLOCK_EXIT);
    __syncwarp(mask);
    Tracker* first = given(data);
    if (first == nullptr || !is_shared(first) || lane_number() != __ffs(mask) - 1) return SANITIZER_PATCH_SUCCESS;
    if (Tracker* ended = leave(first, pc, __popc(mask))) note_shared_memory(ended);
    return SANITIZER_PATCH_SUCCESS;
}
PATCH(global, void* address, uint32_t, uint32_t, const void*) { return AT(GLOBAL_MEMORY_ACCESS, address); }
PATCH(shared, void* address, uint32_t, uint32_t, const void*) { return AT(SHARED_MEMORY_ACCESS, address); }
PATCH(local, void* address, uint32_t, uint32_t, const void*) { return AT(LOCAL_MEMORY_ACCESS, address); }
PATCH(remote, void* address, uint32_t, uint32_t, const void*) { return AT(REMOTE_SHARED_MEMORY_ACCESS, address); }
PATCH(async_copy, void* source, uint32_t, uint32_t) { return AT(MEMCPY_ASYNC, source); }
PATCH(matrix, uint32_t address, uint32_t, uint32_t, uint32_t, const void*) {
    return AT(MATRIX_MEMORY_ACCESS, address);
}
PATCH(bulk_in, uint64_t source, uint32_t, uint32_t, uint32_t, uint32_t) {
    return AT(BULK_COPY_GLOBAL_TO_SHARED, source);
}
PATCH(bulk_out, uint64_t target, uint32_t, uint32_t) { return AT(BULK_COPY_SHARED_TO_GLOBAL, target); }
PATCH(barrier, uint32_t, uint32_t, uint32_t) { return PLAIN(BARRIER); }
PATCH(syncwarp, uint32_t) { return PLAIN(SYNCWARP); }
PATCH(shuffle) { return PLAIN(SHFL); }
PATCH(call, uint64_t, uint32_t) { return PLAIN(CALL); }
PATCH(ret) { return PLAIN(RET); }
PATCH(commit) { return PLAIN(PIPELINE_COMMIT); }
PATCH(wait, uint32_t) { return PLAIN(PIPELINE_WAIT); }
PATCH(cluster_arrive) { return PLAIN(CLUSTER_BARRIER_ARRIVE); }
PATCH(cluster_wait) { return PLAIN(CLUSTER_BARRIER_WAIT); }
PATCH(warpgroup_product, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t) {
    return PLAIN(WARPGROUP_MMA_ASYNC);
}
