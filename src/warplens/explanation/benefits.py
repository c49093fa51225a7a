"""A second opinion on the advice: the benefits of GPUPerf, what the launch would save with more of one thing.

They are another model's, so no gain is made of them: an answer has them beside its own gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from ..analysis import InstructionMix
from ..errors import InputError
from ..machine import INSTRUCTION_CLASSES
from ..models import get_model
from ..workload import analyse
from .answer import Opinion
from .scene import Scene

#: What the launch would have, by benefit.
NAMES: Mapping[str, str] = {
    "B_memlp": "more accesses in flight",
    "B_itilp": "more instructions in flight",
    "B_serial": "no waits for the SFU",
    "B_coalesced": "one transaction per access",
    "B_fp": "floating point as the only computation",
}
#: Warps with more instructions are not looked at one by one.
_LONGEST_WARP = 100_000


def benefits_of(scene: Scene) -> dict[str, float]:
    """Each benefit as a part of GPUPerf's time; none where it cannot use the launch."""
    if len(scene.facts.traced.warp.instructions) > _LONGEST_WARP:
        return {}
    model = get_model("gpuperf", {"parallelism": "in-order"})
    try:
        model.check(scene.workload, scene.gpu)
        facts = analyse(scene.workload, scene.gpu, model.requirements, "advice")
        found = model.predict(replace(facts, views={"instruction_mix": _as_scheduled(scene, facts.mix)}))
    except InputError:
        return {}
    terms = {name: float(value) for name, value in found.terms.items()}
    # Machines give atomics a rate of their own, and then GPUPerf knows no bandwidth that would bound B_memlp.
    unbounded = terms.get("T_mem_min", 0.0) < 1e-9 * terms["T_mem"]
    return {name: terms[name] / float(found.cycles) for name in NAMES if not (unbounded and name == "B_memlp")}


def _as_scheduled(scene: Scene, mix: InstructionMix) -> InstructionMix:
    """The mix with the waits for memory of the sampled blocks: machine code, where it is known, moves loads up."""
    memory = np.array([each.kind == "memory" for each in INSTRUCTION_CLASSES.values()])[scene.static.class_id]
    if mix.waits is None or not mix.memory_count:
        return mix
    return replace(mix, waits=replace(mix.waits, memory=mix.memory_count / scene.accesses_per_wait(memory)))


def largest(benefits: Mapping[str, float], among: Iterable[str]) -> Opinion | None:
    """The largest of some benefits."""
    known = [Opinion(name, benefits[name]) for name in among if name in benefits]
    return max(known, key=lambda each: each.gain, default=None)
