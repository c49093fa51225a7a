"""Dependences in the recorded instructions of many warps."""

from __future__ import annotations

import numpy as np

from ...jit import allocating_kernel


@allocating_kernel
def link(static, starts, destinations, destination_offsets, sources, source_offsets):
    """Def-use dependences in recorded warps: (dependences of each instruction, producers, consumers).

    Producers count over all warps, consumers within theirs; each pair occurs once.
    """
    waits = np.zeros(len(static), dtype=np.int32)
    most = 0
    for i in range(len(static)):
        most += source_offsets[static[i] + 1] - source_offsets[static[i]]
    producers = np.empty(most, dtype=np.int64)
    consumers = np.empty(most, dtype=np.int64)
    writer = np.empty(256, dtype=np.int64)
    count = 0
    for w in range(len(starts) - 1):
        writer[:] = -1
        for i in range(starts[w], starts[w + 1]):
            s = static[i]
            begin = count
            for r in range(source_offsets[s], source_offsets[s + 1]):
                register = sources[r]
                if register >= 255 or writer[register] < 0:
                    continue
                known = False
                for other in range(begin, count):
                    known = known or producers[other] == writer[register]
                if not known:
                    producers[count] = writer[register]
                    consumers[count] = i - starts[w]
                    count += 1
            waits[i] = count - begin
            for r in range(destination_offsets[s], destination_offsets[s + 1]):
                if destinations[r] < 255:
                    writer[destinations[r]] = i
    return waits, producers[:count], consumers[:count]
