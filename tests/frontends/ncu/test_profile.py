"""Reports of Nsight Compute: both forms of CSV, units, stall groups, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.categories import STALL_REASONS
from warplens.cli.main import cli
from warplens.errors import InputError, MissingPackageError
from warplens.frontends.ncu import read_profiles
from warplens.frontends.ncu.stalls import stack_shares, stall_shares

DATA = Path(__file__).parent / "data"
LONG = """==PROF== Connected to process 655
"ID","Process ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","gpu__time_duration.sum","us","5.25"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","sm__cycles_elapsed.max","cycle","9,800"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","smsp__inst_executed.sum","inst","622,592"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","dram__bytes_read.sum","Mbyte","8.4"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","dram__bytes_write.sum","Kbyte","600"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","262,144"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum","sector","131,072"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","l1tex__t_sector_hit_rate.pct","%","33.3"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","smsp__pcsamp_warps_issue_stalled_long_scoreboard","warp","90"
"0","655","void saxpy(int, float)","(256, 1, 1)","(4096, 2, 1)","smsp__pcsamp_warps_issue_stalled_barrier","warp","10"
"1","655","scale","(32, 1, 1)","(1, 1, 1)","gpu__time_duration.sum","ns","900"
"""  # noqa: E501
WIDE = """"ID","Kernel Name","Grid Size","Block Size","gpu__time_duration.sum","sm__cycles_elapsed.max","launch__x"
"","","","","usecond","cycle",""
"0","saxpy","(4096, 1, 1)","(256, 1, 1)","5.25","9800","n/a"
"1","saxpy","(4096, 1, 1)","(256, 1, 1)","5.5","nan",""
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="profile.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_row_per_metric(written):
    first, second = read_profiles(written(LONG))
    assert first.seconds == pytest.approx(5.25e-6) and second.seconds == pytest.approx(9e-7)
    assert first.cycles == 9800 and first.ipc == pytest.approx(622592 / 9800)
    assert first.grid == (4096, 2, 1) and first.block == (256, 1, 1)
    assert first.dram_bytes == pytest.approx(9e6)
    assert first.dram_share == pytest.approx(9e6 / (32 * 393216))  # R of the Pipeline model
    assert first.l1_hit_ratio == pytest.approx(0.333) and first.l2_hit_ratio is None
    assert first.stalls == pytest.approx(
        {"issue": 0, "dependence": 0, "memory": 0.9, "synchronisation": 0.1, "idle": 0}
    )
    assert second.cycles is None and second.ipc is None and second.dram_share is None and second.stalls is None


def test_a_row_per_launch_after_one_of_units(written):
    first, second = read_profiles(written(WIDE))
    assert first.seconds == pytest.approx(5.25e-6) and first.cycles == 9800
    assert second.launch == 1 and second.cycles is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line with column names"),
        ("some text\n", "no line with column names"),
        ('"ID","Kernel Name","Metric Name","Metric Value"\n', "names no kernel"),
        ('"ID","Metric Name"\n"0","a""b\n', "not valid CSV"),
    ],
)
def test_what_is_no_profile_is_refused(written, text, message):
    with pytest.raises(InputError, match=message):
        read_profiles(written(text))


