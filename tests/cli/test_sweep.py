"""`warplens sweep`"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.errors import InputError


def run(*arguments):
    return CliRunner().invoke(cli, ["sweep", *map(str, arguments)])


def test_energy_over_clocks(tmp_path):
    asked = ["lemeire-example", "--gpu", "h200", "--model", "volkov", "--energy", "-o", tmp_path / "out.parquet"]
    assert "--vary clock=" in run(*asked).output
    asked += ["--vary", "clock=0.8GHz:1.8GHz:0.2GHz"]
    done = run(*asked)
    assert "energy × time" in done.output and "gives no power.voltage_slope" in done.output
    steep = json.loads(
        run(*asked[:-3], tmp_path / "b.parquet", *asked[-2:], "--set", "power.voltage_slope=0.5", "--json").output
    )
    (found,) = steep["energy"]
    least = min(zip(found["joules"], found["clock_hz"], strict=True))[1]
    assert found["least_energy_hz"] == least < found["least_energy_delay_hz"] == 1.8e9
    no_power = run(*asked[:1], "--gpu", "mdm2020", *asked[3:-3], tmp_path / "c.parquet", *asked[-2:])
    assert "gives no power.active_watts" in " ".join(no_power.output.split())


def test_a_table_and_its_answers(tmp_path):
    path = tmp_path / "out.parquet"
    asked = ["mdm-baseline", "--vary", "sms=7:28:7", "--vary", "dram.bandwidth=240GB/s,480GB/s", "--model", "mdm"]
    asked += ["--model", "gpumech", "-o", path]
    plots = ["--pareto", "sms", "--sensitivity", "--agreement", "--heat-map", "sms,dram.bandwidth"]
    done = run(*asked, *plots, "--plots", tmp_path / "plots")
    assert done.exit_code == 0, done.output
    for part in (
        "fastest configurations",
        "Pareto front, mdm",
        "elasticity",
        "next: ",
        "warps per SM reach 95 % of the best IPC",
        "regret",
        "16 rows",
        " 480 GB/s",
    ):
        assert part in done.output
    assert sorted(picture.name for picture in (tmp_path / "plots").iterdir()) == [
        "heat-map-mdm-baseline.png",
        "pareto-gpumech.png",
        "pareto-mdm.png",
        "tornado-mdm-baseline-gpumech.png",
        "tornado-mdm-baseline-mdm.png",
    ]
    again = run(*asked, "--json", "--pareto", "sms", "--agreement")
    document = json.loads(again.stdout)
    assert document["resumed_rows"] == document["rows"] == 16
    assert set(document["pareto"]) == {"mdm", "gpumech"}
    assert len(document["agreement"]) == 2


def test_zip_sample_and_errors(tmp_path):
    done = run(
        "mdm-baseline",
        "--vary",
        "sms=7,14",
        "--vary",
        "l1.mshrs=0,64",
        "--zip",
        "-o",
        tmp_path / "a.parquet",
        "--json",
    )
    assert json.loads(done.stdout)["configurations"] == 2
    table = pq.read_table(tmp_path / "a.parquet")
    assert set(zip(table["sms"].to_pylist(), table["l1.mshrs"].to_pylist(), strict=True)) == {(7, 0), (14, 64)}
    told = run("mdm-baseline", "--vary", "l1.mshrs=0,64", "-o", tmp_path / "c.parquet").output
    assert "\nfirst error: l1.mshrs: 0" in told and "not run: wfg, wfg-corrected: needs" in told
    done = run("mdm-baseline", "--vary", "sms=7:28", "--sample", "5", "-o", tmp_path / "b.parquet", "--json")
    assert json.loads(done.stdout)["configurations"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "l1.mhsrs=1"], "did you mean 'l1.mshrs'"),
        (["--vary", "sms=1", "--zip", "--sample", "2"], "cannot be used together"),
        (["--vary", "sms=1", "--pareto", "eval(1)"], "is not a term"),
        (["--vary", "sms=1", "--heat-map", "sms", "--plots", "p"], "write two parameters"),
        (["--vary", "sms=1", "--plots", "p"], "go together"),
        (["--vary", "sms=1", "--kernel", "nothing"], "match no kernel"),
        (["--vary", "sms=1", "--model", "mdn"], "did you mean 'mdm'"),
        (["--vary", "sms=1", "--workers", "0"], "--workers"),
        (["--vary", "sms=1", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "its own workers"),
        (["--vary", "sms=1", "--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler answers there"),
    ],
)
def test_mistakes(tmp_path, arguments, message):
    done = run("mdm-baseline", *arguments, "-o", tmp_path / "out.parquet")
    said = str(done.exception) if isinstance(done.exception, InputError) else done.output
    assert done.exit_code != 0
    assert message in said
    assert not (tmp_path / "out.parquet").exists()


def test_nothing_but_errors_is_a_failure_whose_rows_are_kept(tmp_path):
    done = run("mdm-baseline", "--vary", "l1.mshrs=0", "--model", "mdm", "-o", tmp_path / "out.parquet")
    assert done.exit_code == 1
    assert "every configuration failed; the first error: l1.mshrs: 0" in str(done.exception)
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 1
