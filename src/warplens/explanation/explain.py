"""From a prediction to an answer: rules look, causes are removed, and the model is solved again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..machine import Gpu
from ..models import Prediction, solve_best
from ..models.energy import energy_of
from ..models.network_solution import most_blocks
from ..traces import CLASS_NAMES
from ..workload import Workload
from .answer import Advice, Answer
from .benefits import benefits_of, largest
from .limits import limiter_of, occupancy_of, speed_of_light
from .lines import lines_by_time, rest_of_time
from .rule import Finding, Rule
from .rules import RULES
from .scene import LEAST_GAIN, MODEL, Scene

#: The part of the instructions that may be others, or of another class, where a change only spreads them.
SAME_WORK = 0.05


def explain(
    workload: Workload,
    gpu: Gpu,
    rules: Sequence[Rule] | None = None,
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Answer:
    """The answer for a placed workload, by the best model that can use it; without a trace it has no advice.

    `options` are those of models, by name.
    """
    model, found, reasons = solve_best(workload, gpu, options)
    if model.name != MODEL:
        counted = "model 'warplens' needs a kernel that is run; --static only counts its instructions"
        note = f"{model.name} answers, as {reasons[MODEL] if workload.counted is None else counted}"
        energy = energy_of(workload, gpu, model, found)
        return Answer(found, None, None, None, {}, occupancy_of(workload, gpu), note=note, energy=energy)
    scene = Scene(workload, gpu, model, found)
    advice: list[Advice] = []
    chosen = () if workload.trace is None else tuple(RULES.values()) if rules is None else rules
    benefits = benefits_of(scene.part) if chosen else {}
    for done, rule in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen))
        made = (advice_of(scene.part, rule, finding) for finding in rule.look(scene.part))
        opinion = largest(benefits, rule.benefits)
        advice += [replace(each.scaled(found.seconds), opinion=opinion) for each in made if each is not None]
    return Answer(
        prediction=found,
        seconds_low=float(found.terms["cycles_low"] / found.cycles * found.seconds),
        seconds_high=float(found.terms["cycles_high"] / found.cycles * found.seconds),
        limiter=limiter_of(scene),
        speed_of_light=speed_of_light(found),
        occupancy=occupancy_of(workload, gpu),
        advice=tuple(sorted(advice, key=lambda each: each.seconds_after)),
        note=note_of(scene, advice),
        lines=() if workload.trace is None else lines_by_time(scene),
        rest={} if workload.trace is None else rest_of_time(scene),
        energy=energy_of(workload, gpu, model, found),
        benefits=benefits,
    )


def note_of(scene: Scene, advice: list[Advice]) -> str:
    """Why there is no advice, or that gains come from a part of the recorded blocks."""
    if scene.workload.trace is None:
        return "advice needs a trace: run the kernel, or record it on a GPU"
    if not advice or scene.part is scene:
        return ""
    some, recorded = scene.part.facts.traced.recorded_blocks, scene.facts.traced.recorded_blocks
    return f"gains are estimated from {some} of {recorded} recorded thread blocks, as the trace is long"


def advice_of(scene: Scene, rule: Rule, finding: Finding) -> Advice | None:
    """The advice of a finding, or None where it would bring too little or cannot be solved."""
    try:
        without = finding.removal(scene)
        after = without.prediction
    except InputError:
        return None
    same_code = "machine_code" in after.terms
    before = scene.prediction if same_code else scene.in_ptx.prediction
    seconds_after = float(after.seconds) / finding.launches
    if not same_code:
        seconds_after = max(seconds_after, float(before.seconds) * least_time(scene, without))
    if 1.0 - seconds_after / float(before.seconds) < LEAST_GAIN:
        return None
    reached = float(after.seconds) / seconds_after
    low, high = (reached * end for end in speedup_range(before, after))
    own = rule.in_triton if scene.is_triton else None
    return Advice(
        rule=rule.name,
        text=finding.text,
        remedy=own.remedy if own else finding.remedy or rule.remedy,
        cost=own.cost if own else finding.cost or rule.cost,
        lines=scene.lines_of(finding.weights) if finding.weights is not None else (),
        seconds=float(before.seconds),
        seconds_after=seconds_after,
        speedup_low=low,
        speedup_high=high,
    )


def least_time(scene: Scene, without: Scene) -> float:
    """The part of the time in which a change that only spreads the same PTX lets SMs execute its machine code.

    Nobody knows the machine code of a changed kernel, so a gain is that of the PTX, which often has fewer
    instructions. As long as warps wait, that hardly matters. Once they fill the issue slots, it does.
    """
    compiled = scene.prediction
    if "machine_code" not in compiled.terms:
        return 0.0
    work, spread = (_executions_by_class(each) for each in (scene, without))
    if np.abs(spread - work).sum() > SAME_WORK * work.sum():
        return 0.0
    held = scene.facts.residency
    blocks = np.asarray((scene.workload.launch.blocks or 1.0) / held.active_sms)
    most = most_blocks(blocks, np.maximum(np.floor(held.blocks_per_sm), 1.0), np.asarray(held.active_sms))
    # What the terms say is of the SM that has most blocks.
    share = float(blocks / most * held.active_sms / without.facts.residency.active_sms)
    return share * max(float(compiled.terms["busy_issue"]), float(compiled.terms["busy_units"]))


def _executions_by_class(scene: Scene) -> NDArray[np.float64]:
    """Of the whole launch."""
    blocks = (scene.workload.launch.blocks or 0.0) / max(scene.facts.traced.recorded_blocks, 1)
    return np.bincount(scene.static.class_id, scene.executions, len(CLASS_NAMES)) * blocks


def speedup_range(before: Prediction, after: Prediction) -> tuple[float, float]:
    """(Low, high) of the ratio of two predictions.

    Both have a range. As much of the time as both stacks have in common errs alike: both are slower, or both faster,
    and the ratio moves by the difference alone. The rest errs independently.
    """
    stacks = before.stack or {}, after.stack or {}
    names = sorted({*stacks[0], *stacks[1]})
    shares = [
        [stack.get(name, 0.0) / p.cpi for name in names] for stack, p in zip(stacks, (before, after), strict=True)
    ]
    common = min(float(np.min(shares, axis=0).sum()), 1.0)
    ends = ("cycles_low", "cycles_high")
    (low_before, low_after), (high_before, high_after) = (
        [abs(float(np.log(p.terms[end] / p.cycles))) for p in (before, after)] for end in ends
    )
    alike = max((low_before - low_after) ** 2, (high_before - high_after) ** 2)
    down = np.sqrt(common * alike + (1.0 - common) * (low_before**2 + high_after**2))
    up = np.sqrt(common * alike + (1.0 - common) * (high_before**2 + low_after**2))
    speedup = float(before.seconds / after.seconds)
    return speedup * float(np.exp(-down)), speedup * float(np.exp(up))
