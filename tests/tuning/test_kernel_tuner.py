"""Kernel Tuner's results and its strategies."""

from __future__ import annotations

import gzip
import json

import pytest

from warplens.errors import InputError
from warplens.tuning import PredictedFirst, read_results, write_cache

PARAMETERS = {"block_size_x": (32, 64), "type": ("float", "double")}
ROWS = [
    ({"block_size_x": 32, "type": "float"}, 2e-3),
    ({"block_size_x": 64, "type": "float"}, 1e-3),
    ({"block_size_x": 64, "type": "double"}, None),
]


def test_a_cache_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "cache.json"
    write_cache(path, ROWS, PARAMETERS, device="a100", kernel="k", problem=[4096])
    found = read_results(path)
    assert found.keys == ("block_size_x", "type") and found.device == "a100"
    assert found.of({"block_size_x": 64, "type": "float", "more": 1}) == pytest.approx(1e-3)
    assert found.failures == {(64, "double"): "InvalidConfig"}
    text = path.read_text()
    assert text.endswith("}\n}"), "Kernel Tuner looks for this before it adds to a cache"
    path.write_text(text[: text.rindex("}\n}")] + ",")
    assert read_results(path) == found, "a cache that a tuner has left open"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_results(path) == found


def test_results_of_other_tuners(tmp_path):
    row = {"configuration": {"a": 1}, "times": {}, "correctness": 1}
    rows = [
        {**row, "invalidity": "correct", "measurements": [{"name": "time", "value": 2.0, "unit": "ms"}]},
        {**row, "configuration": {"a": 2}, "invalidity": "runtime", "measurements": []},
    ]
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"schema_version": "1.0.0", "results": rows}))
    found = read_results(path)
    assert dict(found.seconds) == {(1,): 2e-3} and dict(found.failures) == {(2,): "runtime"}
    path.write_text("[1, 2")
    with pytest.raises(InputError, match="not valid JSON"):
        read_results(path)


def test_the_strategy_measures_the_predicted_best_first():
    class Space:
        tune_params = {"type": ["float", "double"], "block_size_x": [32, 64]}
        list = [("float", 32), ("double", 32), ("float", 64)]

    class Runner:
        def run(self, elements, options):
            return [{"element": each} for each in elements]

    seconds = {tuple(c.values()): time for c, time in ROWS if time is not None}
    strategy = PredictedFirst(seconds, tuple(PARAMETERS))
    assert strategy not in {"brute_force": None}, "Kernel Tuner looks it up among its own"
    found = strategy.tune(Space, Runner(), {"strategy_options": {"max_fevals": 2}})
    assert [each["element"] for each in found] == [("float", 64), ("float", 32)]
