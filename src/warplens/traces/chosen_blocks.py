"""Which thread blocks of a launch are recorded: runs of consecutive ones, spread evenly over the grid.

The first blocks of a grid often do less than the others (they lie on the edge of
an image), or more. Neighbours share cache lines, so runs are as long as four of
them allow, and no longer than a wave; with fewer runs, as long as a wave.
`frontends/sass/injection/chosen.h` has the same rule for traces made on a GPU.
"""

from __future__ import annotations

_FEWEST_RUNS, _LEAST_RUN = 4, 8


def chosen_blocks(total: int, limit: int, wave: int, fewest_runs: int = _FEWEST_RUNS) -> list[range]:
    """At most `limit` of `total` blocks; `wave` is how many run at once."""
    limit = min(limit, total)
    if limit == total:
        return [range(total)]
    runs = max(limit // max(wave, 1), min(fewest_runs, limit // _LEAST_RUN), 1)
    length, period = limit // runs, total // runs
    first = (total - (runs - 1) * period - length) // 2
    return [range(first + run * period, first + run * period + length) for run in range(runs)]
