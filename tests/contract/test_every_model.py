"""One contract for all registered models, on every input of a small zoo that they can run."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import re
from functools import cache

import numpy as np
import pytest

from contract import recorded
from making import Interval, complete_gpu, gpu, run, with_flow, with_graph, with_mix, with_profile
from warplens import example_names, load_gpu, load_workload
from warplens.analysis import FlowNode
from warplens.api import place, predict
from warplens.categories import CATEGORIES
from warplens.errors import InputError, MissingInputError, OptionError, UnknownNameError
from warplens.machine import find_parameter, with_overrides
from warplens.models import MODELS, PAPERS, Aspect, Prediction, get_model, model_names, options_of
from warplens.workload import VIEWS, Launch, MeasuredRun, Workload

#: Documented categories of CPI stacks (docs/conventions.md §4).

GRAPH = (
    ("int32", ()),
    ("comp", ()),
    ("load_global", (0,)),
    ("sfu", (1,)),
    ("barrier", ()),
    ("load_shared", (2,)),
    ("comp", (3, 5)),
    ("store_global", (6,)),
)
INTERVALS = (
    Interval(5, 40),
    Interval(7, 300, 2, 9, 3, 0.4),
    Interval(3, 120, 1, 32, 0, 1.0),
    Interval(4, 0, 1, 0, 6, 1.0),
)
MIX = {"comp": (20, 3), "sfu": 2, "load_shared": 4, "load_global": (5, 1, 2), "store_global": 2}
FLOW = (
    FlowNode("compute", "comp", 6, 1.5),
    FlowNode("memory", "load_global", 2),
    FlowNode("compute", "sfu", 2),
    FlowNode("barrier", "barrier"),
    FlowNode("memory", "store_global", dependent=False),
)
#: No other view gives a measured run; the graphs come with one.
RUN = MeasuredRun(1.2e9, 3e-4, 1e-4, 5e-5, 1e-5, 8)
LAUNCHES = {
    "resident": {"warps_per_sm": 24},
    "blocks": {"blocks": 2000, "threads_per_block": 96, "blocks_per_sm": 5},
    "occupancy": {"blocks": 5000, "threads_per_block": 256, "registers_per_thread": 40},
    "few": {"blocks": 5, "threads_per_block": 64},  # fewer blocks than SMs
    "unknown": {},  # full occupancy is assumed, with a warning
}


@cache
def zoo() -> dict[str, tuple[Workload, object]]:
    """Name -> (workload, machine): the bundled examples, and every view under every kind of launch."""
    found = {name: place(name) for name in example_names("papers")}
    made = {
        "graph": lambda launch: dataclasses.replace(with_graph(*GRAPH, **launch), run=RUN),
        "profile": lambda launch: with_profile(*INTERVALS, **launch),
        "mix": lambda launch: with_mix(MIX, launch, synchronizations=2),
        "flow": lambda launch: with_flow(*FLOW, **launch),
    }
    for view, make in made.items():
        for name, launch in LAUNCHES.items():
            found[f"{view}-{name}"] = (make(launch), complete_gpu())
        found[f"{view}-mdm2019"] = (make(LAUNCHES["blocks"]), gpu("mdm2019", dram__uncoalesced_transactions=32))
        found[f"{view}-gtx1060"] = (make(LAUNCHES["resident"]), gpu("gtx1060"))
    return found


def cases():
    """(model, input) for all that can run."""
    return [
        pytest.param(model, name, id=f"{model}-{name}")
        for model in MODELS
        for name, (workload, machine) in zoo().items()
        if not get_model(model).missing(workload, machine)
    ]


def same(one: Prediction, other: Prediction) -> None:
    """Equal bit for bit."""
    assert dataclasses.replace(one, conditions=()) == dataclasses.replace(other, conditions=())
    assert one.warnings == other.warnings


def numbers(prediction: Prediction):
    yield from (prediction.cycles, prediction.seconds, prediction.ipc, prediction.cpi)
    yield from (prediction.stack or {}).values()


def snapshot(value):
    """A deep, comparable picture of an input, arrays included."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (
            type(value).__name__,
            {item.name: snapshot(getattr(value, item.name)) for item in dataclasses.fields(value)},
        )
    if hasattr(value, "items"):
        return {key: snapshot(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [snapshot(item) for item in value]
    return value


def test_every_model_has_several_inputs():
    """The contract below would hold of a model that runs on nothing."""
    inputs = {model: [case for case in cases() if case.values[0] == model] for model in MODELS}
    assert {model: len(found) >= 5 for model, found in inputs.items()} == dict.fromkeys(MODELS, True)


# -- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "name"), cases())
def test_prediction_is_complete(model, name):
    workload, machine = zoo()[name]
    before = snapshot(workload), snapshot(machine)
    prediction = run(model, workload, machine)

    # deterministic
    same(prediction, run(model, workload, machine))
    # inputs unmutated
    assert (snapshot(workload), snapshot(machine)) == before
    # finite and positive, and plain numbers
    assert all(type(value) is float and math.isfinite(value) for value in numbers(prediction))
    assert min(prediction.cycles, prediction.seconds, prediction.ipc, prediction.cpi) > 0
    assert all(type(value) is float for value in prediction.terms.values())
    assert not any(math.isnan(value) for value in prediction.terms.values())
    # names
    assert (prediction.kernel, prediction.gpu, prediction.model) == (workload.name, machine.name, model)
    assert not prediction.is_batch
    assert len(prediction) == 1
    # definitions
    assert prediction.cpi == machine.sms / prediction.ipc
    assert prediction.seconds == prediction.cycles / machine.clock_hz
    # stack
    declared = MODELS[model].categories
    if declared is None:
        assert prediction.stack is None
    else:
        assert tuple(prediction.stack) == declared
        assert set(declared) <= set(CATEGORIES)
        assert all(part >= 0 for part in prediction.stack.values())
        assert abs(sum(prediction.stack.values()) - prediction.cpi) <= 2 * math.ulp(prediction.cpi)


@pytest.mark.parametrize(("model", "name"), cases())
def test_json_round_trip(model, name):
    prediction = run(model, *zoo()[name])
    document = prediction.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    keys = "kernel launch gpu overrides model cycles seconds ipc cpi stack terms clock_hz clock warnings"
    assert list(document) == keys.split()
    assert document["cycles"] == prediction.cycles
    assert document["stack"] == prediction.stack


#: Parameters that sweeps vary, and factors that keep them valid.
VARIED = {
    "launch.warps_per_sm": (0.25, 1.0, 0.5),
    "l1.mshrs": (1.0, 0.25, 2.0),
    "noc.bandwidth": (1.0, 0.1, 3.0),
    "dram.bandwidth": (1.0, 0.1, 3.0),
    "llc.latency": (1.0, 0.5, 2.0),
    "dram.latency": (1.0, 0.5, 2.0),
    "sms": (1.0, 0.25, 2.0),
    "clock": (1.0, 0.5, 1.3),
    "schedulers": (1.0, 2.0, 4.0),
    "max_warps": (1.0, 2.0, 4.0),
    "instructions.comp.latency": (1.0, 0.5, 3.0),
    "instructions.comp.interval": (1.0, 0.5, 3.0),
    "dram.uncoalesced_transactions": (1.0, 0.25, 0.5),
    "dram.departure_coalesced": (1.0, 0.25, 3.0),
}
#: Inputs on the complete machine, one per view and kind of launch.
BATCHES = [
    f"{view}-{launch}" for view in ("graph", "profile", "mix", "flow") for launch in ("resident", "occupancy", "few")
]


def varied(name: str, key: str) -> np.ndarray:
    _, machine = zoo()[name]
    if key == "launch.warps_per_sm":
        return np.array([machine.max_warps * factor for factor in VARIED[key]])
    value = machine.get(find_parameter(key).path)
    made = np.array([value * factor for factor in VARIED[key]])
    return np.floor(made) if find_parameter(key).kind is int else made


def batch_cases():
    return [
        pytest.param(model, name, id=f"{model}-{name}")
        for model in MODELS
        for name in BATCHES
        if not get_model(model).missing(*zoo()[name])
    ]


@pytest.mark.parametrize(("model", "name"), batch_cases())
def test_a_batch_is_its_machines_one_by_one(model, name):
    """The same machine alone and as element of an array: bit for bit, for every parameter and for all together."""
    workload, machine = zoo()[name]
    arrays = {key: varied(name, key) for key in VARIED}
    for changes in [{key: values} for key, values in arrays.items()] + [arrays]:
        batch = _predict(model, workload, machine, changes)
        assert batch.is_batch
        assert len(batch) == 3
        for index, row in enumerate(batch):
            alone = _predict(model, workload, machine, {key: values[index] for key, values in changes.items()})
            same(row, alone)
            same(batch.row(index), alone)


def _predict(model, workload, machine, changes):
    launch = {key: value for key, value in changes.items() if key.startswith("launch.")}
    rest = {key: value for key, value in changes.items() if key not in launch}
    return run(model, workload.with_overrides(launch), with_overrides(machine, rest))


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_of_one_is_a_batch(model):
    workload, machine = zoo()["graph-resident"]
    batch = _predict(model, workload, machine, {"sms": np.array([28.0])})
    assert batch.is_batch
    same(batch.row(0), _predict(model, workload, machine, {"sms": 28}))


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_survives_json(model):
    workload, machine = zoo()["graph-resident"]
    document = _predict(model, workload, machine, {"sms": np.array([7.0, 28.0])}).to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["cycles"]) == 2


@pytest.mark.parametrize("model", MODELS)
def test_arrays_of_different_lengths_are_refused(model):
    workload, machine = zoo()["graph-resident"]
    with pytest.raises(InputError, match=r"different lengths|same length"):
        _predict(model, workload, machine, {"sms": np.array([7, 28.0]), "launch.warps_per_sm": np.array([1.0, 2, 3])})


@pytest.mark.parametrize("model", MODELS)
def test_everything_can_be_pickled(model):
    """Workers of a sweep get models, machines and workloads, and give predictions."""
    workload, machine = zoo()["graph-resident"]
    made = get_model(model)
    assert pickle.loads(pickle.dumps(made)) == made
    prediction = predict(workload, machine, made)
    sent = pickle.loads(pickle.dumps((made, workload, machine)))
    same(predict(sent[1], sent[2], sent[0]), prediction)
    same(pickle.loads(pickle.dumps(prediction)), prediction)
    assert snapshot(copy.deepcopy(machine)) == snapshot(machine)


# -- options ------------------------------------------------------------------------------------


def other_values(item: dataclasses.Field) -> list:
    """Values of an option that are not its default."""
    kind = item.metadata["kind"]
    if item.metadata["choices"]:
        found = list(item.metadata["choices"])
    else:
        found = [True, False] if kind is bool else [kind(number) for number in (0, 1, 3, 50)]
    return [value for value in found if value != item.default]


@cache
def kinds_of_input() -> dict[str, list[tuple[Workload, object]]]:
    """A few inputs of every kind, a trace among them."""
    setting = recorded.SETTINGS["h200-small"]
    machine = with_overrides(load_gpu(setting.gpu), setting.overrides)
    found = {"trace": [(recorded.placed(name, setting), machine) for name in ("scattered", "tiled")]}
    return found | {
        view: [zoo()[f"{view}-resident"], zoo()[f"{view}-blocks"]] for view in ("graph", "profile", "mix", "flow")
    }


@pytest.mark.parametrize("model", MODELS)
def test_every_option_has_an_effect_or_a_message(model):
    """Nobody learns from numbers that an option was ignored, whatever the input."""
    for item in dataclasses.fields(MODELS[model]):
        for value in other_values(item):
            for inputs in kinds_of_input().values():
                for workload, machine in inputs:
                    if get_model(model).missing(workload, machine):
                        continue
                    usual = predict(workload, machine, model)
                    try:
                        other = predict(workload, machine, model, options={item.name: value})
                    except InputError:
                        continue  # a message
                    now, before = ([*numbers(each), *map(each.terms.get, usual.terms)] for each in (other, usual))
                    told = [text for text in other.warnings if text.startswith(f"option {item.name}=")]
                    assert (now != before) != bool(told), (item.name, value, workload.name, told)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if hasattr(model, "compute_latency")])
