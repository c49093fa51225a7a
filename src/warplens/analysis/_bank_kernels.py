"""Bank conflicts."""

from __future__ import annotations

import numpy as np

from ..jit import allocating_kernel, inlined
from ..traces._bit_kernels import bit_count
from ..traces._codes import IRREGULAR

#: Banks of shared memory and of an L1's data; consecutive words lie in consecutive banks.
BANKS = 32
WORD_BYTES = 4


@inlined
def conflict_degree(addresses, lanes, width, per_bank):
    """Cycles that one access holds the banks: the most distinct words that any of them has to give, at least 1."""
    degree = 1
    for bank in range(BANKS):
        per_bank[bank] = 0
    count = max(width // WORD_BYTES, 1)
    for k in range(lanes):
        for word in range(addresses[k] // WORD_BYTES, addresses[k] // WORD_BYTES + count):
            known = False
            for j in range(k):
                if 0 <= word - addresses[j] // WORD_BYTES < count:
                    known = True
                    break
            if not known:
                per_bank[word % BANKS] += 1
                degree = max(degree, per_bank[word % BANKS])
    return degree


@inlined
def fewest_passes(addresses, mask, width, of_lane):
    """Cycles of an access of 8 or 16 bytes, whatever its banks: one for each half or quarter of the warp.

    Two of them go together if each lane has the address of its neighbour, or of the next but one.
    """
    k = 0
    for lane in range(32):
        of_lane[lane] = -1
        if mask >> lane & 1:
            of_lane[lane] = addresses[k]
            k += 1
    together = False
    for apart in (1, 2):
        same = True
        for lane in range(32):
            other = of_lane[lane ^ apart]
            same = same and (of_lane[lane] < 0 or other < 0 or of_lane[lane] == other)
        together = together or same
    size = 32 * WORD_BYTES // width * (2 if together else 1)
    passes = 0
    for first in range(0, 32, size):
        active = False
        for lane in range(first, first + size):
            active = active or of_lane[lane] >= 0
        passes += active
    return passes


@inlined
def lane_degree(addresses, lanes, per_bank):
    """Cycles that an atomic holds the banks: a bank serves one lane at a time, whatever word it has."""
    degree = 1
    for bank in range(BANKS):
        per_bank[bank] = 0
    for k in range(lanes):
        bank = addresses[k] // WORD_BYTES % BANKS
        per_bank[bank] += 1
        degree = max(degree, per_bank[bank])
    return degree


@allocating_kernel
def shared_degrees(
    start,
    static,
    mask,
    access_start,
    base,
    stride,
    lane_start,
    lanes,
    chosen,
    atomic,
    access_bytes,
    in_passes,
    offsets,
    degrees,
):
    """Cycles that each chosen access holds the port, warp after warp; their number."""
    addresses, of_lane = np.empty(32, dtype=np.int64), np.empty(32, dtype=np.int64)
    per_bank = np.empty(BANKS, dtype=np.int64)
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
                for k in range(n):
                    if stride[access] == IRREGULAR:
                        addresses[k] = np.int64(lanes[lane + k])
                    else:
                        addresses[k] = np.int64(base[access]) + k * stride[access]
                if atomic[s]:
                    degrees[count] = lane_degree(addresses, n, per_bank)
                else:
                    degrees[count] = conflict_degree(addresses, n, np.int64(access_bytes[s]), per_bank)
                    if in_passes and (access_bytes[s] == 8 or access_bytes[s] == 16):
                        passes = fewest_passes(addresses, np.int64(mask[i]), np.int64(access_bytes[s]), of_lane)
                        degrees[count] = max(degrees[count], passes)
                count += 1
            if stride[access] == IRREGULAR:
                lane += n
            access += 1
    offsets[len(start) - 1] = count
    return count
