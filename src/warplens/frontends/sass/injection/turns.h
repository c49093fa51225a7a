// Kernels of a CUDA graph that run one after the other share a pointer: the one that was set for the last of them is
// what the patches of all get. It points to the tracker of the first. Trackers are told apart by the function of an
// instruction, and where several kernels have the same, by whose turn it is: a kernel's ends with its last thread.
#pragma once
#include "record.h"

#ifdef __CUDACC__
// Other threads change these while kernels run.
template <class Value>
WARPLENS_BOTH Value now(Value* place) {
    static_assert(sizeof(Value) == 8, "a number or a pointer");
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(place) : "memory");
    return (Value)value;
}
WARPLENS_BOTH void set(Tracker** place, Tracker* value) {
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(place), "l"(value) : "memory");
}
WARPLENS_BOTH unsigned long long add(unsigned long long* place, unsigned long long value) {
    return atomicAdd(place, value) + value;
}
#else
template <class Value>
WARPLENS_BOTH Value now(Value* place) {
    return __atomic_load_n(place, __ATOMIC_RELAXED);
}
WARPLENS_BOTH void set(Tracker** place, Tracker* value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }
WARPLENS_BOTH unsigned long long add(unsigned long long* place, unsigned long long value) {
    return __atomic_add_fetch(place, value, __ATOMIC_RELAXED);
}
#endif

WARPLENS_BOTH bool is_shared(const Tracker* first) { return first->shared != 0; }

WARPLENS_BOTH bool has(const Tracker* tracker, uint64_t pc) {
    return pc - tracker->code_base < tracker->code_bytes;
}

// The first kernel with the function of an instruction, or null.
WARPLENS_BOTH Tracker* function_of(Tracker* first, uint64_t pc) {
    Tracker* function = now(&first->recent);
    if (has(function, pc)) return function;
    for (function = first; function != nullptr && !has(function, pc);) function = function->other;
    if (function != nullptr) set(&first->recent, function);
    return function;
}

// The tracker of the kernel that an instruction was executed for.
WARPLENS_BOTH Tracker* tracker_at(Tracker* first, uint64_t pc) {
    if (!is_shared(first)) return first;
    Tracker* function = function_of(first, pc);
    if (function == nullptr) function = now(&first->recent);  // a function that the kernel has called
    Tracker* tracker = now(&function->turn);
    // Looked at no earlier than now: kernels may begin while those after them are still being added.
    if (tracker->again != nullptr && now(&tracker->executions) != 0) {
        tracker = tracker->again;
        set(&function->turn, tracker);
    }
    return tracker;
}

// Once for every block of all kernels that share the pointer.
WARPLENS_BOTH void begin_block(Tracker* first) { add(&first->begun, 1); }

// When threads leave, after all that is recorded of them. The tracker of the kernel, if these were its last threads.
WARPLENS_BOTH Tracker* leave(Tracker* first, uint64_t pc, unsigned threads) {
    if (function_of(first, pc) == nullptr) return nullptr;
    Tracker* tracker = tracker_at(first, pc);
    if (add(&tracker->left, threads) != tracker->threads) return nullptr;
    add(&tracker->left, 0 - tracker->threads);
    if (add(&first->ended, tracker->blocks) != now(&first->begun)) tracker->overlapped = 1;
    add(&tracker->executions, 1);
    return tracker;
}

#ifndef __CUDACC__
#include <vector>

// The kernels with one function among those that share a pointer, in the order in which they run.
using Turns = std::vector<Tracker*>;

// Adds a kernel to those that share a pointer; `first` may be itself.
static inline void join(Tracker* first, Turns& turns, Tracker* added) {
    added->turn = added->recent = added;
    added->shared = 1;
    if (!turns.empty()) {
        set(&turns.back()->again, added);
    } else if (added != first) {
        added->other = first->other;
        set(&first->other, added);
    }
    turns.push_back(added);
}
#endif
