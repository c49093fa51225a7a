"""Hong & Kim, ISCA 2009, Figs. 17 to 20: CPI, CWP, MWP and occupancy of the Merge benchmarks.

All four come from one sweep over GPUs and threads per block. The number of
elements stays the same, so the number of blocks follows the threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from warplens.analysis import InstructionMix, MixEntry
from warplens.api import load_workload, predict
from warplens.machine import load_gpu
from warplens.models.papers import HONG_KIM
from warplens.workload import Launch, Workload

from .base import Claim, Findings, Recipe, Row, Table, recipe
from .drawing import grouped_bars
from .hong_kim import GPUS, gtx280_assumption

TILED = "Mat.(tiled)"
#: Benchmarks of Table 5: example file and elements of the input, one of which a thread computes.
BENCHMARKS = {
    "Sepia": ("merge-sepia", 7000 * 7000),
    "Linear": ("merge-linear", 10000 * 10000),
    "SVM": ("merge-svm", 736 * 992),
    "Mat.(naive)": ("merge-matmul-naive", 2000 * 2000),
    TILED: ("merge-matmul-tiled", 2000 * 2000),
    "Blackscholes": ("merge-blackscholes", 9_000_000),
}
UNCOALESCED = tuple(name for name in BENCHMARKS if name != "SVM")
SIDE = 2000  # of the multiplied matrices
#: Evenly spaced, like the axes of Figs. 15 and 16; they could also be powers of two.
THREADS = tuple(range(4, 513, 4))
THREADS_POWERS_OF_TWO = tuple(2**power for power in range(2, 10))
#: Tile sides that divide the matrix and give the range of counts that Table 5 prints.
TILE_SIDES = (4, 5, 8, 10, 16, 20)
ASSUMPTIONS = (
    "threads per block 4, 8, …, 512 in even steps, all with the same weight in the average (paper: 4 to 512)",
    "one element per thread; a partial warp counts as one warp, with all transactions of a full one",
    f"{TILED}: tile side t = 4, 5, 8, 10, 16, 20 with t² threads, 2·2000/t + 1 memory and 6080 + 74000/t computation "
    "instructions (exact at both ends of Table 5's ranges), 2·2000/t barriers",
)


@dataclass(frozen=True)
class Launched:
    """One benchmark on one GPU with one block size."""

    threads_per_block: int
    cpi: float
    cwp: float
    mwp: float
    occupancy_percent: float
    seconds: float
    departure_bound: bool


def tiled_matrix_product(side: int) -> Workload:
    """Mat.(tiled) with tiles of `side`² elements; Table 5 gives only the ends of the ranges."""
    base = load_workload(BENCHMARKS[TILED][0])
    steps = SIDE / side
    memory = 2 * steps + 1
    mix = InstructionMix(
        {"comp": MixEntry(6080 + 74000 / side), "mem": MixEntry(memory, uncoalesced=memory)},
        synchronizations=2 * steps,
    )
    return replace(base, mix=mix, launch=replace(base.launch, threads_per_block=side * side, blocks=steps**2))


def _launches(benchmark: str, threads: tuple[int, ...]) -> Iterator[Workload]:
    if benchmark == TILED:
        yield from (tiled_matrix_product(side) for side in TILE_SIDES)
        return
    file, elements = BENCHMARKS[benchmark]
    base = load_workload(file)
    for count in threads:
        launch: Launch = replace(base.launch, threads_per_block=count, blocks=math.ceil(elements / count))
        yield replace(base, launch=launch)


@cache
def merge_sweep(threads: tuple[int, ...] = THREADS) -> dict[tuple[str, str], tuple[Launched, ...]]:
    """Every benchmark on every GPU with every block size, by (benchmark, GPU)."""
    found = {}
    for benchmark in BENCHMARKS:
        workloads = list(_launches(benchmark, threads))
        for name, label in GPUS.items():
            gpu = load_gpu(name)
            runs = []
            for workload in workloads:
                made = predict(workload, gpu, "mwp-cwp")
                terms, size = made.terms, workload.launch.threads_per_block
                assert size is not None
                runs.append(
                    Launched(
                        threads_per_block=size,
                        cpi=made.cpi,
                        cwp=terms["CWP"],
                        mwp=terms["MWP"],
                        occupancy_percent=100.0 * terms["W"] / gpu.max_warps,
                        seconds=made.seconds,
                        departure_bound=terms["MWP_without_BW"] < terms["MWP_peak_BW"],
                    )
                )
            found[benchmark, label] = tuple(runs)
    return found


def average(quantity: str, threads: tuple[int, ...] = THREADS) -> dict[str, dict[str, float]]:
    """Mean of a quantity over the block sizes, by benchmark and GPU."""
    sweep = merge_sweep(threads)
    return {
        benchmark: {
            gpu: float(np.mean([getattr(run, quantity) for run in sweep[benchmark, gpu]])) for gpu in GPUS.values()
        }
        for benchmark in BENCHMARKS
    }


def _findings(quantity: str, label: str, claims: tuple[Claim, ...], *, logarithmic: bool = False) -> Findings:
    sweep, means = merge_sweep(), average(quantity)
    rows: list[Row] = []
    for (benchmark, gpu), runs in sweep.items():
        values = [getattr(run, quantity) for run in runs]
        rows.append((benchmark, gpu, means[benchmark][gpu], min(values), max(values), len(values)))

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(8.0, 3.3))
        series = {gpu: [means[benchmark][gpu] for benchmark in BENCHMARKS] for gpu in GPUS.values()}
        grouped_bars(axis, list(BENCHMARKS), series, label="%.3g")
        if logarithmic:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
        axis.set_ylabel(label)
        axis.margins(y=0.12)
        axis.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0))
        return figure

    return Findings(
        columns=("benchmark", "gpu", f"mean {label}", f"smallest {label}", f"largest {label}", "block sizes"),
        rows=tuple(rows),
        draw=draw,
        claims=claims,
        assumptions=(*ASSUMPTIONS, gtx280_assumption()),
        summary=Table(
            (f"mean {label}", *GPUS.values()), tuple((name, *by_gpu.values()) for name, by_gpu in means.items())
        ),
    )


def _register(number: int, what: str) -> Callable[[Callable[[], Findings]], Recipe]:
    return recipe(
        f"hong-kim-fig{number}",
        HONG_KIM,
        f"Figure {number}: {what} of the Merge benchmarks, averaged over block sizes",
        f"{what} of six benchmarks on four GPUs; the text prints no values, so its claims are checked",
    )


def _on_every_gpu(holds: Callable[[str], bool]) -> bool:
    return all(holds(gpu) for gpu in GPUS.values())


@_register(17, "CPI")
def figure17() -> Findings:
    cpi = average("cpi")
    lowest = _on_every_gpu(lambda gpu: min(cpi, key=lambda name: cpi[name][gpu]) == "SVM")
    intensity = {name: _arithmetic_intensity(name) for name in BENCHMARKS}
    highest = [
        name
        for name in BENCHMARKS
        if cpi[name]["8800GT"] > 1.001 * max(value for gpu, value in cpi[name].items() if gpu != "8800GT")
    ]
    fastest = [name for name in BENCHMARKS if min(cpi[name], key=lambda gpu: cpi[name][gpu]) == "GTX280"]
    claims = (
        Claim(
            "SVM has the lowest CPI (§5.2)",
            lowest,
            _series("SVM", cpi) + "; next lowest on FX5600 "
            f"{min(values['FX5600'] for name, values in cpi.items() if name != 'SVM'):.3g}",
        ),
        Claim(
            f"{TILED} has the highest arithmetic intensity (§5.2)",
            max(intensity, key=intensity.__getitem__) == TILED,
            ", ".join(f"{name} {value:.3g}" for name, value in intensity.items()) + " (tiled: t = 20)",
        ),
        Claim(
            "8800GT has the highest CPI, as its bandwidth is the least (§5.2)",
            len(highest) == len(BENCHMARKS),
            f"highest for {len(highest)} of 6: the three G80 GPUs tie within 0.1 %, as departure delay, the same "
            "number of cycles on all three, bounds five benchmarks and computation SVM; bandwidth bounds none",
        ),
        Claim(
            "GTX280 has the lowest CPI (§5.2)",
            len(fastest) == len(BENCHMARKS),
            f"lowest for {', '.join(fastest)}; " + _series("SVM", cpi, digits=4),
        ),
    )
    return _findings("cpi", "CPI", claims, logarithmic=True)


@_register(18, "CWP")
def figure18() -> Findings:
    cwp = average("cwp")
    return _findings(
        "cwp",
        "CWP",
        (
            Claim(
                f"SVM has a higher CWP than {TILED} (§5.2)",
                _on_every_gpu(lambda gpu: cwp["SVM"][gpu] > cwp[TILED][gpu]),
                f"{_series('SVM', cwp)}; {_series(TILED, cwp)}",
            ),
        ),
    )


@_register(19, "MWP")
def figure19() -> Findings:
    mwp, sweep = average("mwp"), merge_sweep()
    others = [gpu for gpu in GPUS.values() if gpu != "GTX280"]
    ahead = [name for name in BENCHMARKS if all(mwp[name]["GTX280"] > mwp[name][gpu] for gpu in others)]
    return _findings(
        "mwp",
        "MWP",
        (
            Claim(
                "SVM has the highest MWP (§5.2)",
                _on_every_gpu(lambda gpu: max(mwp, key=lambda name: mwp[name][gpu]) == "SVM"),
                _series("SVM", mwp),
            ),
            Claim(
                f"SVM has a higher MWP than {TILED} (§5.2)",
                _on_every_gpu(lambda gpu: mwp["SVM"][gpu] > mwp[TILED][gpu]),
                f"{_series('SVM', mwp)}; {_series(TILED, mwp)}",
            ),
            Claim(
                "GTX280 has a higher MWP than the other GPUs, uncoalesced benchmarks (§5.2)",
                set(UNCOALESCED) <= set(ahead),
                f"{_series('Sepia', mwp)} (rests on the transactions we assume)",
            ),
            Claim(
                "GTX280 has a higher MWP than the other GPUs, SVM too (Fig. 19 has no exception in the text)",
                "SVM" in ahead,
                _series("SVM", mwp, digits=4) + ": bandwidth per SM and core cycle bounds coalesced accesses",
            ),
            Claim(
                "all but SVM are limited by departure delay and never reach the peak bandwidth (§5.2)",
                all(run.departure_bound for name in UNCOALESCED for gpu in GPUS.values() for run in sweep[name, gpu])
                and not any(run.departure_bound for gpu in GPUS.values() for run in sweep["SVM", gpu]),
                "MWP_without_BW is below MWP_peak_BW in every launch of the five, and in none of SVM",
            ),
        ),
    )


@_register(20, "occupancy")
def figure20() -> Findings:
    occupancy, powers = average("occupancy_percent"), average("occupancy_percent", THREADS_POWERS_OF_TWO)
    expected = [name for name in BENCHMARKS if name not in (TILED, "Linear")]

    def split(means: dict[str, dict[str, float]]) -> bool:
        above = [name for name in BENCHMARKS if np.mean(list(means[name].values())) > 70]
        return above == expected

    def overall(means: dict[str, dict[str, float]]) -> str:
        return ", ".join(f"{name} {np.mean(list(values.values())):.0f} %" for name, values in means.items())

    most = max(run.occupancy_percent for run in merge_sweep()["Blackscholes", "FX5600"])
    cpi, mwp = average("cpi"), average("mwp")
    with_occupancy, with_mwp = _correlation(cpi, occupancy), _correlation(cpi, mwp)
    return _findings(
        "occupancy_percent",
        "occupancy [%]",
        (
            Claim(
                f"all but {TILED} and Linear have more than 70 % (§5.2), mean of the four GPUs",
                split(occupancy),
                f"{overall(occupancy)}; {_series('Blackscholes', occupancy)}: its registers allow no block size more "
                f"than {most:.0f} % on FX5600",
            ),
            Claim(
                "the same if the block sizes are the powers of two from 4 to 512",
                split(powers),
                overall(powers) + ": half of those blocks have one warp, and 8 blocks are the most",
            ),
            Claim(
                "occupancy is less correlated with performance (§5.2) than MWP is",
                abs(with_occupancy) < abs(with_mwp),
                f"r of log CPI with occupancy {with_occupancy:+.2f}, with MWP {with_mwp:+.2f} (24 points)",
            ),
        ),
    )


def _arithmetic_intensity(benchmark: str) -> float:
    workload = tiled_matrix_product(TILE_SIDES[-1]) if benchmark == TILED else load_workload(BENCHMARKS[benchmark][0])
    assert workload.mix is not None
    return workload.mix.compute_count / workload.mix.memory_count


def _series(benchmark: str, means: dict[str, dict[str, float]], digits: int = 3) -> str:
    return f"{benchmark} " + ", ".join(f"{gpu} {value:.{digits}g}" for gpu, value in means[benchmark].items())


def _correlation(cpi: dict[str, dict[str, float]], other: dict[str, dict[str, float]]) -> float:
    pairs = [(math.log(cpi[name][gpu]), other[name][gpu]) for name in cpi for gpu in cpi[name]]
    return float(np.corrcoef(np.array(pairs).T)[0, 1])
