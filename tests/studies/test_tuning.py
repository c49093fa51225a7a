"""`warplens validate tuning`: the fixed sample, rows for every clock, and what is kept."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from tuning.making import write_t1
from warplens.cli.main import cli
from warplens.errors import FileError, InputError
from warplens.frontends.cuda.compile import compiler_version
from warplens.machine import with_overrides
from warplens.tuning import read_space
from warplens.tuning.evaluate import schema_of
from warplens.tuning.result import Tuning
from warplens_studies.validate import tuning, tuning_budget
from warplens_studies.validate.report import outdated
from warplens_studies.validate.tuning import read_measured, read_sets, sample_of
from warplens_studies.validate.tuning_budget import Search, keep_searches, kept_searches
from warplens_studies.validate.tuning_limits import Limits
from warplens_studies.validate.tuning_tables import all_tables, sections

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["validation/tuning.md", "guide/tune.md"]
SETS = """
[[sets]]
name = "squares"
gpu = "a100-40gb-pcie"
clocks = ["boost", "base"]
space = "squares.json"
measured = "times.csv"
where = "block_size_x == 64"
twin = "unroll"
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    write_t1(tmp_path)
    rows = ["64,1,0.004", "64,2,0.005", "64,4,", "128,1,0.006"]
    (tmp_path / "times.csv").write_text("block_size_x,unroll,time_ms\n" + "\n".join(rows) + "\n")
    (tmp_path / "sets.toml").write_text(SETS)
    return tmp_path


def test_the_sample_is_fixed_before_anything_is_predicted(sources: Path) -> None:
    (chosen,) = read_sets(sources / "sets.toml")
    space = read_space(sources / "squares.json", sources=sources)
    measured = read_measured(sources / "times.csv")
    found = sample_of(chosen, space, measured)
    assert sorted(found.values()) == [4e-6, 5e-6], "what has no time, or is not wanted, is left out"
    assert list(sample_of(chosen, space, measured, 1)) == list(found)[:1], "a smaller sample is the first part"


def test_command(sources: Path) -> None:
    asked = ["validate", "tuning", "--sources", sources, "--sets", sources / "sets.toml", "-o", sources / "out"]
    done = CliRunner().invoke(cli, [*map(str, asked), "--json"])
    assert done.exit_code == 0, done.output
    (document,) = json.loads(done.stdout)["datasets"]
    assert [row["clock"] for row in document["rows"]] == ["boost", "base"] * 2
    slow, fast = (
        [row["predicted_ms"] for row in document["rows"] if row["clock"] == clock] for clock in ("base", "boost")
    )
    assert all(a > b for a, b in zip(slow, fast, strict=True))
    assert {row["configurations"] for row in document["summary"]} == {2}
    assert [(row["parameter"], row["configurations"]) for row in document["twins"]] == [("unroll", 2)]
    assert (sources / "out" / "tuning-scatter.png").is_file()
    shown = CliRunner().invoke(cli, [*map(str, asked)])
    assert "predicted worst" in shown.output and "what a budget finds" not in shown.output, "that is of other sets"


def test_an_interrupted_run_goes_on(sources: Path) -> None:
    sample = tuning.Sample.of(read_sets(sources / "sets.toml")[0], sources)
    finished: list[bool] = []
    for seconds in (0.0, 60.0):
        found = tuning.predict_samples(
            [sample], sources / "log.jsonl", lambda: finished.append(True), workers=1, most_seconds=seconds
        )
    assert len(found) == 2
    assert len(finished) == 1 + 2, "one before the time was over; all, with those of the log, thereafter"
    rows, reasons = sample.rows(found)
    assert (len(rows), reasons) == (4, [])
    assert {row.compiler for row in rows} == {compiler_version()}


