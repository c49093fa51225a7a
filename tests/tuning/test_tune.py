"""The search, and `warplens tune`."""

from __future__ import annotations

import dataclasses
import json
import math
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import warplens
from warplens.cli.main import cli
from warplens.cli.tune import reasons
from warplens.errors import InputError, MachineError
from warplens.sweeps.processes import Processes
from warplens.tuning import estimate, read_results, read_space, run, write_cache
from warplens.tuning.agreement import Agreement
from warplens.tuning.estimate import Estimate, _scaled, _shape, features_of
from warplens.tuning.evaluate import Work

from .making import write_space


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    path = write_space(folder)
    result = warplens.tune(path, "a100", top=2, output=folder / "out.parquet", workers=1)
    return folder, path, result


def test_every_configuration_has_a_row(found):
    folder, _, result = found
    rows = pq.read_table(folder / "out.parquet").to_pylist()
    assert {row["configuration"] for row in rows} == set(range(len(result.space)))
    failed = [row for row in rows if row["error"]]
    assert failed and all(row["parameters.threads"] == 2048 and "1024" in row["error"] for row in failed)
    assert result.predicted + result.failed == len(result.space)
    first, second = result.best(2)
    assert first.seconds <= second.seconds and first.twins == 1
    assert {first.stage, second.stage} == {"full"}
    assert first.seconds_low <= first.seconds <= first.seconds_high


def test_a_row_is_what_predict_says(found):
    _, _, result = found
    best = result.best(1)[0]
    workload, gpu = Work(result.space, warplens.load_gpu("a100"), "full").workload(best.parameters)
    assert warplens.predict(workload, gpu).seconds == best.seconds


def test_a_search_resumes_and_is_exported(found):
    folder, path, result = found
    out, cache = folder / "out.parquet", folder / "cache.json"
    command = ["tune", path, "--gpu", "a100", "--top", 2, "-o", out, "--export", cache, "--workers", 1]
    again = CliRunner().invoke(cli, list(map(str, [*command, "--json"])))
    document = json.loads(again.stdout)
    assert document["resumed"] == document["launches"] == len(result.space.twins)
    assert document["best"] == [each.to_dict() for each in result.best(2)]
    measured = read_results(cache)
    assert measured.of(result.best(1)[0].parameters) == pytest.approx(result.best(1)[0].seconds)
    shown = CliRunner().invoke(cli, list(map(str, [*command, "--measured", cache])))
    assert shown.exit_code == 0, shown.output
    assert "Spearman 1.00" in shown.output and "12 cannot run" in shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    with pytest.raises(InputError, match="holds another sweep"):
        warplens.tune(path, "h200", output=out)


def test_several_machines_have_files_of_their_own(tmp_path):
    asked = ["tune", write_space(tmp_path), "--fix", "threads=64", "--fix", "unroll=1", "--fix", "unused=0"]
    asked += ["--gpu", "a100", "--gpu", "rtx3090", "--workers", 1, "-o", tmp_path / "out.parquet"]
    asked += ["--export", tmp_path / "new" / "cache.json"]
    done = CliRunner().invoke(cli, list(map(str, asked)))
    assert done.exit_code == 0, done.output
    assert "squares on a100-40gb: fastest" in done.stdout and "squares on rtx3090: fastest" in done.stdout
    for name in ("a100-40gb", "rtx3090"):
        assert read_results(tmp_path / "new" / f"cache-{name}.json").device == name
        assert (tmp_path / f"out-{name}.parquet").is_file()
    document = json.loads(CliRunner().invoke(cli, [*map(str, asked), "--json"]).stdout)
    assert [each["gpu"] for each in document["machines"]] == ["a100-40gb", "rtx3090"]
    assert all(each["resumed"] == 2 for each in document["machines"])


def test_times_of_another_space_are_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("warplens.tuning.run_tuning", lambda *a, **k: pytest.fail("it is too late to refuse"))
    path = str(write_space(tmp_path))
    cache = tmp_path / "cache.json"
    write_cache(cache, [({"tile": 4}, 1e-3)], {"tile": (4,)}, device="a100", kernel="k")
    done = CliRunner().invoke(cli, ["tune", path, "--gpu", "a100", "--measured", str(cache)])
    assert "are threads, unroll, step, unused; those of the file are tile" in str(done.exception)
    done = CliRunner().invoke(cli, ["tune", path, "--gpu", "a100", "--gpu", "h200", "--measured", str(cache)])
    assert done.exit_code == 2 and "give one --gpu" in done.output
    done = CliRunner().invoke(cli, ["tune", path, "--gpu", "a100", "--export", f"{path}/cache.json"])
    assert done.exit_code != 0 and "is no folder" in done.output + str(done.exception)


