"""Address windows of a launch and limits of its memory."""

from __future__ import annotations

#: Generic addresses of shared, local and global memory start here, each far from the others and from 0.
SHARED_WINDOW = 0x7D00_0000_0000
LOCAL_WINDOW = 0x7E00_0000_0000
GLOBAL_WINDOW = 0x7F00_0000_0000
WINDOW_BYTES = 1 << 38
#: Allocations start at multiples of this, like cudaMalloc's; one free granule follows each.
GRANULE_BYTES = 256
#: Marks a granule of constant memory in the table of allocated bytes.
READ_ONLY = 1 << 15
#: Most shared memory of a thread block: what the largest GPUs have.
MOST_SHARED_BYTES = 228 * 1024
#: Shared memory that the system keeps for cooperative groups larger than a warp: no launch asks for it.
RESERVED_SHARED_BYTES = 288
#: Most local memory of a thread: what CUDA allows.
MOST_LOCAL_BYTES = 512 * 1024

#: Most memory for the record of one thread block.
MOST_RECORD_BYTES = 2 << 30
#: Most memory for the frames, the shared and the local memory of the blocks that run at once.
MOST_WORKING_BYTES = 2 << 30


def align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
