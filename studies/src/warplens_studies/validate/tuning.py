"""Predictions of measured tuning spaces: kernels and times of others, on GPUs that we do not have.

A set names a space, its measured times and a GPU. Of the configurations with a
time, the first in the order of a hash of their parameters are predicted from
source, so nobody chooses them.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warplens.api import place, predict
from warplens.errors import FileError, InputError, WarplensError, nearest
from warplens.explanation.paired import Timing
from warplens.explanation.versions import launch_of
from warplens.frontends.cuda.compile import compiler_version
from warplens.machine import Gpu, load_gpu
from warplens.models import Prediction
from warplens.result_cache import code_digest, content_hash
from warplens.sweeps.plan import Unit
from warplens.sweeps.processes import Processes
from warplens.tomlfile import read_toml
from warplens.tuning import Measured, TuningSpace, hash_order, read_results, read_space
from warplens.tuning.agreement import Agreement
from warplens.tuning.evaluate import Work
from warplens.tuning.expressions import Expression
from warplens.tuning.run import specification
from warplens.tuning.space import Configuration

_DATA = Path(__file__).parent / "data" / "tuning"
SETS, KEPT = _DATA / "sets.toml", _DATA / "predictions.csv.xz"
#: Configurations of a set that are predicted.
SAMPLE = 300
#: Columns of a row that a prediction fills.
_PREDICTED = ("clock", "predicted_ms", "low_ms", "high_ms", "limiter", "stalls", "launch", "compiler")
#: The column of a table of measured times, in milliseconds.
_TIME = "time_ms"
#: Of the documentation.
PAGE = "validation/tuning"


@dataclass(frozen=True)
class TuningSet:
    """A measured space on one GPU."""

    name: str
    gpu: str
    space: str
    measured: tuple[str, ...]
    clocks: tuple[str, ...] = ("boost",)
    #: Which configurations count, as an expression of their parameters.
    where: str = "True"
    #: Parameters that did not reach the kernel that was measured, and the value it had instead.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    #: A parameter that hardly changes the kernel: how far times differ in it alone is how well a card repeats itself.
    twin: str = ""

    def reached(self, configuration: Configuration) -> bool:
        """Whether the kernel that was measured had these values."""
        return all(configuration.get(name) == value for name, value in self.fixed.items())


@dataclass(frozen=True)
class TuningRow:
    """One configuration at one clock."""

    name: str
    gpu: str
    clock: str
    configuration: str
    measured_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float
    limiter: str
    compiler: str
    #: Parts of the time by stall category, as `name=share`.
    stalls: str = ""
    #: Thread blocks, threads of each, and warps per SM.
    launch: str = ""

    @property
    def timing(self) -> Timing:
        """What a gate compares."""
        shares = (part.split("=") for part in self.stalls.split())
        causes = {name: float(share) * self.predicted_ms for name, share in shares}
        return Timing(self.predicted_ms, self.low_ms, self.high_ms, causes)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_sets(path: Path | None = None) -> list[TuningSet]:
    """The sets that a file describes; without one, those that are open to everybody."""
    file = read_toml(path or SETS)
    found = []
    for index, row in enumerate(file.data.get("sets", ())):
        given = {**row, "measured": _several(row.get("measured")), "clocks": _several(row.get("clocks", "boost"))}
        try:
            found.append(TuningSet(**given))
        except TypeError as error:
            raise InputError(f"{file.where(f'sets[{index}]')}: {str(error).partition(' ')[2]}") from None
    if not found:
        raise InputError(f"{file.path}: describes no set; write [[sets]] with name, gpu, space and measured")
    return found


def _several(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else () if value is None else (value,)


def find_file(sources: Path, names: Sequence[str]) -> Path:
    """The first of these files in a folder: at that path, or by its name anywhere below."""
    for name in names:
        if (sources / name).is_file():
            return sources / name
        below = sorted(sources.rglob(Path(name).name))
        if below:
            return below[0]
    raise FileError(f"{sources}: has no file {' or '.join(names)}")


def read_measured(path: Path) -> Measured:
    """A table of parameters and `time_ms`, or a file of Kernel Tuner."""
    if ".csv" not in path.name:
        return read_results(path)
    try:
        raw = path.read_bytes()
        text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("utf-8")
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    table = csv.DictReader(io.StringIO(text))
    names = [key for key in table.fieldnames or () if key not in (_TIME, "spread")]
    if _TIME not in (table.fieldnames or ()):
        raise InputError(f"{path}: has no column {_TIME}; a table has one for each parameter, and {_TIME}")
    seconds = {}
    for row in table:
        time_ms = _value(row[_TIME] or "")
        if isinstance(time_ms, int | float) and time_ms > 0.0:
            seconds[tuple(_value(row[key] or "") for key in names)] = float(time_ms) / 1e3
        elif row[_TIME]:
            raise InputError(f"{path}:{table.line_num}: {_TIME} is {row[_TIME]!r}; write milliseconds, or nothing")
    return Measured("", path.name, tuple(names), seconds)


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# -- the sample ----------------------------------------------------------------------------------------


def read_measured_space(chosen: TuningSet, sources: Path) -> tuple[TuningSpace, Measured]:
    space = read_space(find_file(sources, [chosen.space]), sources=sources)
    for name in (*chosen.fixed, *([chosen.twin] if chosen.twin else ())):
        if name not in space.parameters:
            known = nearest(name, space.parameters)
            raise InputError(f"set {chosen.name!r}: {name!r} is no parameter of {space.file.path}; {known}")
    return space, read_measured(find_file(sources, chosen.measured))


def measured_times(chosen: TuningSet, space: TuningSpace, measured: Measured) -> dict[int, float]:
    """Seconds of the configurations that count."""
    wanted = Expression(chosen.where, f"set {chosen.name!r}: where")
    times = {
        index: seconds
        for index, configuration in enumerate(space.configurations)
        if (seconds := measured.of(configuration)) is not None and wanted.value(space.known(configuration))
    }
    if not times:
        raise InputError(f"set {chosen.name!r}: no configuration of {space.file.path} was measured")
    return times


def sample_of(chosen: TuningSet, space: TuningSpace, measured: Measured, size: int = SAMPLE) -> dict[int, float]:
    """Configurations to predict, with their measured seconds."""
    times = measured_times(chosen, space, measured)
    return {index: times[index] for index in hash_order(space, times)[:size]}


@dataclass(frozen=True, eq=False)
class SetWork:
    """What workers need to predict configurations of a set."""

    space: TuningSpace
    machine: Gpu
    clocks: tuple[str, ...]
    fixed: Mapping[str, Any]

    def rows(self, configurations: Any) -> pa.Table:
        """A row per clock; one that cannot be predicted has an error."""
        (index,) = configurations.tolist()
        rows, compiler = [], compiler_version()
        try:
            workload, machine = Work(self.space, self.machine, "full").workload(
                {**self.space.configurations[index], **self.fixed}
            )
            for clock in self.clocks:
                placed, gpu = place(workload, machine, {"clock": clock})
                made = predict(placed, gpu)
                scale = 1e3 * float(made.seconds) / float(made.cycles)
                ends = [scale * float(made.terms[end]) for end in ("cycles_low", "cycles_high")]
                busiest = max((key for key in made.terms if key.startswith("busy_")), key=lambda k: made.terms[k])
                launch = " ".join(f"{count:g}" for count in launch_of(placed, gpu).values())
                told = busiest.removeprefix("busy_"), _stalls(made), launch, compiler
                rows.append((clock, 1e3 * float(made.seconds), *ends, *told, ""))
        except Exception as error:  # one configuration must not end the run
            text = str(error) if isinstance(error, WarplensError) else f"{type(error).__name__}: {error}"
            rows = [(clock, None, None, None, "", "", "", compiler, text) for clock in self.clocks]
        names = (*_PREDICTED, "error")
        return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _stalls(made: Prediction) -> str:
    shares = {name: float(value / made.cpi) for name, value in (made.stack or {}).items()}
    return " ".join(f"{name}={share:.4f}" for name, share in shares.items() if share >= 5e-5)


@dataclass(frozen=True, eq=False)
class Sample:
    """What is predicted of a set: measured seconds by configuration."""

    chosen: TuningSet
    work: SetWork
    times: Mapping[int, float]

    @classmethod
    def of(cls, chosen: TuningSet, sources: Path, size: int = SAMPLE) -> Sample:
        space, measured = read_measured_space(chosen, sources)
        times = sample_of(chosen, space, measured, size)
        machine = load_gpu(chosen.gpu)
        known = [
            item.name.removesuffix("_hz") for item in fields(machine.clocks) if getattr(machine.clocks, item.name)
        ]
        for clock in chosen.clocks:
            if clock not in known:
                raise InputError(f"set {chosen.name!r}: {chosen.gpu} has no clock {clock!r}; {nearest(clock, known)}")
        return cls(chosen, SetWork(space, machine, chosen.clocks, chosen.fixed), times)

    def key(self, index: int) -> str:
        """Of a configuration in the log; other code, kernels, machines and compilers have other keys."""
        return f"{self._digest} {self.chosen.name} {self.chosen.gpu} {index}"

    @cached_property
    def _digest(self) -> str:
        given = specification(self.work.space, self.work.machine, {}), self.work.clocks, dict(self.work.fixed)
        return content_hash([code_digest(), repr(given)])

    def rows(self, found: Mapping[str, list[dict[str, Any]]]) -> tuple[list[TuningRow], list[str]]:
        """(What is found of the sample, why configurations that ran on the GPU cannot be predicted)."""
        space = self.work.space
        rows: list[TuningRow] = []
        reasons: list[str] = []
        for index, seconds in self.times.items():
            text = " ".join(f"{k}={v}" for k, v in space.configurations[index].items() if k in space.used)
            for row in found.get(self.key(index), ()):
                if row["error"]:
                    reasons += [row["error"]] if row["clock"] == self.chosen.clocks[0] else []
                    continue
                given = {"configuration": text, "measured_ms": 1e3 * seconds, **{key: row[key] for key in _PREDICTED}}
                rows.append(TuningRow(self.chosen.name, self.chosen.gpu, **given))
        return rows, reasons


def predict_samples(
    samples: Sequence[Sample],
    log: Path,
    progress: Callable[[], None],
    *,
    workers: int | None = None,
    most_seconds: float = math.inf,
) -> dict[str, list[dict[str, Any]]]:
    """What is predicted of each configuration, by its key.

    `log` keeps what is finished, so that an interrupted run goes on where it stopped. Sets advance side by side:
    what is finished after `most_seconds` is a smaller sample of each.
    """
    known = _logged(log)
    pairs = [(rank, number, index) for number, each in enumerate(samples) for rank, index in enumerate(each.times)]
    keys = [samples[number].key(index) for _, number, index in sorted(pairs)]
    units = [
        Unit(place, number, np.array([index]), 1.0)
        for place, (_, number, index) in enumerate(sorted(pairs))
        if keys[place] not in known
    ]
    for _ in range(len(keys) - len(units)):
        progress()
    end = time.monotonic() + most_seconds
    with Processes(workers) as runner, log.open("a", encoding="utf-8") as file:
        for place, table in runner.results(units, [each.work for each in samples], lambda: None):
            known[keys[place]] = table.to_pylist()
            file.write(json.dumps({"key": keys[place], "rows": known[keys[place]]}) + "\n")
            file.flush()
            progress()
            if time.monotonic() > end:
                break
    return known


def _logged(log: Path) -> dict[str, list[dict[str, Any]]]:
    """What an interrupted run has finished."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if not log.is_file():
        return {}
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return {line["key"]: line["rows"] for line in lines}


