"""Kernels of public programs, a third set for the figures of MDM and GPUMech: what is kept, and how it is made.

Programs and traces lie outside this repository. `warplens reproduce --traces FOLDER` takes traces of whole programs
(`warplens run -o`), simulates and predicts a launch of each kernel in every setting of the figures, and keeps the
numbers.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warplens.api import place, predict
from warplens.errors import FileError, InputError
from warplens.frontends.runtime.modules import demangled
from warplens.simulators.detailed import simulate_detailed
from warplens.traces import StoredLaunch, read_trace
from warplens.workload import Workload, workload_of_trace
from warplens.workload.launch import resident

from ..validate.harness import DIVERGENT_DPKI, VARIANTS
from ..validate.paper import CAPPED, MODELS, SWEEPS
from ..validate.recorded import DRAM_GB, MSHRS, WARPS
from ..validate.suite import count_loads
from .machines import machine_of

PATH = Path(__file__).parent / "applications.csv"
#: Models of GPUMech's Table II; MDM's are those of `validate.paper`, in both forms.
TABLE_II = ("naive-interval", "markov-chain", "gpumech-mt", "gpumech-mt-mshr", "gpumech")
_MDM = tuple(dict.fromkeys((*MODELS, *CAPPED)))
_GPUMECH = (
    *("rr", "gto"),
    *(f"warps{n}" for n in WARPS if n != 32),
    *(f"mshr{n}" for n in MSHRS if n != 32),
    *(f"dram{n}" for n in DRAM_GB if n != 192),
)
#: Models in each setting of the figures.
SETTINGS: dict[str, tuple[str, ...]] = {
    **{setting: _MDM for sweep in SWEEPS for setting in sweep.settings.values()},
    "streaming": _MDM,
    **{f"gpumech-{name}": TABLE_II for name in _GPUMECH},
}
STACK = ("BASE", "DEP", "L1", "L2", "DRAM", "MSHR", "QUEUE")
#: GPUMech §VI-A asks for three times as many thread blocks as fit at once.
FILLS = 3
#: Longer launches take the reference simulator minutes over all settings.
MOST_INSTRUCTIONS = 2_500_000


@dataclass(frozen=True)
class Run:
    """A launch in one setting."""

    cycles: float
    """Of the reference simulator; likewise `cpi`."""
    cpi: float
    predicted: Mapping[str, float]
    stack: Mapping[str, float]
    """GPUMech's CPI stack, in the settings of its paper."""


@dataclass(frozen=True)
class Application:
    """A launch of a program's kernel."""

    name: str
    blocks: int
    instructions: int
    scattered_loads: float
    """Loads per thousand warp instructions that touch more than four lines."""
    runs: Mapping[str, Run]
    """By setting; a setting in which no block fits on an SM is missing."""

    @property
    def divergent(self) -> bool:
        """Halves of a warp in two rows, and unaligned accesses, touch several lines, but never more than four."""
        return self.scattered_loads > DIVERGENT_DPKI


# -- kept ----------------------------------------------------------------------------------

_LAUNCH = ("kernel", "blocks", "warp instructions", "scattered loads")
_FORMS = tuple(dict.fromkeys((*_MDM, *TABLE_II)))
_COLUMNS = (*_LAUNCH, "setting", "cycles", "cpi", *_FORMS, *STACK)


@cache
def applications() -> Mapping[str, Application]:
    """The kept launches by name."""
    found: dict[str, Application] = {}
    with PATH.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            launch = (row["kernel"], int(row["blocks"]), int(row["warp instructions"]), float(row["scattered loads"]))
            runs = found.setdefault(row["kernel"], Application(*launch, {})).runs
            assert isinstance(runs, dict)
            predicted, stack = ({key: float(row[key]) for key in keys if row[key]} for keys in (_FORMS, STACK))
            runs[row["setting"]] = Run(float(row["cycles"]), float(row["cpi"]), predicted, stack)
    return found


