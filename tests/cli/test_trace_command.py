"""`warplens trace`: on the CPU from a workload file, and how --on-gpu is refused where it cannot be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile

import pytest
from click.testing import CliRunner

from warplens import load_workload
from warplens.cli.main import cli


def run(*arguments):
    return CliRunner().invoke(cli, ["trace", *map(str, arguments)])


def test_a_bundled_kernel_becomes_a_trace(tmp_path):
    output = tmp_path / "saxpy.wlt"
    document = json.loads(run("saxpy", "-o", output, "--json").stdout)
    assert document["recorded_blocks"] == document["blocks"] == 4096 and document["instructions"] == 655360
    assert load_workload(output).total_instructions == 655360
    shown = run("saxpy", "-o", output, "--force")
    assert shown.exit_code == 0 and "4096 of 4096" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("saxpy", "-o", "x.txt"), "ends in .wlt"),
        (("saxpy", "other", "-o", "x.wlt"), "give one WORKLOAD"),
        (("saxpy", "-o", "x.wlt", "--kernel", "a"), "go with --on-gpu"),
        (("--on-gpu", "--record-memory", "4kg", "-o", "x.wlt", "--", "true"), "has the unit 'kg'"),
        (("--on-gpu", "--record-memory", "1kB", "-o", "x.wlt", "--", "true"), "give 1MiB or more"),
        (("--on-gpu", "--gpu", "h200", "-o", "x.wlt", "--", "true"), "uses the GPU of this machine"),
    ],
)
def test_usage(arguments, message):
    result = run(*arguments)
    assert result.exit_code != 0 and message in str(result.exception or "") + result.output


def test_a_command_that_is_ended_takes_away_what_it_began(tmp_path):
    from warplens.cli.trace import _cleaned_up

    with pytest.raises(SystemExit, match="143"), _cleaned_up(), tempfile.TemporaryDirectory(dir=tmp_path):
        os.kill(os.getpid(), signal.SIGTERM)
    assert not list(tmp_path.iterdir()) and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_an_existing_file_is_kept(tmp_path):
    output = tmp_path / "a.wlt"
    output.write_text("mine")
    assert run("saxpy", "-o", output).exit_code != 0 and output.read_text() == "mine"


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU here")
def test_without_a_gpu_the_message_says_what_is_missing(tmp_path):
    result = run("--on-gpu", "-o", tmp_path / "a.wlt", "--", "true")
    assert result.exit_code != 0 and "driver" in str(result.exception) and not list(tmp_path.iterdir())