# -- what is kept --------------------------------------------------------------------------------------


def kept_rows() -> list[TuningRow]:
    """The predictions that are committed."""
    if not KEPT.is_file():
        raise FileError(f"{KEPT.name}: no predictions are kept yet; predict with --sources DIR")
    text = lzma.decompress(KEPT.read_bytes()).decode("utf-8")
    numbers = ("measured_ms", "predicted_ms", "low_ms", "high_ms")
    rows: Iterator[dict[str, Any]] = csv.DictReader(io.StringIO(text))
    return [TuningRow(**{**row, **{key: float(row[key]) for key in numbers}}) for row in rows]


def keep_rows(rows: Sequence[TuningRow]) -> Path:
    """Write predictions to the source tree, with five digits."""
    from .report import csv_text

    def short(row: TuningRow) -> dict[str, Any]:
        return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.to_dict().items()}

    try:
        KEPT.write_bytes(lzma.compress(csv_text(map(short, rows)).encode("utf-8"), preset=9))
    except OSError as error:
        raise FileError(f"{KEPT}: cannot be written ({error}); --fresh needs a source checkout") from None
    return KEPT


def agreements(rows: Sequence[TuningRow]) -> dict[tuple[str, str, str], Agreement]:
    """By name, GPU and clock."""
    groups: dict[tuple[str, str, str], list[TuningRow]] = {}
    for row in rows:
        groups.setdefault((row.name, row.gpu, row.clock), []).append(row)
    return {
        key: Agreement.of([each.predicted_ms for each in group], [each.measured_ms for each in group])
        for key, group in groups.items()
    }


def chosen_sets(sets: Sequence[TuningSet], gpus: Sequence[str]) -> list[TuningSet]:
    """Those of some GPUs; short names count."""
    if not gpus:
        return list(sets)
    named = {load_gpu(gpu).name for gpu in gpus}
    found = [each for each in sets if each.gpu in named]
    if not found:
        raise InputError(f"no set was measured on {', '.join(gpus)}; there are {', '.join({s.gpu for s in sets})}")
    return found
