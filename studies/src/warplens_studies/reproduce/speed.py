"""How long models take against simulators: Table II of MDM and §VI-D of GPUMech, measured when run."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from warplens.api import load_workload, place, predict
from warplens.models import get_model
from warplens.models.papers import GPUMECH, MDM
from warplens.reports.style import LINE_COLOURS
from warplens.simulators.detailed import simulate_detailed
from warplens.workload.traced import cache_misses, representative_of

from ..validate import accelsim
from .base import FROM_KERNELS, Claim, Findings, Row, Table, recipe
from .kernels import OURS, THEIRS

#: Compiles everything before the clock runs.
_WARM_UP = "compute_ilp4_lowocc"
#: A machine that needs a new cache simulation, and one that does not.
OTHER_CACHES = {"l1.mshrs": 64}
_OTHER_BANDWIDTH = {"dram.bandwidth": "240GB/s"}
_CONFIGURATIONS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Times:
    """CPU seconds, summed over kernels."""

    read: float
    """Trace read from its text."""
    caches: float
    """Caches simulated on the machine as named."""
    warps: float
    """Intervals of all warps, clusters, representative warp."""
    caches_again: float
    """Caches simulated on a changed machine."""
    equations: float
    """Intervals of the representative warp on that machine, and the model's equations."""
    bandwidth: float
    """A whole prediction after a change of bandwidth only."""
    simulation: float
    """One run of the reference simulator, without reading the trace."""
    accelsim: float
    """Accel-Sim's time, as recorded with the data."""

    @property
    def one_time(self) -> float:
        return self.read + self.caches + self.warps

    @property
    def recurrent(self) -> float:
        return self.caches_again + self.equations


def measure(model: str, kernels: Sequence[str]) -> Times:
    """Each step on each kernel, in CPU time of this process."""
    _measure_kernel(model, _WARM_UP)
    found = [_measure_kernel(model, kernel) for kernel in kernels]
    return Times(*(sum(column) for column in zip(*(astuple(each) for each in found), strict=True)))


def _measure_kernel(model: str, kernel: str) -> Times:
    seconds: list[float] = []

    def timed(work: Callable[[], Any]) -> Any:
        started = time.process_time()
        result = work()
        seconds.append(time.process_time() - started)
        return result

    workload = timed(lambda: load_workload(accelsim.trace_path(kernel)))
    made = get_model(model)
    _, base = place(workload, accelsim.GPU)
    timed(lambda: cache_misses(workload, base))
    timed(lambda: representative_of(workload, base))
    _, changed = place(workload, accelsim.GPU, OTHER_CACHES)
    timed(lambda: cache_misses(workload, changed))
    timed(lambda: predict(workload, changed, made))
    _, narrower = place(workload, accelsim.GPU, _OTHER_BANDWIDTH)
    timed(lambda: predict(workload, narrower, made))
    timed(lambda: simulate_detailed(workload, base))
    seconds.append(accelsim.measurements()["base", kernel].simulator_cpu_seconds)
    return Times(*seconds)


@cache
def _all(model: str) -> Times:
    return measure(model, accelsim.kernels())