def test_a_budget_ends_the_search(tmp_path):
    result = warplens.tune(write_space(tmp_path), "a100", budget=0.01, workers=1, top=1)
    assert 0 < result.predicted < len(result.space) - result.failed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "soon"], "for example 60s"),
        (["--workers", "1", "--scheduler", "tcp://x"], "give one of them"),
        (["--set", "clok=1GHz"], "did you mean 'clock'"),
    ],
)
def test_what_cannot_be_asked(tmp_path, options, message):
    with pytest.raises(InputError, match="either workers or a scheduler"):
        warplens.tune(write_space(tmp_path), "a100", workers=1, scheduler="tcp://x")
    with pytest.raises(InputError, match="above 0"):
        warplens.tune(write_space(tmp_path), "a100", top=0)
    done = CliRunner().invoke(cli, ["tune", str(write_space(tmp_path)), "--gpu", "a100", *options])
    assert done.exit_code != 0
    assert message in done.output + str(done.exception)


def test_a_space_that_cannot_run_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "_predicted", Mock(side_effect=InputError("no such thing")))
    monkeypatch.setattr(run, "Processes", _InProcess)
    monkeypatch.setattr(run, "MOST_FAILURES", 2)
    monkeypatch.setattr(run, "ROUND", 1)
    result = warplens.tune(write_space(tmp_path), "a100", budget=1e-9, workers=1)
    assert (result.predicted, result.first_error) == (0, "no such thing")
    names = [f"parameters.{name}" for name in result.space.used]
    rows = [row for row in result.table.to_pylist() if row["parameters.threads"] < 2048]
    tried = {tuple(row[name] for name in names) for row in rows}
    assert len(tried) == 2, "not the whole space"


def test_a_space_that_fails_for_one_reason_ends_without_a_budget(tmp_path, monkeypatch):
    predicted = Mock(side_effect=InputError("takes 3 arguments; 4 are given"))
    monkeypatch.setattr(Work, "_predicted", predicted)
    monkeypatch.setattr(run, "Processes", _InProcess)
    monkeypatch.setattr(run, "MOST_ALIKE", 3)
    pruned = len(warplens.tune(write_space(tmp_path), "a100", workers=1).table)
    assert predicted.call_count == 3 + 6, "three that may run, and the blocks that no GPU takes"
    assert pruned < len(read_space(write_space(tmp_path)))
    predicted.side_effect = [InputError(str(number)) for number in range(100)]
    assert len(warplens.tune(write_space(tmp_path), "a100", workers=1).table) == 36, "others may run"


def test_parameters_can_be_fixed(tmp_path):
    space = read_space(write_space(tmp_path))
    part = space.with_fixed({"threads": "64", "unroll": "2"})
    assert 0 < len(part) < len(space)
    assert {(each["threads"], each["unroll"]) for each in part.configurations} == {(64, 2)}
    for given, message in (
        ({"threats": "64"}, "did you mean 'threads'"),
        ({"threads": "65"}, "never 65; .* 64, 128"),
    ):
        with pytest.raises(InputError, match=message):
            space.with_fixed(given)
    asked = ["tune", str(write_space(tmp_path)), "--gpu", "a100", "--fix", "threads"]
    assert "for example --fix tile=4" in CliRunner().invoke(cli, asked).output


def test_the_fastest_counts_that_was_not_predicted(found):
    folder, _, result = found
    result.write_cache(folder / "all.json")
    first = result.best(1)[0]
    left_out = next(group for group in result.space.twins if first.configuration in group)
    rows = [index not in left_out for index in result.table["configuration"].to_pylist()]
    part = dataclasses.replace(result, table=result.table.filter(rows))
    reached = first.seconds / part.best(1)[0].seconds
    assert reached < 1.0 and part.agreement(read_results(folder / "all.json")).best_of[50] == pytest.approx(reached)


def test_a_clock_by_power_needs_energies(tmp_path):
    with pytest.raises(MachineError, match="needs its energies and its power limit"):
        warplens.tune(write_space(tmp_path), "rtx3090", overrides={"clock": "power"})


def test_estimates_follow_what_is_known(tmp_path):
    space = read_space(write_space(tmp_path))
    points = features_of(space, range(len(space)))
    assert points.min() == 0.0 and points.max() == 1.0
    times = np.exp(points @ np.arange(1.0, points.shape[1] + 1))
    known = list(range(0, len(space), 2))
    found = Estimate(points, known, times[known])
    assert np.abs(found.log_seconds - np.log(times)).max() < 0.2
    assert (found.deviation > 0).all()
    wider = Estimate(points, known, times[known] ** 2)
    assert wider.deviation == pytest.approx(2.0 * found.deviation), "log times that lie twice as far apart"


def test_estimates_are_less_certain_far_from_what_is_known():
    line = np.linspace(0.0, 1.0, 21)[:, None]
    found = Estimate(line, range(8), np.exp(np.sin(9.0 * line[:8, 0])))
    assert found.deviation[-1] > 2.0 * found.deviation[3]


def test_features_of_values_and_blocks(tmp_path):
    assert _scaled(4, [1, 2, 4]) == 2.0 and _scaled(0, [0, 1, 2]) == 0.0 and _scaled(4, [-1, 4]) == 4.0
    space = read_space(write_space(tmp_path))
    block, grid = [math.log2(48), 0.75, 5.0, 4.0], [math.log2(43), 0.0, 0.0]
    assert _shape(space, {"threads": 48, "unroll": 2}) == [*block, *grid]
    assert _shape(space, {}) == [0.0] * 7, "a launch that cannot be known"


