"""Which instructions of a warp come from beyond the instruction caches."""

from __future__ import annotations

from ..jit import kernel


@kernel
def fetch(start, line, places, since, fetched):
    """Mark the instructions at which a warp enters a line that a cache of each size has dropped.

    A cache holds the last lines that entered it, and the first of the code when the warp starts: `places` of each
    cache. `since` has room for each line and cache; `fetched` gets a column for each cache.
    """
    for cache in range(len(places)):
        for w in range(len(start) - 1):
            entered = 0
            for i in range(len(since)):
                since[i] = i if i < places[cache] else -1
            entered = places[cache]
            before = -1
            for i in range(start[w], start[w + 1]):
                here = line[i]
                if here != before and (since[here] < 0 or since[here] < entered - places[cache]):
                    fetched[i, cache] = True
                    since[here] = entered
                    entered += 1
                before = here