def machine() -> str:
    """The processor's name, if the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine() or "an unknown processor"


def _conditions() -> tuple[str, ...]:
    return (
        f"CPU seconds of one process on {machine()}, Python {platform.python_version()}, all 16 kernels together, "
        "everything compiled before; other work on the machine changes them",
        "Accel-Sim's seconds are those recorded with the data, on one core of a busy 2-core machine: only their "
        "magnitude can be compared",
    )


def duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.2f} s" if seconds >= 0.095 else f"{1000 * seconds:.1f} ms"


# -- MDM, Table II ------------------------------------------------------------------------

#: Printed: detailed simulation, one-time and recurrent cost of MDM.
TABLE2_PRINTED = {
    1: ("9.8 days", "3.6 hours", "2 minutes"),
    10: ("3.3 months", "3.6 hours", "20 minutes"),
    100: ("2.7 years", "3.6 hours", "3.3 hours"),
    1000: ("27 years", "3.6 hours", "1.4 days"),
}


@recipe(
    "mdm-table2",
    MDM,
    "Table II: evaluation time as a function of design space size",
    "time of Accel-Sim, of our reference simulator, and one-time and recurrent time of MDM, for 1 to 1000 machines",
    timed=True,
    data=FROM_KERNELS,
)
def mdm_table2() -> Findings:
    found = _all("mdm")
    columns = (
        "configurations",
        "simulation, paper",
        "Accel-Sim [s]",
        "reference simulator [s]",
        "MDM one-time, paper",
        "MDM one-time [s]",
        "MDM recurrent, paper",
        "MDM recurrent [s]",
        "MDM recurrent, same caches [s]",
    )
    rows: list[Row] = []
    for count in _CONFIGURATIONS:
        simulation, once, again = TABLE2_PRINTED[count]
        rows.append(
            (
                count,
                simulation,
                count * found.accelsim,
                count * found.simulation,
                once,
                found.one_time,
                again,
                count * found.recurrent,
                count * found.bandwidth,
            )
        )
    largest = _CONFIGURATIONS[-1]
    whole = found.one_time + largest * found.recurrent
    ratios = {OURS: largest * found.simulation / whole, THEIRS: largest * found.accelsim / whole}

    return Findings(
        columns=columns,
        rows=tuple(rows),
        draw=partial(_draw_table2, found),
        claims=tuple(
            Claim(
                f"MDM is orders of magnitude faster for large design spaces (Table II); {source}",
                ratio >= 100,
                f"{ratio:.0f} times for {largest} machines (paper: {27 * 365.25 / (3.6 / 24 + 1.4):.0f})",
            )
            for source, ratio in ratios.items()
        ),
        assumptions=_conditions(),
        remarks=(
            "one-time: reading the traces, caches on the machine as named, intervals of all warps, clusters; "
            "recurrent: caches on the new machine, intervals of the representative warp, equations; the paper's "
            "one-time cost is tracing and choosing the warp",
            "where only bandwidths or latencies change, our caches need not be simulated again (same caches)",
        ),
        summary=Table(
            (
                "configurations",
                "paper: simulation; MDM one-time; recurrent",
                "Accel-Sim",
                "reference simulator",
                "MDM one-time",
                "MDM recurrent",
                "same caches",
            ),
            tuple(
                (
                    str(count),
                    "; ".join(TABLE2_PRINTED[count]),
                    duration(count * found.accelsim),
                    duration(count * found.simulation),
                    duration(found.one_time),
                    duration(count * found.recurrent),
                    duration(count * found.bandwidth),
                )
                for count in _CONFIGURATIONS
            ),
        ),
    )


def _draw_table2(found: Times, plt: Any) -> Any:
    figure, axis = plt.subplots(figsize=(7.6, 3.4))
    counts = list(_CONFIGURATIONS)
    lines = {
        "Accel-Sim (recorded)": [n * found.accelsim for n in counts],
        "reference simulator": [n * found.simulation for n in counts],
        "MDM: one-time + recurrent": [found.one_time + n * found.recurrent for n in counts],
        "MDM, only bandwidths vary": [found.one_time + found.recurrent + n * found.bandwidth for n in counts],
    }
    for (name, values), colour in zip(lines.items(), LINE_COLOURS, strict=False):
        axis.plot(counts, values, marker="o", label=name, color=colour)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("architectural configurations")
    axis.set_ylabel("CPU seconds, 16 kernels")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.legend(fontsize=8)
    return figure


# -- GPUMech, §VI-D -----------------------------------------------------------------------


@recipe(
    "gpumech-speed",
    GPUMECH,
    "Section VI-D: timing overhead of GPUMech against detailed simulation",
    "times faster than our reference simulator and than Accel-Sim: caches alone (108), a whole prediction (97)",
    timed=True,
    data=FROM_KERNELS,
)
def gpumech_speed() -> Findings:
    found = _all("gpumech")
    steps = {
        "cache simulation": (found.caches, 108.0),
        "intervals of all warps, and clusters": (found.warps, None),
        "first machine: caches, all warps, equations": (found.caches + found.warps + found.equations, 97.0),
        "each further machine: caches, one warp, equations": (found.recurrent, None),
        "further machine with the same caches": (found.bandwidth, None),
        "first machine, reading the traces too": (found.one_time + found.equations, None),
    }
    rows: tuple[Row, ...] = tuple(
        (name, seconds, found.simulation / seconds, found.accelsim / seconds, paper)
        for name, (seconds, paper) in steps.items()
    )
    first = steps["first machine: caches, all warps, equations"][0]

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(9.6, 3.2))
        places = range(len(rows))
        for shift, column, name, colour in (
            (-0.2, 2, f"than the {OURS}", LINE_COLOURS[0]),
            (0.2, 3, "than Accel-Sim", LINE_COLOURS[3]),
        ):
            values = [float(row[column] or 0) for row in rows]
            bars = axis.barh([index + shift for index in places], values, 0.38, label=name, color=colour)
            axis.bar_label(bars, fmt="%.0f", fontsize=7.5, padding=2)
        for index, row in enumerate(rows):
            if row[4] is not None:
                paper = float(row[4])
                axis.plot([paper] * 2, [index - 0.42, index + 0.42], color="black", linewidth=1.8)
        axis.plot([], [], color="black", linewidth=1.8, label="paper")
        axis.set_yticks(places, [str(row[0]) for row in rows])
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.margins(x=0.12)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("times faster, CPU seconds over CPU seconds")
        figure.legend(loc="outside right upper", fontsize=8)
        return figure

    return Findings(
        columns=("step", "CPU seconds", f"times faster than {OURS}", "times faster than Accel-Sim", "paper, times"),
        rows=rows,
        draw=draw,
        claims=(
            *(
                Claim(
                    f"GPUMech is 97 times faster than detailed simulation (§VI-D); {source}",
                    theirs / first >= 97,
                    f"{theirs / first:.0f} times, reading the traces left out as in the paper",
                )
                for source, theirs in ((OURS, found.simulation), (THEIRS, found.accelsim))
            ),
            Claim(
                "further machines cost less, as the warp is chosen once (§VI-D)",
                found.recurrent < first,
                f"{duration(found.recurrent)} in place of {duration(first)}",
            ),
        ),
        assumptions=_conditions(),
    )