def test_compute_latencies_of_a_trace_can_be_left_out(name):
    """As those of a dependence graph can."""
    setting = recorded.SETTINGS["h200-small"]
    machine = with_overrides(load_gpu(setting.gpu), setting.overrides)
    workload = recorded.placed("tiled", setting)
    usual, without_them = (predict(workload, machine, name, options={"compute_latency": on}) for on in (True, False))
    assert without_them.cycles < usual.cycles


# -- what is missing ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_missing_view_is_named_with_its_remedy(model):
    needed = MODELS[model].needs
    empty = Workload("nothing", Launch(warps_per_sm=4))
    with pytest.raises(MissingInputError) as caught:
        run(model, empty, complete_gpu())
    assert str(caught.value) == get_model(model).missing(empty, complete_gpu())
    for part in (f"model {model!r}", VIEWS[needed], "'nothing'", f"[{needed}]"):
        assert part in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
def test_every_other_view_does_not_do(model):
    """A view that the needed one cannot be derived from is as good as none."""
    views = {
        "instruction_mix": "mix-resident",
        "work_flow_graph": "flow-resident",
        "interval_profile": "profile-resident",
    }
    for view, name in views.items():
        reason = get_model(model).missing(*zoo()[name])
        assert bool(reason) == (view != MODELS[model].needs)


