"""Bank conflicts."""

from __future__ import annotations

import numpy as np

from ..jit import allocating_kernel
from ..traces._bit_kernels import bit_count
from ..traces._codes import IRREGULAR


@allocating_kernel
def shared_degrees(
    start, static, mask, access_start, base, stride, lane_start, lanes, chosen, access_bytes, offsets, degrees
):
    """Cycles that each chosen access holds the port: the most words that one of 32 banks has to give."""
    words = np.empty(32 * 4, dtype=np.int64)
    per_bank = np.empty(32, dtype=np.int64)
    count = 0
    for w in range(len(start) - 1):
        offsets[w] = count
        access = access_start[w]
        lane = lane_start[w]
        for i in range(start[w], start[w + 1]):
            s = static[i]
            if access_bytes[s] == 0:
                continue
            n = bit_count(np.int64(mask[i]))
            if chosen[s]:
                distinct = 0
                per_bank[:] = 0
                for k in range(n):
                    if stride[access] == IRREGULAR:
                        address = np.int64(lanes[lane + k])
                    else:
                        address = np.int64(base[access]) + k * stride[access]
                    for part in range(max(access_bytes[s] // 4, 1)):
                        word = address // 4 + part
                        known = False
                        for j in range(distinct):
                            if words[j] == word:
                                known = True
                                break
                        if not known:
                            words[distinct] = word
                            distinct += 1
                            per_bank[word % 32] += 1
                degrees[count] = max(per_bank.max(), 1)
                count += 1
            if stride[access] == IRREGULAR:
                lane += n
            access += 1
    offsets[len(start) - 1] = count
    return count
