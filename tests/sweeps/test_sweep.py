"""Rows equal `predict`; errors stay in their rows; work is shared and resumed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warplens
from warplens.analysis import simulate_caches
from warplens.api import load_workloads, predict, simulate
from warplens.errors import InputError, OptionError, OverrideError, UnknownNameError, WarplensError
from warplens.models import GENERAL_MODELS, MODELS
from warplens.sweeps import read_sweep, run_sweep
from warplens.sweeps.evaluate import CATEGORIES
from warplens.workload import Results
from warplens.workload.traced import cache_misses

from .making import GPU, rows, trace


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def strided():
    return load_workloads(trace("strided32"))[0]


def check_row(row, prediction):
    """All results, bit for bit."""
    assert row["error"] is None
    for name in ("cycles", "seconds", "ipc", "cpi"):
        assert row[name] == getattr(prediction, name)
    assert row["warps"] == prediction.terms["W"]
    assert row["warnings"] == "; ".join(prediction.warnings)
    stack = {name: row[f"stack.{name}"] for name in CATEGORIES if row[f"stack.{name}"] is not None}
    assert stack == (prediction.stack or {})


#: Values of the parameters that machines differ in, good ones and bad ones.
VALUES = {
    "l1.mshrs": st.sampled_from([0, 1, 32, 100, 256, 2.5]),
    "dram.bandwidth": st.floats(1e9, 3e12),
    "noc.bandwidth": st.floats(1e9, 3e12),
    "clock": st.sampled_from([0.0, 0.7e9, 1.4e9, 2e9]),
    "dram.latency": st.floats(0, 2000),
    "llc.latency": st.sampled_from([0.0, 60.0, 120.0]),
    "sms": st.sampled_from([1, 14, 28]),
    "l1.size": st.sampled_from([12288, 49152, 5000, 2**23]),  # a bad multiple, and more than the LLC
    "scheduler": st.sampled_from(["gto", "lrr", "nonsense"]),
    "launch.warps_per_sm": st.sampled_from([8, 64, 4000]),
}


@settings(max_examples=20)
@given(st.data())
def test_a_row_is_what_predict_gives_bit_for_bit(strided, data):
    keys = data.draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, min_size=1, max_size=4))
    count = data.draw(st.integers(1, 5))
    vary = {key: data.draw(st.lists(VALUES[key], min_size=count, max_size=count)) for key in keys}
    models = data.draw(
        st.lists(st.sampled_from(sorted(set(GENERAL_MODELS) - {"pipeline"})), unique=True, min_size=1, max_size=3)
    )
    result = run_sweep(strided, GPU, vary, mode="zip", models=models, workers=1)
    assert len(result) == count * len(models)
    for row in result.table.to_pylist():
        chosen = {key: values[row["configuration"]] for key, values in vary.items()}
        assert {key: row[key] for key in keys} == chosen
        try:
            expected = predict(strided, GPU, row["model"], overrides=chosen)
        except WarplensError as error:
            assert row["error"].replace(".0", "") == str(error).replace(".0", "")
            assert row["cycles"] is None
        else:
            check_row(row, expected)


@pytest.mark.parametrize("model", [name for name in GENERAL_MODELS if name != "pipeline"])
def test_every_model_on_many_machines_of_a_trace(model, strided):
    vary = {
        "l1.mshrs": [32, 128],
        "sms": [14, 28],
        "l1.size": [24576, 49152],
        "dram.latency": [100, 333.3],
        "clock": [1e9, 1.7e9],
    }
    result = run_sweep(strided, GPU, vary, models=[model])
    for row in result.table.to_pylist()[::5]:
        chosen = {key: row[key] for key in vary}
        fresh = dataclasses.replace(strided, results=Results())  # nothing shared with the sweep
        check_row(row, predict(fresh, GPU, model, overrides=chosen))


def test_several_kernels_models_and_simulators():
    result = warplens.sweep(
        [trace("compute_ilp4_lowocc"), trace("saxpy_lowocc")],
        GPU,
        {"l1.mshrs": [32, 128], "scheduler": ["gto", "lrr"]},
        models=["mdm", "roofline"],
        simulators=["detailed", "pipeline"],
        overrides={"clock": "1.2GHz"},
    )
    assert result.configurations == 4
    assert len(result) == 2 * 4 * 4
    assert result.errors == 0
    assert set(result.table.column("clock").to_pylist()) == {1.2e9}
    for row in rows(result.table):
        chosen = {key: row[key] for key in ("l1.mshrs", "scheduler", "clock")}
        source = trace(row["kernel"])
        if row["kind"] == "model":
            check_row(row, predict(source, GPU, row["model"], overrides=chosen))
            continue
        expected = simulate(source, GPU, row["model"], overrides=chosen)
        assert (row["cycles"], row["seconds"], row["ipc"]) == (expected.cycles, expected.seconds, expected.ipc)
        if row["model"] == "detailed":
            assert row["cpi"] == expected.cpi
            assert {name: row[f"stack.{name}"] for name in expected.stack} == expected.stack


def test_clocks_of_a_run_that_is_measured_once():
    """CRISP among the others: one simulation for all clocks, left out where nothing may be measured."""
    kernel, clocks = trace("compute_ilp4_lowocc"), [0.7e9, 1.4e9, 2.1e9]
    measured = {"crisp": {"simulate": True}}
    result = run_sweep(kernel, GPU, {"clock": clocks}, models=["mdm", "crisp"], options=measured)
    for row in rows(result.table):
        options = measured.get(row["model"])
        check_row(row, predict(kernel, GPU, row["model"], overrides={"clock": row["clock"]}, options=options))
    assert "crisp.simulate=true" in run_sweep(kernel, GPU, {"clock": clocks}).skipped["crisp"]


def test_the_whole_configuration_is_in_every_row():
    result = run_sweep("mdm-baseline", None, {"l1.mshrs": [64]}, models=["mdm"], overrides={"noc.queue": 99})
    (row,) = result.table.to_pylist()
    gpu = warplens.load_gpu("mdm2020")
    assert row["gpu"] == "mdm2020"
    assert (row["l1.mshrs"], row["noc.queue"]) == (64, 99)
    assert (row["sms"], row["clock"], row["scheduler"]) == (gpu.sms, gpu.clock_hz, gpu.scheduler)
    assert row["dram.bandwidth"] == gpu.dram.bandwidth_bytes_per_s
    assert row["l1.size"] == gpu.l1.size_bytes


def test_configurations_that_make_no_sense_are_rows_with_their_errors():
    vary = {"l1.mshrs": [0, 64], "clock": [0, 1.4e9], "l1.size": [48 * 1024, 6 * 2**20]}
    result = run_sweep("mdm-baseline", None, vary, models=["mdm", "gpumech"])
    assert len(result) == 16
    found = {tuple(row[key] for key in vary): row["error"] for row in result.table.to_pylist()}
    assert [case for case, error in found.items() if error is None] == [(64, 1.4e9, 49152)]
    assert "l1.mshrs: 0" in found[0, 1.4e9, 49152]
    assert "clock: 0" in found[64, 0, 49152]
    assert "last-level cache" in found[64, 1.4e9, 6 * 2**20]


def test_what_nobody_thought_of_stays_in_its_row(monkeypatch):
    def broken(self, case):
        if np.any(case.require("l1.mshrs") == 32):
            raise ZeroDivisionError("by chance")
        return original(self, case)

    model = MODELS["mdm"]
    original = model.evaluate
    monkeypatch.setattr(model, "evaluate", broken)
    result = run_sweep("mdm-baseline", None, {"l1.mshrs": [16, 32, 64, 128]}, models=["mdm"])
    assert [row["error"] for row in result.table.to_pylist()] == [None, "ZeroDivisionError: by chance", None, None]


def test_a_model_that_lacks_its_input_is_left_out_or_has_errors():
    everything = run_sweep("mdm-baseline", None, {"l1.mshrs": [64, 128]})
    assert "roofline" in everything.skipped
    assert "roofline" not in everything.table.column("model").to_pylist()
    named = run_sweep("mdm-baseline", None, {"l1.mshrs": [64, 128]}, models=["mdm", "roofline"])
    assert named.errors == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"vary": {"l1.mhsrs": [1]}}, OverrideError, "did you mean 'l1.mshrs'"),
        ({"overrides": {"l1.mhsrs": 1}}, OverrideError, "did you mean 'l1.mshrs'"),
        ({"overrides": {"l1.mshrs": "1,2"}}, InputError, "takes one value"),
        ({"overrides": {"l1.mshrs": 0}}, OverrideError, "must be at least 1"),
        ({"vary": {"sms": [1]}, "overrides": {"sms": 2}}, InputError, "both set and varied"),
        ({"models": ["mdn"]}, UnknownNameError, "did you mean 'mdm'"),
        ({"simulators": ["detail"]}, UnknownNameError, "did you mean 'detailed'"),
        ({"models": ["mdm"], "options": {"gpumech": {"clamp": False}}}, UnknownNameError, "not among the models"),
        ({"models": ["mdm"], "options": {"mdm": {"clamp": "x"}}}, OptionError, "mdm.clamp"),
        ({"gpu": "mdm202"}, InputError, "did you mean 'mdm2020'"),
        ({"inputs": []}, InputError, "no kernel"),
        ({"workers": -1}, InputError, "workers"),
    ],
)
def test_mistakes_are_refused_before_any_work(arguments, error, message, monkeypatch):
    monkeypatch.setattr("warplens.sweeps.work.evaluate", lambda *_: pytest.fail("work was done"))
    inputs = arguments.pop("inputs", "mdm-baseline")
    with pytest.raises(error, match=message):
        run_sweep(inputs, **arguments)


def test_caches_that_differ_in_ways_take_one_pass(monkeypatch):
    """Where that is exact: warps in turn. The rows are those of a simulation each."""
    from warplens.workload import traced

    way = 3 * 2**20 // 8  # bytes of a way: the sets stay the same
    ways = [1, 2, 4, 8, 12, 16, 32]
    vary = {"llc.ways": ways, "llc.size": [way * each for each in ways]}
    (timed,) = load_workloads(trace("chase_divergent"))
    in_turn = dataclasses.replace(timed, order="round-robin", results=Results())
    rest = {"mode": "zip", "models": ["mdm", "gpumech"], "workers": 1}
    with monkeypatch.context() as patch:
        simulated = []
        patch.setattr(traced, "simulate_caches", lambda *a: simulated.append(a[2].config.llc_ways) or original(*a))
        original = simulate_caches
        result = run_sweep(in_turn, GPU, vary, **rest)
        assert simulated == [8]  # the machine as named, for the representative warp
        simulated.clear()
        run_sweep(timed, GPU, vary, **rest)  # time decides the order: one by one
        assert sorted(simulated) == sorted(ways)
    misses = set()
    for row in result.table.to_pylist():
        fresh = dataclasses.replace(in_turn, results=Results())
        chosen = {key: row[key] for key in vary}
        check_row(row, predict(fresh, GPU, row["model"], overrides=chosen))
        misses.add(cache_misses(fresh, warplens.load_gpu(GPU, chosen)).llc_misses)
    assert len(misses) > 1  # the sizes matter


def test_options_reach_the_models():
    plain = run_sweep("mdm-baseline", None, {"l1.mshrs": [64]}, models=["gpumech"])
    literal = run_sweep(
        "mdm-baseline",
        None,
        {"l1.mshrs": [64]},
        models=["gpumech"],
        options={"gpumech": {"normalization": "literal"}},
    )
    assert plain.table.column("cycles")[0] != literal.table.column("cycles")[0]


def test_workers_do_not_change_the_table():
    vary = {"sms": "7:28:7", "l1.mshrs": [32, 64]}
    one, two = (
        run_sweep([trace("strided8"), trace("copy")], GPU, vary, models=["mdm", "gpumech"], workers=workers).table
        for workers in (1, 3)
    )
    assert one.equals(two)


def test_progress_goes_up_to_all():
    told = []
    run_sweep("mdm-baseline", None, {"sms": "1:28:1"}, progress=lambda done, total: told.append(done / total))
    assert told == sorted(told)
    assert math.isclose(told[-1], 1.0)


# -- the file ----------------------------------------------------------------------------------


VARY = {"l1.mshrs": [32, 64, 0], "dram.bandwidth": "200GB/s:800GB/s:200GB/s"}


def test_the_file_holds_the_table_and_is_not_made_twice(tmp_path, monkeypatch):
    path = tmp_path / "out.parquet"
    first = run_sweep("mdm-baseline", None, VARY, models=["mdm"], output=path)
    assert first.resumed_rows == 0
    assert [item.name for item in tmp_path.iterdir() if item.name != "cache"] == ["out.parquet"]
    assert run_sweep("mdm-baseline", None, VARY, models=["mdm"]).table.equals(first.table)
    monkeypatch.setattr("warplens.sweeps.work.evaluate", lambda *_: pytest.fail("work was redone"))
    again = run_sweep("mdm-baseline", None, VARY, models=["mdm"], output=path)
    assert again.resumed_rows == len(again) == 12
    assert again.table.equals(first.table)
    assert read_sweep(path, ["model", "cycles"]).num_columns == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"vary": VARY | {"l1.mshrs": [32, 64, 1]}},
        {"models": ["gpumech"]},
        {"overrides": {"sms": 2}},
        {"options": {"mdm": {"clamp": False}}},
        {"mode": "zip", "vary": {"sms": [1, 2]}},
        {"inputs": "gpumech-fig8"},
        {"gpu": "mdm2019"},
    ],
)
def test_another_sweep_is_refused_and_nothing_is_lost(tmp_path, changed):
    path = tmp_path / "out.parquet"
    first = run_sweep("mdm-baseline", None, VARY, models=["mdm"], output=path)
    arguments = {"vary": VARY, "models": ["mdm"], "output": path} | changed
    inputs = arguments.pop("inputs", "mdm-baseline")
    with pytest.raises(InputError, match="holds another sweep"):
        run_sweep(inputs, arguments.pop("gpu", None), arguments.pop("vary"), **arguments)
    assert read_sweep(path).equals(first.table)


def test_a_file_that_is_no_sweep_is_left_alone(tmp_path):
    path = tmp_path / "out.parquet"
    path.write_text("precious")
    with pytest.raises(InputError, match="is not a Parquet file"):
        run_sweep("mdm-baseline", None, VARY, models=["mdm"], output=path)
    assert path.read_text() == "precious"
    with pytest.raises(InputError, match="no such file"):
        read_sweep(tmp_path / "none.parquet")


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        run_sweep("mdm-baseline", None, VARY, models=["mdm"], output=tmp_path / "file" / "out.parquet")