def test_what_was_predicted_of_something_else_is_predicted_anew(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys() -> tuple[str, ...]:
        sample = tuning.Sample.of(read_sets(sources / "sets.toml")[0], sources)
        return tuple(map(sample.key, sample.times))

    known = [keys()]
    assert keys() == known[0]
    kernel = sources / "kernels" / "squares.cu"
    kernel.write_text(kernel.read_text() + "// another kernel\n")
    known.append(keys())
    monkeypatch.setattr("warplens.tuning.run.compiler_version", lambda: "NVRTC 11.2")
    known.append(keys())
    load = tuning.load_gpu
    monkeypatch.setattr(tuning, "load_gpu", lambda name: with_overrides(load(name), {"l1.latency": 99}))
    known.append(keys())
    assert len(set(known)) == 4


def test_what_cannot_be_asked(sources: Path) -> None:
    for options, message in (
        (["tuning", "--fresh"], "--sources"),
        (["h200", "--sample", "5"], "dataset tuning only"),
        (["tuning", "--gpu", "h200"], "no set was measured on h200"),
    ):
        done = CliRunner().invoke(cli, ["validate", *options])
        assert done.exit_code != 0
        assert message in done.output + str(done.exception)
    (sources / "sets.toml").write_text(SETS.replace("gpu", "gpus"))
    with pytest.raises(InputError, match="gpus"):
        read_sets(sources / "sets.toml")
    for change, message in (
        (('twin = "unroll"', 'twin = "unrol"'), "did you mean 'unroll'"),
        (('"boost", "base"', '"bost"'), "no clock 'bost'; did you mean 'boost'"),
    ):
        (sources / "sets.toml").write_text(SETS.replace(*change))
        with pytest.raises(InputError, match=message):
            tuning.Sample.of(read_sets(sources / "sets.toml")[0], sources)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column time_ms"),
        ("block_size_x,unroll,ms\n64,1,4.0\n", "no column time_ms"),
        ("block_size_x,unroll,time_ms\n64,1,fast\n", r":2: time_ms is 'fast'"),
    ],
)
def test_tables_of_times_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "times.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_measured(tmp_path / "times.csv")
    (tmp_path / "times.csv.xz").write_text("no archive")
    with pytest.raises(FileError, match="cannot be read"):
        read_measured(tmp_path / "times.csv.xz")


def test_a_kernel_that_cannot_be_predicted_is_told_of(sources: Path) -> None:
    kernel = sources / "kernels" / "squares.cu"
    kernel.write_text(kernel.read_text().replace("float sum = 0.0f", "float sum = nothing"))
    asked = ["validate", "tuning", "--sources", sources, "--sets", sources / "sets.toml", "-o", sources / "out"]
    done = CliRunner().invoke(cli, [*map(str, asked)])
    assert "no configuration could be predicted" in str(done.exception) + done.output
    assert "the first because" in done.output and "nothing" in done.output


def test_rows_are_read_as_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        tuning.TuningRow("k", "rtx3090", "boost", f"size={x}", time, time * 1.1, time, 2 * time, "L1", "NVRTC 11.8")
        for x, time in ((32, 0.123456), (64, 1.5), (128, 0.5))
    ]
    monkeypatch.setattr(tuning, "KEPT", tmp_path / "kept.csv.xz")
    with pytest.raises(FileError, match="--sources"):
        tuning.kept_rows()
    tuning.keep_rows(rows)
    kept = tuning.kept_rows()
    assert [row.configuration for row in kept] == [row.configuration for row in rows]
    assert kept[0].measured_ms == 0.12346, "five digits"
    assert [len(table.rows) for table in all_tables(kept, Limits())] == [1, 1, 1, 3]


def test_a_card_that_repeats_itself_predicts_itself(sources: Path) -> None:
    (chosen,) = read_sets(sources / "sets.toml")
    space = read_space(sources / "squares.json", sources=sources)
    rows = [f"{c['block_size_x']},{c['unroll']},{c['block_size_x'] / 1e3}" for c in space.configurations]
    (sources / "times.csv").write_text("block_size_x,unroll,time_ms\n" + "\n".join(rows) + "\n")
    limits = Limits.of([replace(chosen, where="True")], sources)
    (twins,) = limits.twins
    assert (twins.far, twins.agreement.spearman, twins.agreement.best_of[10]) == (0.0, pytest.approx(1.0), 1.0)
    assert limits.steps == (), "too few launches for a search"


