"""Memory that Python and the generated code share: fields of the context and of a warp's frame, 8 bytes each."""

from __future__ import annotations

from enum import IntEnum


class Context(IntEnum):
    """Fields of one worker: the launch, the thread block it runs, and how that ended."""

    ARENA = 0  # host address of global memory
    ARENA_BYTES = 1
    VALID = 2  # uint16 per granule: number of its allocated bytes
    SCRATCH = 3  # inactive lanes read and write here
    SHARED = 4
    SHARED_BYTES = 5
    PARAMETERS = 6
    PARAMETER_BYTES = 7
    LOCAL_BYTES = 8
    DYNAMIC_SHARED_BYTES = 9
    GRID_X, GRID_Y, GRID_Z = 10, 11, 12
    BLOCK_X, BLOCK_Y, BLOCK_Z = 13, 14, 15
    BLOCK_ID_X, BLOCK_ID_Y, BLOCK_ID_Z = 16, 17, 18
    WARPS = 19
    FRAMES = 20
    FRAME_BYTES = 21
    SPACES_SEEN = 22  # uint8 per instruction: spaces that its generic accesses reached
    LENGTHS = 23  # int64 per block and warp of this call: words recorded so far
    SLICE = 24  # warp instructions until a warp is interrupted at the head of a loop
    ALLOWANCE = 25  # warp instructions, and their worth in memory cleared, until `run_blocks` returns to Python
    CHANGES = 26  # writes that changed memory
    FAULT = 27
    FAULT_INSTRUCTION = 28
    FAULT_LANES = 29
    FAULT_ADDRESS = 30
    FAULT_WARP = 31
    STARTED = 32  # a block is under way
    BLOCK = 33  # its linear number
    PARAMETER_ADDRESS = 34  # of the parameters in the generic address space
    BARRIER_ARRIVED = 35  # threads that arrived without waiting, per barrier: 17 fields
    BARRIER_COUNT = 52  # of bar.red: lanes whose predicate holds, per barrier
    BARRIER_LANES = 69  # lanes that took part
    BARRIER_RESULT_COUNT = 86
    BARRIER_RESULT_LANES = 103
    BULK = 120  # function that starts and finishes bulk copies
    BULK_PENDING = 121  # copies under way
    NEXT_WARP = 122  # of the round under way: the warp whose turn it is
    SOME_RAN = 123  # a warp of this round can go on
    SOME_WAIT = 124
    ROUND_CHANGES = 125  # CHANGES when the round began
    ROOM_LEFT = 126  # words by which records may still grow
    RECORD_FULL = 127  # words of a record after which `run_blocks` returns to Python, at the end of a block
    DEVICE_CALL = 128  # function that kernels' calls of printf, malloc, free and assert go to
    TEXTURE_CALL = 129  # function that reads textures and surfaces
    TEAM = 130  # other blocks run in turn with this one
    CLUSTER_X, CLUSTER_Y, CLUSTER_Z = 131, 132, 133
    CLUSTER_RANK = 134
    CLUSTER_SHARED = 135  # host addresses of the shared memory of the cluster's blocks: 16 fields
    GRID_WORKSPACE = 151  # address of what barriers of the whole grid use
    RARE_PATHS = 152  # 2 × int64 per instruction: executions, and those in which a lane takes the rare path
    FIELDS = 153


class Frame(IntEnum):
    """Fields of one warp. The register save area follows the thread indices and the stack."""

    RESUME = 0
    ACTIVE = 1
    ALIVE = 2
    MEETING = 3  # block where the active lanes reconverge with others; -1: none
    DEPTH = 4
    RECORD = 5  # recorded words: their address, number and room for them
    RECORD_LENGTH = 6
    RECORD_ROOM = 7
    WARP = 8
    STATE = 9
    BARRIER = 10  # barrier that the warp waits at
    BARRIER_THREADS = 11  # 0: all of the block
    INSTRUCTIONS = 12  # executed by the warp in this block
    THREAD_INSTRUCTIONS = 13
    LOCAL = 14
    EXISTING = 15  # lanes that have a thread
    SLICE_LEFT = 16
    SNAPSHOT = 17  # address of a copy of the frame at the last interruption
    SNAPSHOT_CHANGES = 18  # of memory, at that time
    INSTRUCTION = 19  # instruction at which the warp waits
    INSTRUCTIONS_TOTAL = 20
    COPIES = 21  # queue of asynchronous copies, and its entries
    COPIES_LENGTH = 22
    CLUSTER = 23  # whether the warp has arrived at the cluster's barrier
    THREAD_X = 24  # 32 × int32
    THREAD_Y = 40
    THREAD_Z = 56
    STACK = 72  # MOST_DEPTH × (block, reconvergence block, mask)


#: Room for asynchronous copies under way, per warp.
COPY_ENTRIES, COPY_ENTRY_BYTES = 512, 656
#: Barriers that a block has: 16 by number, and that of its cluster.
BARRIERS, CLUSTER_BARRIER = 17, 16
MOST_DEPTH = 128
#: Byte offset of the register save area in a frame.
SAVE_AREA = (Frame.STACK + 3 * MOST_DEPTH) * 8


class Status(IntEnum):
    """How a run of a warp, or of blocks, ended."""

    DONE = 0
    BARRIER = 1
    INTERRUPTED = 2
    FAULT = 3
    POLLING = 4  # waits at an mbarrier
    STUCK = 5  # no warp can go on before another block of the team does something


class Arrival(IntEnum):
    """A warp and its cluster's barrier."""

    NONE = 0
    ARRIVED = 1
    COMPLETE = 2  # all others have arrived too


class State(IntEnum):
    """State of a warp in its block."""

    READY = 0
    WAITING = 1
    FINISHED = 2
    POLLING = 3  # waits at an mbarrier: runs again to look


class BulkAction(IntEnum):
    """Why generated code calls `BulkCopies`."""

    START = 0  # a copy, or a change of a tensor map
    ARRIVE = 1  # finish the copies that an mbarrier counts
    COMMIT = 2  # close a group
    WAIT = 3  # finish groups
    END = 4  # of the block


class Fault(IntEnum):
    NONE = 0
    OUT_OF_BOUNDS = 1
    MISALIGNED = 2
    TRAP = 3
    RECURSION = 4
    DIVERGENT_BARRIER = 5
    DEADLOCK = 6
    ENDLESS = 7
    TOO_DEEP = 8
    BAD_BARRIER = 9
    BAD_BRANCH = 10
    READ_ONLY = 11
    BAD_MBARRIER = 12
    RECORD = 13
    BAD_CALL = 14
    NO_BARRIER = 15
