"""A binary heap of what is due when."""

from __future__ import annotations

import numpy as np

from ..jit import helper


@helper
def heap_push(heap, size, key):
    """Insert into a binary heap; returns the new size."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if heap[parent] <= key:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = key
    return size + 1


@helper
def heap_fill(heap, size, key):
    """Put an entry in place of the least one: cheaper than to remove that first, most of all where both are near."""
    hole = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if key <= heap[child]:
            break
        heap[hole] = heap[child]
        hole = child
        child = 2 * hole + 1
    heap[hole] = key


@helper
def entry_key(when, number, warps, sms):
    """Key of an entry: the cycle in which it is due, then warps before SMs, which take turns at being the first."""
    cycle = np.int64(np.ceil(when))
    if number >= warps:
        number = warps + (number - warps - cycle) % sms
    return cycle * (warps + sms) + number
