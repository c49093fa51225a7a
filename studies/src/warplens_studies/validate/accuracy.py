"""What `warplens gpus --accuracy` says, made from the predictions that are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from warplens.analysis import DEFAULT_ORDER
from warplens.machine import accuracy
from warplens.tuning.agreement import Agreement

from . import accelsim, curves, h200, programs, tuning
from .h200_profiles import kept_comparison
from .harness import validate_accelsim

HEAD = ("gpu", "on", "cases", "median_error_percent", "rank_correlation", "clock", "page")


def renew_accuracy() -> Path:
    """Write the table to the source tree."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEAD, *kept_accuracy(), accelsim_accuracy()])
    accuracy.DATA.write_text(text.getvalue(), encoding="utf-8")
    return accuracy.DATA


def kept_accuracy() -> Iterator[tuple[str, ...]]:
    """On hardware, from kept predictions."""
    for source, on in (("sass", "suite, SASS traces"), ("ptx", "suite, from source")):
        found = kept_comparison(source)
        real = {each: found.measured[each, 0].elapsed_cycles for each in found.long_kernels}
        agreement = _agreement([(found.cycles(programs.OWN, each), cycles) for each, cycles in real.items()])
        yield _row(h200.MACHINE, on, agreement, "boost", "validation/h200")
    launches = programs.compare_launches(programs.launches(), programs.kept_predictions())
    agreement = _agreement([(each.predicted.cycles.get(programs.OWN), each.launch.cycles) for each in launches])
    yield _row(h200.MACHINE, "public programs, SASS", agreement, "boost", "validation/programs")
    for (name, gpu, clock), each in tuning.agreements(tuning.kept_rows()).items():
        yield _row(gpu, f"tuned {name}", each, clock, tuning.PAGE)
    for (gpu, curve), each in curves.by_gpu(curves.read_points(curves.KEPT)).items():
        yield _row(gpu, curve, each, "boost", curves.PAGE)


def accelsim_accuracy() -> tuple[str, ...]:
    """Against another simulator, predicted now."""
    rows = validate_accelsim(configurations=["base"], orders=[DEFAULT_ORDER], models=[programs.OWN]).rows
    agreement = _agreement([(each.predicted_cycles, each.reference_cycles) for each in rows])
    return _row(accelsim.GPU, "Accel-Sim's simulations", agreement, "", "validation/accelsim")


def _row(gpu: str, on: str, found: Agreement, clock: str, page: str) -> tuple[str, ...]:
    numbers = f"{100 * (found.median_error or 0.0):.0f}", f"{found.spearman or 0.0:.2f}"
    return gpu, on, str(found.configurations), *numbers, clock, page


def _agreement(times: Sequence[tuple[float | None, float]]) -> Agreement:
    """Of predicted and real times."""
    known = [(predicted, real) for predicted, real in times if predicted is not None]
    return Agreement.of([each for each, _ in known], [each for _, each in known])