#: Machine parameters that models read, by what their equations contain, on a profile, mix or flow.
MEMORY_SYSTEM = {
    "gpumech-mt-mshr": ["l1.mshrs", "llc.latency", "dram.latency"],
    "gpumech": ["l1.mshrs", "llc.latency", "dram.latency", "l1.line", "dram.bandwidth"],
    "gpumech-plus": ["l1.mshrs", "llc.latency", "dram.latency", "l1.line", "dram.bandwidth", "noc.bandwidth"],
}
MEMORY_SYSTEM |= {"gpumech-rr-corrected": MEMORY_SYSTEM["gpumech"]}
MEMORY_SYSTEM |= dict.fromkeys(("mdm-queue", "mdm-mshr", "mdm-cal2019", "mdm"), MEMORY_SYSTEM["gpumech-plus"])
GLOBAL = {
    model: ["dram.latency", "dram.bandwidth", "l1.line"]
    for model in ("roofline", "volkov", "transit", "mwp-cwp", "mwp-cwp-corrected", "wfg", "wfg-corrected")
}


def without(key: str):
    """The complete machine, as if its description did not give one parameter."""
    machine = complete_gpu()
    path = find_parameter(key).path
    section, _, leaf = path.partition(".")
    return dataclasses.replace(machine, **{section: dataclasses.replace(getattr(machine, section), **{leaf: None})})


