"""What matters about a kernel on a machine, in plain words: every number is computed for this input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..categories import CATEGORIES
from ..errors import InputError
from ..formatting import show_number, show_seconds
from ..machine import Gpu
from ..models import Prediction
from ..sweeps.local import Sensitivity
from ..traces import CLASS_NAMES
from ..workload import Needs, Workload, analyse, resident
from ..workload.instructions import instruction_table
from .roofline import Roofline
from .stacks import Reference
from .sweep import Tornado

#: Models whose view a headline takes, best first: those with a CPI stack that covers contention.
PREFERRED = ("warplens", "mdm", "gpumech", "gpumech-mt", "pipeline", "volkov", "wfg-corrected")
#: Lines per load beyond which a kernel is called divergent.
DIVERGENT_LINES = 1.5
#: A gain that is worth a word, and one that is none.
HELPS, NO_HELP = 1.02, 1.01
#: Parts of the CPI that are named.
_LEAST_SHARE = 0.1

_PARAMETERS = {
    "sms": "SMs",
    "clock": "the clock",
    "schedulers": "schedulers",
    "l1.size": "the L1",
    "l1.mshrs": "MSHRs",
    "l1.latency": "the L1's latency",
    "llc.size": "the LLC",
    "llc.latency": "the LLC's latency",
    "noc.bandwidth": "NoC bandwidth",
    "dram.bandwidth": "DRAM bandwidth",
    "dram.latency": "DRAM's latency",
}
#: What people ask for first; one of these that does not help is named as such.
_ASKED = ("dram.bandwidth", "l1.mshrs", "llc.size", "noc.bandwidth", "sms", "l1.size")


def preferred_model(predictions: Sequence[Prediction]) -> str:
    """The model that headlines quote."""
    names = [p.model for p in predictions]
    return next((name for name in PREFERRED if name in names), names[0])


@dataclass(frozen=True)
class Headline:
    """What a kernel does, why, and what would help (`lead`); how it lies on the machine, and how long it takes."""

    lead: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.lead, *self.rest)

    def __str__(self) -> str:
        return "; ".join(self.sentences)


def headline(
    workload: Workload,
    gpu: Gpu,
    predictions: Sequence[Prediction],
    references: Sequence[Reference] = (),
    roof: Roofline | None = None,
    whatif: Tornado | None = None,
) -> Headline:
    """What a workload does on a machine (see `warplens.api.place`), why, and what would change it."""
    base = next(p for p in predictions if p.model == preferred_model(predictions))
    lead = [_divergence(workload, gpu), _mshrs(workload, gpu), _waits(base)]
    lead += [None if whatif is None else _whatif(whatif.parameters)]
    rest = [_time(base, predictions), *(_reference(base, each) for each in references), _residency(workload, gpu)]
    rest += [None if roof is None else _roof(roof, base)]
    return Headline(*(tuple(part for part in parts if part) for parts in (lead, rest)))


def _divergence(workload: Workload, gpu: Gpu) -> str | None:
    """Lines per load, of a trace or of an interval profile."""
    try:
        found = instruction_table(workload, gpu)
    except InputError:
        if workload.profile is None:
            return None
        instructions = float(workload.profile.column("memory_instructions").sum())
        lines = float(workload.profile.column("read_misses").sum()) / instructions if instructions else 0.0
        loads = "load that misses"
    else:
        weights = found.executions * found.is_load
        lines = float(weights @ found.lines / weights.sum()) if weights.sum() else 0.0
        atomics = np.char.startswith(np.array(CLASS_NAMES)[found.static.class_id], "atomic")
        loads = "load or atomic" if weights @ atomics else "load"
    if not lines:
        return "no loads from memory"
    word = "divergent" if lines >= DIVERGENT_LINES else "coalesced"
    return f"{word}: {lines:.3g} {'line' if round(lines, 2) == 1 else 'lines'} per {loads}"


def _mshrs(workload: Workload, gpu: Gpu) -> str | None:
    """The fewest warps that fill the MSHRs, if all are in the interval with most read misses (Eq. M-3)."""
    limit = gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs
    if limit is None or not workload.offers("interval_profile"):
        return None
    facts = analyse(workload, gpu, Needs("interval_profile"), "the headline")
    _, profile = next(iter(facts.intervals))
    most = float(profile.column("read_misses").max(initial=0.0))
    if most <= 0:
        return None
    name = "entries of the NoC queue" if gpu.l1.streaming else "MSHRs"
    warps = float(resident(workload.launch, gpu).warps_per_sm)
    enough = int(np.ceil(float(limit) / most))
    if enough > warps:
        return f"{name} never fill ({show_number(most * warps)} of {limit:g} at W = {warps:g})"
    return f"{name} fill at W = {enough}"


def _waits(base: Prediction) -> str | None:
    if base.stack is None:
        return None
    shares = sorted(((part / base.cpi, name) for name, part in base.stack.items()), reverse=True)
    told = [f"{100 * share:.0f} % of the time {CATEGORIES[name].sentence}" for share, name in shares[:1]]
    told += [
        f"{100 * share:.0f} % {CATEGORIES[name].sentence}" for share, name in shares[1:3] if share >= _LEAST_SHARE
    ]
    return f"{', '.join(told)} ({base.model})"


def _whatif(parameters: Sequence[Sensitivity]) -> str | None:
    """The two changes that help most, and one that people ask for that does not."""
    gains = {each.key: gain for each in parameters if (gain := Tornado.best(each)) is not None}
    if not gains:
        return None
    best = sorted(gains, key=lambda key: -gains[key])
    chosen = [key for key in best if gains[key] >= HELPS][:2]
    idle = next((key for key in _ASKED if key in gains and gains[key] < NO_HELP and key not in chosen), None)
    told = ""
    for key in (*chosen, idle):
        if key is not None:
            told += f"{', ' if told else ''}{_change(key)} {'' if told else 'would give '}{gains[key]:.2f}×"
    return told or None


def _change(key: str) -> str:
    return f"{'halving' if key.endswith('.latency') else 'doubling'} {_PARAMETERS.get(key, key)}"


def _residency(workload: Workload, gpu: Gpu) -> str | None:
    found = resident(workload.launch, gpu)
    warps, active = float(found.warps_per_sm), float(found.active_sms)
    told = [f"{warps:g} of {float(gpu.max_warps):g} warps per SM"]
    if active < float(gpu.sms):
        told.append(f"{active:g} of {float(gpu.sms):g} SMs have work")
    return ", ".join(told)


def _roof(roof: Roofline, base: Prediction) -> str | None:
    label, limit = roof.bound
    point = next((each for each in roof.points if each.label == base.model), None)
    if point is None:
        return None
    article = "" if label in ("L1", "LLC", "DRAM", "memory") else "the "
    return f"{100 * point.speed / limit:.0f} % of what {article}{label} allows"


def _time(base: Prediction, predictions: Sequence[Prediction]) -> str:
    low, high = (pick(predictions, key=lambda p: p.cycles) for pick in (min, max))
    spread = f"; models from {show_seconds(low.seconds)} ({low.model}) to {show_seconds(high.seconds)} ({high.model})"
    time = f"{show_seconds(base.seconds)}, {show_number(base.cycles)} cycles ({base.model})"
    return time + (spread if len(predictions) > 1 else "")


def _reference(base: Prediction, each: Reference) -> str:
    factor = base.cpi / each.cpi_beside(base) - 1.0
    off = (
        f"{100 * abs(factor):.0f} % {'above' if factor >= 0 else 'below'}" if abs(factor) >= 0.005 else "within 0.5 %"
    )
    return f"{each.label}: {show_number(each.cycles)} cycles; {base.model} is {off}"