def test_a_report_that_is_damaged_or_cannot_be_read(written):
    with pytest.raises((InputError, MissingPackageError), match=r"ncu-report|cannot read it|names no kernel"):
        read_profiles(written("no report", "a.ncu-rep"))


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_csv_is_an_error_or_a_profile(data, tmp_path_factory):
    lines = data.draw(st.sampled_from([LONG, WIDE])).split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        n = data.draw(st.integers(0, len(lines) - 1))
        lines[n] = data.draw(
            st.sampled_from([lines[n][: len(lines[n]) // 2], lines[n].replace('"', ""), "", lines[n] + ",x", "\0"])
        )
    path = tmp_path_factory.mktemp("ncu") / "p.csv"
    path.write_text("\n".join(lines))
    try:
        profiles = read_profiles(path)
    except InputError:
        return
    assert all(isinstance(each.to_dict(), dict) for each in profiles)


def test_every_reason_has_one_group_and_shares_add_up():
    reasons = [reason for each in STALL_REASONS.values() for reason in each]
    assert len(reasons) == len(set(reasons))
    metrics = {f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": 1.0 for name in reasons}
    assert sum(stall_shares(metrics).values()) == pytest.approx(1)
    assert stack_shares({"BASE": 1.0, "MSHR": 2.0, "NOC": 1.0})["memory"] == pytest.approx(0.75)


def test_predict_shows_the_profile_beside_the_models(written):
    command = ["predict", "saxpy", "--gpu", "h200", "--model", "mdm", "--profile", str(written(LONG))]
    shown = CliRunner().invoke(cli, command)
    assert shown.exit_code == 0 and "measured stalls" in shown.stdout and "5.25 µs" in shown.stdout
    document = json.loads(CliRunner().invoke(cli, [*command, "--json"]).stdout)
    assert document["measured"][0]["cycles"] == 9800
    other = written(LONG.replace("saxpy", "other"), "other.csv")
    result = CliRunner().invoke(cli, [*command[:-1], str(other)])
    assert "the profile has no kernel 'saxpy'" in result.stderr


# -- a report of an H200 ---------------------------------------------------------------------------------


def test_a_report_and_its_csv_say_the_same():
    """Read through NVIDIA's library; the CSV has its numbers in other units, to a few digits."""
    pytest.importorskip("ncu_report", reason="ncu-report has no wheel for this platform")
    report, exported = (read_profiles(DATA / f"features.{kind}") for kind in ("ncu-rep", "csv"))
    assert len(report) == len(exported) == 3
    for one, other in zip(report, exported, strict=True):
        assert one.kernel == "scale" and other.kernel.startswith("void scale<")
        assert one.grid == other.grid and one.block == other.block
        assert one.cycles == other.cycles and one.instructions == other.instructions
        assert one.seconds == pytest.approx(other.seconds) and one.stalls == pytest.approx(other.stalls)
        common = {name for name in set(one.metrics) & set(other.metrics) if not name.startswith("derived__")}
        assert len(common) > 500
        for name in common:
            assert other.metrics[name] == pytest.approx(one.metrics[name], rel=0.01, abs=0.006), name


def test_stalls_of_a_report():
    first, _, _ = read_profiles(DATA / "features.csv")
    assert first.cycles == 15799 and first.seconds == pytest.approx(8.03e-6, rel=1e-3)
    assert sum(first.stalls.values()) == pytest.approx(1)
    assert first.stalls["memory"] > 0.9  # it reads and writes arrays that nothing has in a cache


def test_a_report_that_is_none(tmp_path):
    pytest.importorskip("ncu_report", reason="ncu-report has no wheel for this platform")
    path = tmp_path / "broken.ncu-rep"
    path.write_bytes(b"no report")
    with pytest.raises(InputError, match=r"broken\.ncu-rep"):
        read_profiles(path)


@pytest.mark.parametrize(
    ("library", "told"),
    [
        # Names of metrics that are no text make the library raise when they are used.
        (
            "class Action:\n def metric_names(self): raise TypeError('no text')\n"
            "load_report = lambda p: [[Action()]]",
            "no text",
        ),
        (
            "import os, signal\nload_report = lambda p: os.kill(os.getpid(), signal.SIGSEGV)",
            r"it crashed \(status -11\)",
        ),
        ("load_report = lambda p: []", "names no kernel"),
        ("raise ImportError", "needs the package ncu-report"),
    ],
    ids=["raises", "crashes", "empty", "missing"],
)
def test_a_library_that_fails_is_a_clean_error(tmp_path, monkeypatch, library, told):
    (tmp_path / "ncu_report.py").write_text(library)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "k.ncu-rep").write_bytes(b"x")
    with pytest.raises((InputError, MissingPackageError), match=rf"k\.ncu-rep: .*{told}"):
        read_profiles(tmp_path / "k.ncu-rep")