def test_what_goes_wrong_in_a_prediction_is_a_row(tmp_path, monkeypatch):
    space = read_space(write_space(tmp_path))
    work = Work(space, warplens.load_gpu("a100"), "search")
    for error, text in ((InputError("no such thing"), "no such thing"), (KeyError("x"), "KeyError: 'x'")):
        monkeypatch.setattr(Work, "_predicted", Mock(side_effect=error))
        assert work.rows(np.array([3])).column("error").to_pylist() == [text]


def test_with_a_budget_the_most_promising_come_first(tmp_path, monkeypatch):
    asked = []

    def predicted(work, configuration):
        asked.append(configuration)
        seconds = configuration["threads"] * configuration["unroll"] / configuration["step"]
        return {"seconds": seconds, "cycles": 1.0, "ipc": 1.0}

    monkeypatch.setattr(Work, "_predicted", predicted)
    monkeypatch.setattr(run, "Processes", _InProcess)
    monkeypatch.setattr(estimate, "LEAST_SAMPLE", 6)
    monkeypatch.setattr(estimate, "SAMPLE_PER_DIMENSION", 0)
    monkeypatch.setattr(run, "ROUND", 1)
    result = warplens.tune(write_space(tmp_path), "a100", budget=600.0, workers=1, top=1)
    assert result.predicted == len(result.space)
    best = result.best(1)[0].parameters
    places = [number for number, each in enumerate(asked) if all(each[n] == best[n] for n in result.space.used)]
    assert places[0] == 6, "the first after the sample"
    assert len(places) == 2, "once in the search, once in full"
    assert all(effect.best != effect.worst for effect in result.effects)


class _InProcess(Processes):
    """One worker, which is this process."""

    def results(self, units, works, tell):
        for unit in units:
            yield unit.number, works[unit.workload].rows(unit.rows)


def test_progress_counts_the_best_that_are_predicted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "_predicted", Mock(return_value={"seconds": 1.0, "cycles": 1.0, "ipc": 1.0}))
    monkeypatch.setattr(run, "Processes", _InProcess)
    told = []
    run.run_tuning(
        write_space(tmp_path), "a100", top=2, workers=1, progress=lambda done, most: told.append((done, most))
    )
    assert told == [(done, 20) for done in range(7, 21)], "18 launches, 6 of them impossible, and 2 again"


@pytest.mark.parametrize(
    ("median", "text"),
    [
        (
            2.0,
            "The best is 2.0× as fast as the median (limit: DRAM 90 %): 0.50× its instructions, executed "
            "1.00× as fast.",
        ),
        (1.02, "The median takes hardly longer than the best (1.02×; limit: DRAM 90 %)."),
    ],
)
def test_why_the_best_wins(median, text):
    fast = Mock(seconds=1.0, instructions=100.0, limiter="l1", busy=0.5)
    typical = Mock(seconds=median, instructions=200.0, limiter="dram", busy=0.9)
    assert reasons(Mock(candidates=[fast, typical], effects=[])) == [text]


def test_nothing_predicted_has_no_list_of_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "_predicted", Mock(side_effect=InputError("no such thing")))
    monkeypatch.setattr(run, "Processes", _InProcess)
    done = CliRunner().invoke(cli, ["tune", str(write_space(tmp_path)), "--gpu", "a100", "--workers", "1"])
    assert done.exit_code != 0 and "fastest" not in done.output
    assert done.output.startswith("squares on a100-40gb: 0 of 36 configurations predicted")


def test_what_a_budget_left_out_is_estimated_for_a_tuner(found, monkeypatch):
    _, _, whole = found
    monkeypatch.setattr("warplens.tuning.result.LEAST_ESTIMATED_FROM", 4)
    assert whole.estimates == {}, "all is predicted"
    kept = {group[0] for group in whole.space.twins[1:]}
    rows = [row["configuration"] in kept for row in whole.table.to_pylist()]
    part = dataclasses.replace(whole, table=whole.table.filter(rows))
    left = set(whole.space.twins[0])
    assert left <= part.estimates.keys() and not left & part._rows.keys()
    assert part.to_dict()["estimate_error"] == part.estimate_error and 0 < part.estimate_error < 1
    times = part.strategy().seconds
    names = tuple(whole.space.parameters)
    assert all(times[tuple(whole.space.configurations[index][name] for name in names)] > 0 for index in left)


def test_agreement_in_errors_order_and_speed():
    found = Agreement.of([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.2])
    assert found.factor == pytest.approx(0.5, abs=0.01) and found.median_error == pytest.approx(0.5)
    assert found.spearman == found.kendall == found.pairs_in_order == pytest.approx(1.0)
    assert found.best_of == {1: 1.0, 10: 1.0, 50: 1.0}
    assert Agreement.of([3.0, 2.0], [1.0, 2.0]).best_of[1] == 0.5
    assert Agreement.of([1.0], [1.0]).spearman is None
