"""What a model declares to take into account is what its predictions react to, and nothing else.

For every aspect, pairs of inputs differ in exactly that thing. A model must tell the
pairs apart in at least one situation if it declares the aspect, and in none if not.
"""

from __future__ import annotations

import pytest

from making import complete_gpu, run, with_graph
from warplens.models import GENERAL_MODELS as MODELS
from warplens.models import Aspect

# Two periods of computation and memory, with a special function and nothing that could run in parallel.
CHAIN = [
    ("comp", ()),
    ("comp", (0,)),
    ("comp", (1,)),
    ("sfu", (2,)),
    ("mem", (3,)),
    ("comp", (4,)),
    ("sfu", (5,)),
    ("mem", (6,)),
]
# Few warps leave latencies exposed, many make throughput count.
OCCUPANCIES = (1, 2, 6, 16, 64)


def chain(warps, **replaced):
    """The chain, with instructions replaced by position (`i1=("comp", ())`)."""
    instructions = list(CHAIN)
    for position, instruction in replaced.items():
        instructions[int(position[1:])] = instruction
    return with_graph(*instructions, warps_per_sm=warps)


def pairs(aspect):
    """(workload, machine) twice, for every occupancy."""
    gpu = complete_gpu
    for warps in OCCUPANCIES:
        usual = (chain(warps), gpu())
        if aspect is Aspect.ILP:
            yield usual, (chain(warps, i1=("comp", ()), i2=("comp", (0, 1))), gpu())
        elif aspect is Aspect.COMPUTE_LATENCY:
            yield usual, (chain(warps), gpu(instructions__comp__latency=80))
            # And where no memory access takes longer.
            computing = with_graph("comp", *[("comp", (i,)) for i in range(7)], warps_per_sm=warps)
            yield (computing, gpu()), (computing, gpu(instructions__comp__latency=80))
        elif aspect is Aspect.MEMORY_LATENCY:
            yield usual, (chain(warps), gpu(dram__latency=900))
        elif aspect is Aspect.BARRIERS:
            # A barrier has the timing of its parent class, comp: only that it is a barrier differs.
            yield usual, (chain(warps, i2=("barrier", (1,))), gpu())
        elif aspect is Aspect.SUBSYSTEMS:
            yield usual, (chain(warps), gpu(instructions__sfu__subsystem="special"))
            # The same where computation, not memory, is what takes the time.
            slow = {"instructions__sfu__interval": 400}
            yield (chain(warps), gpu(**slow)), (chain(warps), gpu(**slow, instructions__sfu__subsystem="special"))
            # And where instructions of both run side by side, within one interval.
            mixed = with_graph(*[("comp", ()), ("sfu", ())] * 4, warps_per_sm=warps)
            slow |= {"instructions__comp__interval": 400}
            yield (mixed, gpu(**slow)), (mixed, gpu(**slow, instructions__sfu__subsystem="special"))
        elif aspect is Aspect.ISSUE_LIMIT:
            yield usual, (chain(warps), gpu(issue_width=0.125))
        elif aspect is Aspect.SCHEDULER:
            # An interval of several instructions: round robin interleaves them, greedy does not.
            several = with_graph(*["comp"] * 12, ("mem", (11,)), warps_per_sm=warps)
            yield (several, gpu(scheduler="rr")), (several, gpu(scheduler="gto"))


# Work groups and divergent warps cannot be perturbed: a workload written by hand describes one
# representative warp, and no model here tells its block from others.
PERTURBABLE = [aspect for aspect in Aspect if aspect not in (Aspect.WORK_GROUPS, Aspect.DIVERGENT_WARPS)]


@pytest.mark.parametrize("aspect", PERTURBABLE, ids=lambda aspect: aspect.name)
@pytest.mark.parametrize("model", MODELS)
def test_predictions_react_to_an_aspect_if_and_only_if_it_is_declared(model, aspect):
    reactions = [run(model, *one).cycles != run(model, *other).cycles for one, other in pairs(aspect)]
    assert any(reactions) == (aspect in MODELS[model].aspects)


@pytest.mark.parametrize("aspect", PERTURBABLE, ids=lambda aspect: aspect.name)
def test_some_model_reacts_to_every_perturbation_and_some_model_does_not(aspect):
    """A perturbation that changes nothing, or everything, would show nothing about a declaration."""
    reacting = {
        model: any(run(model, *one).cycles != run(model, *other).cycles for one, other in pairs(aspect))
        for model in MODELS
    }
    assert set(reacting.values()) == {True, False}