@pytest.mark.parametrize(
    ("model", "key"), [(model, key) for model, keys in (MEMORY_SYSTEM | GLOBAL).items() for key in keys]
)
def test_a_missing_machine_parameter_is_named_with_its_remedy(model, key):
    needed = {"instruction_mix": "mix", "work_flow_graph": "flow", "interval_profile": "profile"}[MODELS[model].needs]
    workload, _ = zoo()[f"{needed}-resident"]
    path = find_parameter(key).path
    with pytest.raises(MissingInputError) as caught:
        run(model, workload, without(key))
    for part in (f"model {model!r}", f"needs {path}", "'mdm2020'", f"--set {key}=VALUE"):
        assert part in str(caught.value)


def test_models_that_need_nothing_of_the_memory_system_run_without_it():
    workload, _ = zoo()["profile-resident"]
    for model in ("naive-interval", "markov-chain", "gpumech-mt"):
        for key in MEMORY_SYSTEM["gpumech-plus"]:
            assert run(model, workload, without(key)).cycles > 0


@pytest.mark.parametrize("model", [name for name in MODELS if MODELS[name].needs != "measured_run"])
def test_a_missing_instruction_timing_is_named_with_its_remedy(model):
    """A machine without any timing of computations."""
    machine = dataclasses.replace(complete_gpu(), instructions={})
    workload, _ = zoo()["graph-resident"]
    with pytest.raises(MissingInputError) as caught:
        run(model, workload, machine)
    assert re.search(r"model '.*' needs the timing of '\w+'.*--set instructions\.\w+\.latency=", str(caught.value))


