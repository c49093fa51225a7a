"""Binary heaps inside flat arrays: `count` items from `base`, by `times[w, item]` or by position. Callers count."""

from __future__ import annotations

from ...compiled import inlined


@inlined
def push_by_time(heap, base, count, item, times, w):
    place = count
    heap[base + place] = item
    while place > 0:
        above = (place - 1) >> 1
        if times[w, heap[base + above]] <= times[w, item]:
            break
        heap[base + place] = heap[base + above]
        place = above
    heap[base + place] = item


@inlined
def pop_by_time(heap, base, count, times, w):
    """Removes the first item; `count` is the number before."""
    item = heap[base + count - 1]
    size = count - 1
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and times[w, heap[base + below + 1]] < times[w, heap[base + below]]:
            below += 1
        if times[w, heap[base + below]] >= times[w, item]:
            break
        heap[base + place] = heap[base + below]
        place = below
    heap[base + place] = item


@inlined
def push_by_position(heap, base, count, item):
    place = count
    while place > 0:
        above = (place - 1) >> 1
        if heap[base + above] <= item:
            break
        heap[base + place] = heap[base + above]
        place = above
    heap[base + place] = item


@inlined
def pop_by_position(heap, base, count):
    item = heap[base + count - 1]
    size = count - 1
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and heap[base + below + 1] < heap[base + below]:
            below += 1
        if heap[base + below] >= item:
            break
        heap[base + place] = heap[base + below]
        place = below
    heap[base + place] = item
