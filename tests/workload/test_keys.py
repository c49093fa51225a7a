"""Keys of kept results: whatever parameter of a machine changes, no result of another machine is reused wrongly."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.api import predict
from warplens.errors import WarplensError
from warplens.machine import Gpu, gpu_of_values, load_gpu, with_overrides
from warplens.machine.schema import Parameter, parameters
from warplens.models import MODELS
from warplens.models.interval import IntervalModel
from warplens.result_cache import ResultCache
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.workload import Results, workload_of_trace
from warplens.workload import traced as steps

ROWS = (
    StaticInstruction(0x00, "LDG.E", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(0x10, "FFMA", "fp32", "none", 0, (2,), (1, 2)),
    StaticInstruction(0x20, "STS", "store_shared", "shared", 4, (), (2,)),
    StaticInstruction(0x30, "BAR.SYNC", "barrier"),
    StaticInstruction(0x40, "LDS", "load_shared", "shared", 4, (3,), (0,)),
    StaticInstruction(0x50, "MUFU.RCP", "sfu", "none", 0, (4,), (3,)),
    StaticInstruction(0x60, "STG.E", "store_global", "global", 4, (), (4,)),
    StaticInstruction(0x70, "RED.E.ADD", "atomic_global", "global", 4, (), (4,)),
)
LDG, FFMA, STS, BAR, LDS, MUFU, STG, RED = range(len(ROWS))
#: Every group of models asks for something else of a trace; variants of the interval model differ in equations alone.
ASKED = [
    name
    for name in MODELS
    if name != "crisp" and (name in ("gpumech", "mdm") or not issubclass(MODELS[name], IntervalModel))
]


@cache
def tiny_trace() -> MemoryTrace:
    """Lines that are shared, reused and written, over more blocks than fit on the SMs at once."""

    def warp(number: int) -> list[Step]:
        steps = []
        for turn in range(3):
            steps += [Step(LDG, evenly(2**20 + 128 * (number + turn), 4)), Step(FFMA)]
            steps += [Step(LDG, tuple(2**21 + 128 * ((7 * lane + number) % 40) for lane in range(8))), Step(FFMA)]
        steps += [Step(STS, evenly(0, 8)), Step(BAR), Step(LDS, evenly(0, 4)), Step(MUFU)]
        return [*steps, Step(STG, evenly(2**22 + 128 * (number % 9), 4)), Step(RED, (2**23, 2**23 + 256))]

    blocks = [[warp(2 * block + each) for each in range(2)] for block in range(12)]
    return memory_trace(ROWS, blocks, kernel="tiny", registers_per_thread=32)


@cache
def described() -> dict[str, object]:
    """A small machine that gives every parameter a value, so that each one can be changed."""
    base = load_gpu("h200")
    values: dict[str, object] = {}
    for path, parameter in parameters().items():
        value = base.get(path)
        values[path] = _some(parameter) if value is None else value
    return values | {
        "sms": 3,
        "max_warps": 8,
        "max_blocks": 2,
        "l1.streaming": False,
        "l1.mshrs": 8,
        "l1.queue_entries": 4,
        "l1.size_bytes": 2048,
        "l1.ways": 4,
        "l1.unified_bytes": None,  # it would take the place of the size
        "l1.line_bytes": 128,
        "l1.sector_bytes": 32,
        "noc.queue_entries": 8,
        "llc.size_bytes": 8192,
        "llc.ways": 4,
        "llc.banks": 4,
        "llc.line_bytes": 128,
        "llc.fetch_bytes": 64,
    }


def _some(parameter: Parameter) -> object:
    if parameter.choices:
        return parameter.choices[0]
    if parameter.kind is bool:
        return False
    return "pipe" if parameter.kind is str else parameter.kind(max(parameter.minimum, 4))


def _other(parameter: Parameter, value: object) -> object:
    if parameter.path == "warp_size":
        return 64
    if parameter.choices:
        return next(each for each in parameter.choices[::-1] if each != value)
    if parameter.kind is bool:
        return not value
    if parameter.kind is str:
        return f"other {value}"
    return parameter.kind(2 * value if value else max(parameter.minimum, 1))  # type: ignore[operator]


def machine(**changes: object) -> Gpu:
    return replace(gpu_of_values({**described(), **changes}), name="tiny")


def predictions(results: Results, gpu: Gpu) -> dict[str, object]:
    """All that models say of the trace, or why they cannot."""
    workload = workload_of_trace(tiny_trace(), results=results)
    found: dict[str, object] = {}
    for name in ASKED:
        try:
            made = predict(workload, gpu, name)
        except WarplensError as error:
            found[name] = str(error)
        else:
            found[name] = made.to_dict()
    return found


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Results:
    """What models worked out on the machine as it is, in memory and on disk."""
    results = Results(ResultCache(tmp_path_factory.mktemp("kept")))
    predictions(results, machine())
    assert list(results.disk.folder.glob("*/*.entry"))
    return results


@pytest.mark.parametrize("path", parameters())
def test_no_parameter_is_forgotten(known, path):
    """With what is known of another machine, in memory or on disk, models say what they say without."""
    parameter = parameters()[path]
    value = _other(parameter, described()[path])
    described_so = machine(**{path: value})
    assert predictions(Results(known.disk), described_so) == predictions(Results(), described_so)
    with suppress(WarplensError):  # some values are refused beside the others
        overridden = with_overrides(machine(), {parameter.key: value})
        assert predictions(Results(memory=dict(known.memory)), overridden) == predictions(Results(), overridden)


def test_some_parameters_change_what_is_kept(known):
    """The test above sees something: caches, times and residents of other machines are results of their own."""
    before = set(known.memory)
    for path in ("l1.size_bytes", "dram.latency_cycles", "max_blocks", "instructions.fp32.latency_cycles"):
        results = Results(memory=dict(known.memory))
        predictions(results, machine(**{path: _other(parameters()[path], described()[path])}))
        assert set(results.memory) - before, path


@pytest.mark.parametrize(("model", "walks"), [("mdm", 5), ("roofline", 5), ("pipeline", 5), ("warplens", 6)])
def test_one_prediction_does_every_costly_step_once(monkeypatch, model, walks):
    """A walk collects events, one finds the features of all warps, one fetches a warp.

    One finds how much each block does, and one more fetches those that are sampled, for their bank conflicts; for
    `warplens` one counts atomics by the words they meet in.
    """
    counts: Counter[str] = Counter()
    gpu = machine()

    def count(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def counting(*arguments, **options):
            counts[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    for name in ("simulate_caches", "representative_warp", "EventStream"):
        count(steps, name)
    count(MemoryTrace, "groups")
    count(Gpu, "get")
    predict(workload_of_trace(tiny_trace()), gpu, model)
    assert [counts[name] for name in ("simulate_caches", "representative_warp", "EventStream")] == [1, 1, 1]
    assert counts["groups"] == walks
    assert counts["get"] < 100


def test_machines_of_a_batch_share_simulations(monkeypatch):
    """Distinct records are simulated once each, whatever else of the machines differs."""
    runs = []
    real = steps.simulate_caches
    monkeypatch.setattr(steps, "simulate_caches", lambda *given: runs.append(given[2]) or real(*given))
    sizes = np.array([2048, 4096, 2048, 4096, 8192])
    overrides = {"l1.size": sizes, "dram.latency": np.arange(100.0, 600.0, 100.0)}
    predict(workload_of_trace(tiny_trace()), machine(), "mdm", overrides=overrides)
    assert len(runs) == len(set(runs)) == 3