# -- what a model says about itself ------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_model_describes_itself(model):
    described = MODELS[model]
    assert described.name == model
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", model)
    assert described.title
    assert PAPERS[described.paper.key] is described.paper
    assert re.search(r"[A-Z]-\d|§|Table", described.equations)
    assert described.needs in VIEWS
    assert described.aspects <= set(Aspect)
    assert described.categories is None or set(described.categories) <= set(CATEGORIES)
    doc = (described.__doc__ or "").strip()
    assert doc
    assert not doc.startswith(f"{described.__name__}(")  # what dataclasses write when nobody did


def test_the_registry_is_in_the_order_of_its_names():
    assert model_names() == list(MODELS)
    assert len(set(MODELS.values())) == len(MODELS)


def test_the_specified_models_are_there():
    """All of the papers, in the order in which tables show them."""
    specified = (
        "roofline volkov transit mwp-cwp mwp-cwp-corrected wfg wfg-corrected naive-interval markov-chain "
        "gpumech-mt gpumech-mt-mshr gpumech gpumech-rr-corrected gpumech-plus mdm-queue mdm-mshr mdm-cal2019 mdm "
        "pipeline crisp"
    )
    assert [name for name in MODELS if name in specified.split()] == specified.split()


@pytest.mark.parametrize("model", MODELS)
def test_options_are_documented_and_their_defaults_are_accepted(model):
    described = options_of(MODELS[model])
    assert set(described) == {item.name for item in dataclasses.fields(MODELS[model])}
    for option in described.values():
        assert option["doc"]
    defaults = {name: str(option["default"]) for name, option in described.items()}
    assert get_model(model, defaults) == get_model(model)


@pytest.mark.parametrize("model", MODELS)
def test_every_choice_of_an_option_runs(model):
    workload, machine = zoo()["graph-resident"]
    for name, option in options_of(MODELS[model]).items():
        for choice in option["choices"]:
            assert predict(workload, machine, model, options={name: choice}).cycles > 0


def option_cases():
    return [(model, option) for model in MODELS for option in options_of(MODELS[model])]


@pytest.mark.parametrize(("model", "option"), option_cases())
@pytest.mark.parametrize("value", ["nonsense", "-1", "nan", "inf", "", -1.0, float("nan"), float("inf"), [], "TRUE "])
def test_a_bad_option_value_is_refused_by_name(model, option, value):
    with pytest.raises(OptionError) as caught:
        get_model(model, {option: value})
    assert f"option {model}.{option}" in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
def test_an_unknown_option_is_refused(model):
    with pytest.raises(UnknownNameError, match=f"model '{model}' has no option 'polizy'"):
        get_model(model, {"polizy": "rr"})


def test_an_unknown_model_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no model is named 'gpumec'; did you mean .*'gpumech'"):
        get_model("gpumec")


# -- notes that come with every model ----------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_an_unknown_launch_is_said_to_be_taken_as_full(model):
    workload, machine = zoo()["graph-unknown"]
    prediction = run(model, workload, machine)
    assert prediction.terms["W"] == machine.max_warps
    assert "the workload gives no launch: full occupancy assumed" in prediction.warnings


@pytest.mark.parametrize("model", MODELS)
def test_overrides_are_told(model):
    workload, machine = zoo()["graph-resident"]
    prediction = _predict(model, workload, machine, {"l1.mshrs": "64", "launch.warps_per_sm": "8"})
    assert prediction.overrides["l1.mshrs"] == 64
    assert prediction.overrides["launch.warps_per_sm"] == 8
    assert prediction.terms["W"] == 8


@pytest.mark.parametrize("name", ["mdm-baseline", "lemeire-example", "hong-kim-table2", "wfg-case1"])
def test_examples_by_name_and_by_path_are_the_same_workload(name):
    assert load_workload(name).name == load_workload(zoo()[name][0].path).name == name
    assert load_gpu(load_workload(name).machine).name == zoo()[name][1].name