def write(found: Iterable[Application], path: Path = PATH) -> Path:
    """Keep these launches, in the place of all others."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            for each in sorted(found, key=lambda each: each.name):
                for setting, run in each.runs.items():
                    values = {"cycles": run.cycles, "cpi": run.cpi, **run.predicted, **run.stack}
                    facts = (each.name, each.blocks, each.instructions, f"{each.scattered_loads:.4g}")
                    rounded = {key: f"{value:.7g}" for key, value in values.items()}
                    writer.writerow({**dict(zip(_LAUNCH, facts, strict=True)), "setting": setting, **rounded})
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error}); --traces needs a source checkout") from None
    applications.cache_clear()
    return path


# -- made from traces ----------------------------------------------------------------------


def record(launches: Iterable[tuple[Path, int]], workers: int | None = None) -> Iterator[Application]:
    """The launches of traces, as they are done."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, context) as pool:
        for job in as_completed([pool.submit(run, *each) for each in launches]):
            yield job.result()


def chosen_launches(folder: Path) -> list[tuple[Path, int]]:
    """(Trace, launch) of each kernel's longest launch that fills the machine and is not too long."""
    paths = sorted(folder.glob("*.wlt"))
    if not paths:
        raise FileError(f"{folder}: holds no trace (.wlt); `warplens run -o FILE.wlt` records a program")
    found = []
    for path in paths:
        longest: dict[str, tuple[int, int]] = {}
        for index, launch in enumerate(read_trace(path)):
            size = length(launch) if fills(launch) else 0
            if longest.get(launch.header.kernel, (0, 0))[0] < size <= MOST_INSTRUCTIONS:
                longest[launch.header.kernel] = size, index
        found += [(path, index) for _, index in longest.values()]
    return found


def length(launch: StoredLaunch) -> int:
    """Warp instructions that are recorded."""
    return sum(len(group.static) for group in launch.groups())


def fills(launch: StoredLaunch) -> bool:
    """Whether it is recorded as a whole and fills the part of GPUMech's machine often enough."""
    gpu = machine_of("gpumech-rr", part=True)
    header = launch.header
    if header.extra.get("recorded_blocks", header.blocks) < header.blocks:
        return False
    try:
        there = resident(workload_of_trace(launch).launch, gpu)
    except InputError:
        return False
    return header.blocks >= FILLS * float(there.blocks_per_sm) * gpu.sms


def run(path: Path, index: int, settings: Mapping[str, tuple[str, ...]] = SETTINGS) -> Application:
    """A launch of a trace, simulated and predicted in every setting."""
    launch = read_trace(path)[index]
    workload = workload_of_trace(launch)
    instructions = length(launch)
    scattered = 1000.0 * count_loads(launch).scattered / instructions
    runs = {setting: made for setting, models in settings.items() if (made := _run(workload, setting, models))}
    name = f"{path.stem}: {kernel_name(launch.header.kernel)}"
    return Application(name, launch.header.blocks, instructions, scattered, runs)


def kernel_name(symbol: str) -> str:
    """Without arguments, namespaces and the type that templates return."""
    return re.sub(r"^\w+ |<.*|\(.*|\w+::", "", demangled(symbol))


def _run(workload: Workload, setting: str, models: Iterable[str]) -> Run | None:
    try:
        placed, gpu = place(workload, machine_of(setting, part=True))
        simulated = simulate_detailed(placed, gpu)
    except InputError:
        return None
    made: dict[str, Any] = {}
    for model in models:
        name, options = VARIANTS.get(model, (model, {}))
        made[model] = predict(placed, gpu, name, options=options)
    stack = made["gpumech"].stack if setting.startswith("gpumech-") else {}
    return Run(
        float(simulated.cycles),
        float(simulated.cpi),
        {model: float(each.cycles) for model, each in made.items()},
        {name: float(value) for name, value in stack.items()},
    )
