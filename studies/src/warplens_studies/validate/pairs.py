"""Advice against an H200: pairs of kernels, a fault and its cure, both measured and both explained (examples/pairs).

From the faulty kernel alone the advice says what to change and what that brings; the measured times of both say what
it brought. Explaining all pairs takes long, so the answers are kept, with a fingerprint of the machine's values.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from warplens._version import __version__
from warplens.api import place
from warplens.errors import FileError
from warplens.explanation import RULES, Opinion, Rule, explain
from warplens.explanation.benefits import NAMES, largest
from warplens.workload.load import example_folder

from .h200 import FOLDER, MACHINE
from .h200_profiles import fingerprint

MEASURED = FOLDER / "pairs.json"
ANSWERS = FOLDER / "pairs_answers.json"
KERNELS = ("fault", "cure")
#: Nsight Compute's rules that speak of the same cause. Where none has an estimate, the largest of its estimates for
#: the whole kernel stands for it.
FITTING: Mapping[str, tuple[str, ...]] = {
    "uncoalesced-loads": ("UncoalescedGlobalAccess", "MemoryCacheAccessPattern"),
    "uncoalesced-stores": ("UncoalescedGlobalAccess", "MemoryCacheAccessPattern"),
    "bank-conflicts": ("SharedMemoryConflicts", "UncoalescedSharedAccess"),
    "too-few-blocks": ("LaunchConfiguration",),
    "tail-wave": ("LaunchConfiguration",),
    "block-imbalance": ("WorkloadImbalance",),
    "low-occupancy": ("TheoreticalOccupancy",),
    "exposed-latency": ("CPIStall",),
    "register-spills": ("MemoryCacheAccessPattern",),
    "divergent-branches": ("ThreadDivergence",),
    "barrier-waits": ("CPIStall",),
    "fp64": ("FPInstructions",),
    "missed-fma": ("FPInstructions",),
}
#: Benefits of GPUPerf that take a rule's cause away. Advice shows those of `Rule.benefits` only.
BENEFITS: Mapping[str, tuple[str, ...]] = {name: rule.benefits for name, rule in RULES.items() if rule.benefits} | {
    "uncoalesced-loads": ("B_coalesced",),
    "uncoalesced-stores": ("B_coalesced",),
    "barrier-waits": ("B_serial",),
}
#: A gain below this is none on the cured kernel.
LEAST_GAIN = 0.10
#: How far a predicted gain may be from the measured one, as a factor.
NEAR = 1.3


@dataclass(frozen=True)
class Gain:
    """What one piece of advice promises."""

    rule: str
    speedup: float
    speedup_low: float
    speedup_high: float


@dataclass(frozen=True)
class Explained:
    """A kernel's predicted time, and its advice with the largest gain first."""

    seconds: float
    advice: tuple[Gain, ...]
    #: The benefits of GPUPerf: parts of its time.
    benefits: Mapping[str, float] = field(default_factory=dict)

    @property
    def rules(self) -> list[str]:
        """Rules by their largest gain."""
        return list(dict.fromkeys(each.rule for each in self.advice))

    def gain(self, rule: str) -> Gain | None:
        return next((each for each in self.advice if each.rule == rule), None)


@dataclass(frozen=True)
class PairRow:
    """A pair: what was measured, what was predicted from the faulty kernel, what Nsight Compute estimates for it."""

    pair: str
    rule: str
    fault_us: float
    cure_us: float
    measured_speedup: float
    predicted_fault_us: float
    predicted_cure_us: float
    rank: int | None
    first_rule: str
    predicted_speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    ncu_rule: str
    ncu_speedup: float | None
    gain_on_cure: float
    """Part of the cured kernel's time that the rule still promises."""
    benefit: Opinion | None = None
    """GPUPerf's on the same cause, from the faulty kernel."""
    first_benefit: Opinion | None = None
    """The largest of GPUPerf's."""

    @property
    def found(self) -> bool:
        """Whether the fitting rule comes first or second."""
        return self.rank is not None and self.rank <= 2

    @property
    def sign_right(self) -> bool:
        return self.predicted_speedup is not None and (self.predicted_speedup > 1.0) == (self.measured_speedup > 1.0)

    @property
    def error(self) -> float:
        """Predicted over measured gain, or the inverse: at least 1. Silence is a gain of 1."""
        return off_by(self.predicted_speedup, self.measured_speedup)

    @property
    def ncu_error(self) -> float:
        return off_by(self.ncu_speedup, self.measured_speedup)

    @property
    def silent_on_cure(self) -> bool:
        return self.gain_on_cure < LEAST_GAIN

    def to_dict(self) -> dict[str, Any]:
        opinions = {"benefit": self.benefit, "first_benefit": self.first_benefit}
        told = {name: found.benefit if found else "" for name, found in opinions.items()}
        return asdict(self) | told | {f"{name}_gain": found and found.gain for name, found in opinions.items()}


