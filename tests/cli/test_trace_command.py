"""`warplens trace`: on the CPU from a workload file, and how --on-gpu is refused where it cannot be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile

import pytest
from click.testing import CliRunner

from warplens import load_gpu, load_workload
from warplens.cli.main import cli
from warplens.frontends.sass import TracedLaunch, TraceSummary
from warplens.workload import analyse


def run(*arguments):
    return CliRunner().invoke(cli, ["trace", *map(str, arguments)])


def test_a_bundled_kernel_becomes_a_trace(tmp_path):
    output = tmp_path / "saxpy.wlt"
    document = json.loads(run("saxpy", "-o", output, "--json").stdout)
    assert document["recorded_blocks"] == document["blocks"] == 4096 and document["instructions"] == 655360
    assert analyse(load_workload(output), load_gpu("h200")).total_instructions == 655360
    shown = run("saxpy", "-o", output, "--force")
    assert shown.exit_code == 0 and "4096 of 4096" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("saxpy", "-o", "x.txt"), "ends in .wlt"),
        (("saxpy", "other", "-o", "x.wlt"), "give one WORKLOAD"),
        (("saxpy", "-o", "x.wlt", "--kernel", "a"), "need --on-gpu"),
        (("--on-gpu", "--record-memory", "4kg", "-o", "x.wlt", "--", "true"), "has the unit 'kg'"),
        (("--on-gpu", "--record-memory", "1kB", "-o", "x.wlt", "--", "true"), "give 1MiB or more"),
        (("--on-gpu", "--gpu", "h200", "-o", "x.wlt", "--", "true"), "uses the GPU of this machine"),
    ],
)
def test_usage(arguments, message):
    result = run(*arguments)
    assert result.exit_code != 0 and message in str(result.exception or "") + result.output


def test_a_command_that_is_ended_takes_away_what_it_began(tmp_path):
    from warplens.cli.common import cleaned_up

    with pytest.raises(SystemExit, match="143"), cleaned_up(), tempfile.TemporaryDirectory(dir=tmp_path):
        os.kill(os.getpid(), signal.SIGTERM)
    assert not list(tmp_path.iterdir()) and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_many_launches_are_shown_by_kernel_and_size(capsys):
    from warplens.cli.trace import _show_program

    def launch(number, kernel="add", share=1.0):
        exactness = {"instructions": 100, "exact_share": share}
        return TracedLaunch(kernel, number, (4, 1, 1), (32, 1, 1), 4, 9, 144, exactness)

    few, many = [launch(0), launch(3, share=0.5)], [launch(number, share=1 - number / 1000) for number in range(40)]
    for launches in (few, [*many, launch(40, "other", None)]):
        _show_program(TraceSummary("a.wlt", 10, tuple(launches), len(launches), 1.0))
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "4×1×1" in line]
    assert [row[3] for row in shown] == ["0", "3", "40", "40"]
    assert shown[1][-1] == "50.00%" and shown[2][4:] == ["launches", "160", "4000", "96.10%"]
    assert shown[3][-1] == "100"


def test_an_existing_file_is_kept(tmp_path):
    output = tmp_path / "a.wlt"
    output.write_text("mine")
    assert run("saxpy", "-o", output).exit_code != 0 and output.read_text() == "mine"


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU here")
def test_without_a_gpu_the_message_says_what_is_missing(tmp_path):
    result = run("--on-gpu", "-o", tmp_path / "a.wlt", "--", "true")
    assert result.exit_code != 0 and "driver" in str(result.exception) and not list(tmp_path.iterdir())
