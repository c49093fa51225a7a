"""CRISP (Nath & Tullsen, MICRO 2015): one measured run, and how its parts follow the clock.

Our reading, after the description in mdm-micro2020 §VII: from a run at the
nominal clock f0 come the time with loads outstanding (T_load), the computation
under it, and the computation outside. Times of memory keep their seconds,
computation its cycles:

    T(f) = max(T_load, under · f0/f) + outside · f0/f

The run is one of the detailed simulator. It counts no cycles with loads
outstanding, so T_load is the part of its time in which the NoC carries
something, and computation (issue slots that are used, or that wait for
arithmetic or a barrier) is taken to lie evenly under it and outside. The
simulator does not tell stores that hold warps up from loads that do: such
time is part of T_load here, where the paper has a term of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Categories of issue slots that go with the clock.
_COMPUTING = ("BASE", "DEP", "SYNC")


@dataclass(frozen=True)
class Counters:
    """Seconds of a run at the clock `hertz`, in the three parts that CRISP needs."""

    hertz: float
    load: float
    under: float
    outside: float

    def seconds(self, clocks: Any) -> NDArray[np.float64]:
        """Time at other clocks."""
        ratio = self.hertz / np.asarray(clocks, dtype=np.float64)
        return np.maximum(self.load, self.under * ratio) + self.outside * ratio


def counters_of(result: Any) -> Counters:
    """What CRISP would have counted in a run of the detailed simulator."""
    bins = max(1, int(np.ceil(result.cycles / result.bin_cycles)))
    outstanding = np.count_nonzero(result.noc_bytes_over_time[:bins]) / bins
    computing = sum(result.stack[name] for name in _COMPUTING) / result.cpi
    return Counters(
        hertz=result.cycles / result.seconds,
        load=result.seconds * outstanding,
        under=result.seconds * computing * outstanding,
        outside=result.seconds * (1.0 - outstanding),
    )