def off_by(predicted: float | None, measured: float) -> float:
    """The factor between two gains; no prediction is a gain of 1."""
    return math.exp(abs(math.log((predicted or 1.0) / measured)))


# -- measured ------------------------------------------------------------------------------


@cache
def measured() -> Mapping[str, Any]:
    """What `benchmarks/h200/measure_pairs.py` wrote: `provenance`, and `pairs` by name."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def pair_names() -> list[str]:
    """Pairs of which both kernels were measured."""
    return [name for name, pair in measured()["pairs"].items() if all("seconds" in pair[each] for each in KERNELS)]


def ncu_estimate(rule: str, found: Sequence[Mapping[str, Any]]) -> tuple[str, float | None]:
    """(Rule of Nsight Compute, speed-up it estimates): of the fitting ones, else of all, the largest."""
    estimates = [each for each in found if each["percent"] and each["kind"] == "global"]
    fitting = [each for each in estimates if each["rule"] in FITTING.get(rule, ())] or estimates
    if not fitting:
        return "", None
    best = max(fitting, key=lambda each: float(each["percent"]))
    return str(best["rule"]), 1.0 / (1.0 - min(float(best["percent"]), 99.9) / 100.0)


# -- explained -----------------------------------------------------------------------------


def explain_pairs(pairs: Collection[str]) -> Iterator[tuple[str, dict[str, Explained]]]:
    """Pairs with the answers for both of their kernels, from the sources; for the cure, of the fitting rule alone."""
    folder = example_folder("pairs")
    if not folder.is_dir():
        raise FileError(f"{folder}: the kernels of the pairs are not there; explaining them needs a source checkout")
    for pair in pairs:
        fitting = measured()["pairs"][pair]["rule"]
        known = [RULES[fitting]] if fitting in RULES else []
        yield (
            pair,
            {
                "fault": _explained(folder / f"{pair}-fault.toml", list(RULES.values())),
                "cure": replace(_explained(folder / f"{pair}-cure.toml", known), benefits={}),
            },
        )


def _explained(path: Path, rules: Sequence[Rule]) -> Explained:
    answer = explain(*place(path, MACHINE), rules)
    gains = (Gain(each.rule, each.speedup, each.speedup_low, each.speedup_high) for each in answer.advice)
    return Explained(answer.seconds, tuple(gains), dict(answer.benefits))


def write_answers(answers: Mapping[str, Mapping[str, Explained]]) -> Path:
    """Keep answers in the source tree, in the place of older ones for the same pairs."""
    kept = {**(kept_answers() if ANSWERS.exists() else {}), **answers}
    pairs = {
        pair: {kernel: asdict(each) for kernel, each in kept[pair].items()}
        for pair in measured()["pairs"]
        if pair in kept
    }
    head = {"made_by": "warplens validate pairs --fresh", "version": __version__, "machine": fingerprint()}
    rows = (f"{json.dumps(pair)}: {json.dumps(kernels)}" for pair, kernels in pairs.items())
    text = json.dumps(head)[:-1] + ', "pairs": {\n' + ",\n".join(rows) + "\n}}\n"
    try:
        ANSWERS.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{ANSWERS}: cannot be written ({error}); --fresh needs a source checkout") from None
    return ANSWERS


def kept_answers() -> dict[str, dict[str, Explained]]:
    """The answers that come with the package, whatever machine they belong to."""
    document = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return {
        pair: {
            kernel: Explained(
                each["seconds"], tuple(Gain(**gain) for gain in each["advice"]), each.get("benefits", {})
            )
            for kernel, each in kernels.items()
        }
        for pair, kernels in document["pairs"].items()
    }


def stale(pairs: Collection[str]) -> str:
    """Why the kept answers for some pairs are not those of this machine and version; empty where they are."""
    if not ANSWERS.exists():
        return f"{ANSWERS.name} is missing"
    document = json.loads(ANSWERS.read_text(encoding="utf-8"))
    if document["version"] != __version__:
        return f"{ANSWERS.name} is of version {document['version']}"
    if document["machine"] != fingerprint():
        return f"{ANSWERS.name} is of another machine file"
    missing = [pair for pair in pairs if pair not in document["pairs"]]
    return f"{ANSWERS.name} lacks {', '.join(missing)}" if missing else ""


# -- compared ------------------------------------------------------------------------------


def compare(answers: Mapping[str, Mapping[str, Explained]]) -> list[PairRow]:
    """The pairs in the order in which they were measured."""
    return [_row(pair, answers[pair]) for pair in pair_names() if pair in answers]


def _row(pair: str, answers: Mapping[str, Explained]) -> PairRow:
    about = measured()["pairs"][pair]
    rule, launches = about["rule"], about.get("launches", 1)
    fault, cure = (1.0e6 * about[kernel]["seconds"] for kernel in KERNELS)
    explained, gain = answers["fault"], answers["fault"].gain(rule)
    on_cure = answers["cure"].gain(rule)
    ncu_rule, ncu_speedup = ncu_estimate(rule, about["fault"].get("rules", ()))
    return PairRow(
        pair=pair,
        rule=rule,
        fault_us=fault * launches,
        cure_us=cure,
        measured_speedup=fault * launches / cure,
        predicted_fault_us=1.0e6 * explained.seconds * launches,
        predicted_cure_us=1.0e6 * answers["cure"].seconds,
        rank=explained.rules.index(rule) + 1 if gain else None,
        first_rule=explained.rules[0] if explained.rules else "",
        predicted_speedup=gain.speedup if gain else None,
        speedup_low=gain.speedup_low if gain else None,
        speedup_high=gain.speedup_high if gain else None,
        ncu_rule=ncu_rule,
        ncu_speedup=ncu_speedup,
        gain_on_cure=1.0 - 1.0 / on_cure.speedup if on_cure else 0.0,
        benefit=largest(explained.benefits, BENEFITS.get(rule, ())),
        first_benefit=largest(explained.benefits, NAMES),
    )


@dataclass(frozen=True)
class Summary:
    """How often the advice is right."""

    pairs: int
    found: int
    sign_right: int
    """Of those found."""
    near: int
    """Of those found: the gain within a factor of 1.3."""
    silent_on_cure: int
    median_error: float
    """Median factor between predicted and measured gain, over all pairs; silence is a gain of 1."""
    ncu_estimates: int
    ncu_near: int
    ncu_median_error: float
    time_error: float
    """Median factor between predicted and measured time, over both kernels."""


def summarise(rows: Sequence[PairRow]) -> Summary:
    found = [row for row in rows if row.found]
    times = [
        off_by(predicted, known)
        for row in rows
        for predicted, known in ((row.predicted_fault_us, row.fault_us), (row.predicted_cure_us, row.cure_us))
    ]
    return Summary(
        pairs=len(rows),
        found=len(found),
        sign_right=sum(row.sign_right for row in found),
        near=sum(row.error <= NEAR for row in found),
        silent_on_cure=sum(row.silent_on_cure for row in rows),
        median_error=statistics.median(row.error for row in rows),
        ncu_estimates=sum(row.ncu_speedup is not None for row in rows),
        ncu_near=sum(row.ncu_error <= NEAR for row in rows if row.ncu_speedup is not None),
        ncu_median_error=statistics.median(row.ncu_error for row in rows),
        time_error=statistics.median(times),
    )
