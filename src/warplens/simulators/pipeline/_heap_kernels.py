"""Binary heaps inside flat arrays: `count` items from `base`, least `key(item, times, w)` first. Callers count."""

from __future__ import annotations

from ...jit import inlined


@inlined
def by_time(item, times, w):
    return times[w, item]


@inlined
def by_position(item, times, w):
    return item


@inlined
def push(heap, base, count, item, key, times, w):
    place, own = count, key(item, times, w)
    while place > 0:
        above = (place - 1) >> 1
        if key(heap[base + above], times, w) <= own:
            break
        heap[base + place] = heap[base + above]
        place = above
    heap[base + place] = item


@inlined
def pop(heap, base, count, key, times, w):
    """Removes the first item; `count` is the number before."""
    item = heap[base + count - 1]
    size, own = count - 1, key(item, times, w)
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and key(heap[base + below + 1], times, w) < key(heap[base + below], times, w):
            below += 1
        if key(heap[base + below], times, w) >= own:
            break
        heap[base + place] = heap[base + below]
        place = below
    heap[base + place] = item