def test_a_search_within_a_budget(sources: Path) -> None:
    """The fastest that was measured is among the best of so small a space, whatever is predicted."""
    asked = ["validate", "tuning", "--sources", sources, "--sets", sources / "sets.toml", "--budget", "60s", "--json"]
    done = CliRunner().invoke(cli, list(map(str, asked)))
    assert done.exit_code == 0, done.output
    (document,) = json.loads(done.stdout)["datasets"]
    (row,) = document["searches"]
    assert (row["clock"], row["budget_seconds"], row["best_of"]) == ("base", 60.0, {"10": 1.0, "20": 1.0})
    assert 0 < row["predicted"] <= row["configurations"]


def test_the_speed_of_a_choice_is_that_of_its_fastest(sources: Path) -> None:
    space = read_space(sources / "squares.json", sources=sources)
    seconds = {index: 1.0 + index for index in range(len(space))}
    table = schema_of(space).empty_table()
    rows = [{"configuration": i, "stage": "full", "seconds": s, "cycles": s, "ipc": 1.0} for i, s in seconds.items()]
    found = Tuning(space, "a100-40gb-pcie", pa.Table.from_pylist(rows, table.schema), 0, 0.0)
    last = max(seconds)
    assert tuning_budget.best_speeds(found, {0: 4.0, last: 2.0})[10] == (1.0 if last < 10 else 0.5)
    assert tuning_budget.best_speeds(found, {last: 2.0})[20] == 1.0


def test_searches_of_other_sets_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_budget, "SEARCHES", tmp_path / "searches.json")
    sets = read_sets()
    first, second = (
        Search(each.name, each.gpu, "boost", 60.0, 2, 100, 10, {10: 0.5, 20: 1.0}) for each in (sets[1], sets[0])
    )
    keep_searches([first], sets)
    keep_searches([second], sets)
    assert kept_searches(each.gpu for each in sets) == [second, first]
    keep_searches([replace(first, predicted=20)], sets)
    assert [each.predicted for each in kept_searches([first.gpu])] == [20]


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_is_kept(page: str) -> None:
    gpus = {each.gpu for each in read_sets()}
    stale = outdated(DOCS / page, "tuning", sections(tuning.kept_rows(), Limits.kept(gpus), kept_searches(gpus)))
    assert not stale, f"run warplens validate tuning --markdown docs/{page}"


def test_the_text_says_what_the_rows_say() -> None:
    """Counts and ratios that no table of the page shows."""
    rows = {(row.gpu, row.clock, row.configuration): row for row in tuning.kept_rows()}
    text = (DOCS / "validation/tuning.md").read_text(encoding="utf-8")

    def ratios(gpu: str, clock: str, block: str = "") -> dict[str, float]:
        """Predicted over measured time, of configurations whose text has `block`."""
        return {
            key[2]: float(row.predicted_ms) / float(row.measured_ms)
            for key, row in rows.items()
            if key[:2] == (gpu, clock) and block in key[2]
        }

    base, boost = (ratios("a100-40gb-pcie", clock) for clock in ("base", "boost"))
    near = {name for name, ratio in base.items() if abs(ratio - 1.0) <= 0.2}
    others = [name for name, ratio in boost.items() if abs(ratio - 1.0) <= 0.2 and name not in near]
    assert f"{len(near)} of the {len(base)} times are within 20 %" in text
    assert f"and {len(others)} others within 20 % of that at the boost clock" in text
    narrow = ratios("rtx3090", "boost", "block_size_x=2 ")
    assert f"whose median is {statistics.median(narrow.values()):.2f} in {len(narrow)} configurations" in text
    slow = [name for name, ratio in ratios("rtx3090", "boost").items() if ratio >= 1.5]
    assert "Four for the RTX 3090 are" in text and len(slow) == 4 and narrow.keys() >= set(slow)
    assert "Eight for the A100 are" in text and sum(ratio >= 1.5 for ratio in base.values()) == 8
    assert max(ratios("rtx2080ti", "sustained").values()) < 1.5
