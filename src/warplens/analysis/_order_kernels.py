"""The order in which an assembler puts the instructions of a basic block: loads before what waits for them."""

from __future__ import annotations

import numpy as np

from ..jit import allocating_kernel


@allocating_kernel
def hoist_loads(
    start, static, is_load, shared, ends, destinations, destination_offsets, sources, source_offsets, order, level
):
    """Fill `order` with the places of all instructions, those of a basic block by the loads that they wait for.

    An instruction has a level one above the loads of its block whose results it
    needs, and goes behind those of lower levels; readers and writers of a
    register keep their order, and so do those of `shared` memory. A block ends
    with an instruction of `ends`, or where the next one is not the one behind it.
    """
    value = np.zeros(256, dtype=np.int64)  # level at which a register can be read
    read = np.zeros(256, dtype=np.int64)  # and that of the last instruction that read it
    for w in range(len(start) - 1):
        i = start[w]
        while i < start[w + 1]:
            last = i
            while last + 1 < start[w + 1] and not ends[static[last]] and static[last + 1] == static[last] + 1:
                last += 1
            value[:] = 0
            read[:] = 0
            written_shared = 0
            read_shared = 0
            highest = 0
            for k in range(i, last + 1):
                s = static[k]
                own = 0
                for r in range(source_offsets[s], source_offsets[s + 1]):
                    if sources[r] < 255:
                        own = max(own, value[sources[r]])
                for r in range(destination_offsets[s], destination_offsets[s + 1]):
                    if destinations[r] < 255:
                        own = max(own, read[destinations[r]], value[destinations[r]])
                if shared[s]:
                    own = max(own, written_shared)
                    if is_load[s]:
                        read_shared = max(read_shared, own)
                    else:
                        own = max(own, read_shared)
                        written_shared = own
                for r in range(source_offsets[s], source_offsets[s + 1]):
                    if sources[r] < 255:
                        read[sources[r]] = max(read[sources[r]], own)
                for r in range(destination_offsets[s], destination_offsets[s + 1]):
                    if destinations[r] < 255:
                        value[destinations[r]] = own + 1 if is_load[s] else own
                level[k] = own
                highest = max(highest, own)
            place = i
            for each in range(highest + 1):
                for k in range(i, last + 1):
                    if level[k] == each:
                        order[place] = k
                        place += 1
            i = last + 1
