"""Options of workload files: what may write or read files needs the user's trust."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.errors import WorkloadError
from warplens.frontends.cuda.arguments import function_of
from warplens.frontends.cuda.options import TRUST_VARIABLE, refused_option
from warplens.workload.source import load_cuda_launch

HARMLESS = [
    ["-DN=4", "-UDEBUG", "--define-macro=A=1", "-Iheaders", "-I", "headers", "--include-path", "headers"],
    [
        "-std=c++17",
        "--std=c++20",
        "--use_fast_math",
        "-use_fast_math",
        "--fmad=false",
        "-ftz=true",
        "--maxrregcount=32",
    ],
    ["-lineinfo", "-G", "-w", "--diag-suppress=177,550", "--extra-device-vectorization", "--prec-div=false"],
]
DANGEROUS = [
    "--create-pch=/tmp/x", "--use-pch=x", "-pch", "--pch-dir=/tmp", "--time=/tmp/x", "-time=/tmp/x",
    "-fdevice-time-trace=/tmp/x", "-include=/etc/passwd", "--pre-include=/etc/passwd", "-include",
    "--ptxas-options=-v", "-Xptxas=-o", "--fmad=/tmp/x", "--std=c++17 --time=x", "-std=c++17\n--time=x",
    "--define-macro",
]  # fmt: skip


@pytest.fixture(autouse=True)
def untrusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)


@pytest.mark.parametrize("options", HARMLESS)
def test_harmless_options_pass(options: list[str]) -> None:
    assert refused_option(options) is None


@pytest.mark.parametrize("option", DANGEROUS)
def test_others_need_trust(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused_option(["-DN=1", option]) == option
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    assert refused_option([option]) is None


def workload(folder: Path, option: str) -> Path:
    path = folder / "k.toml"
    path.write_text(
        f'[cuda]\ncode = "__global__ void k() {{}}"\nkernel = "k"\ngrid = 1\nblock = 32\noptions = ["{option}"]\n'
    )
    return path


def test_a_workload_file_cannot_write_files(tmp_path: Path) -> None:
    path = workload(tmp_path, f"--time={tmp_path / 'written'}")
    with pytest.raises(WorkloadError, match=r"k\.toml:6: cuda.options: .*add --trust"):
        load_cuda_launch(path)
    found = CliRunner().invoke(cli, ["predict", str(path), "--gpu", "h200"])
    assert found.exit_code != 0 and not (tmp_path / "written").exists()


def test_trust_is_an_option_of_every_command_that_takes_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST_VARIABLE, "")
    for command in ("predict", "compare", "check", "trace", "simulate", "sweep", "tune", "report", "serve"):
        assert "--trust" in [name for each in cli.commands[command].params for name in each.opts]
    CliRunner().invoke(cli, ["predict", "--trust", str(tmp_path / "none.toml")])
    assert load_cuda_launch(workload(tmp_path, "--time=x")).options == ("--time=x",)


def test_python_code_is_announced_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "inputs.py"
    path.write_text("def make(shape, dtype): return 0\n")
    for _ in range(2):
        function_of(path, "make", "here")
    said = capsys.readouterr().err
    assert said.count("runs with your rights") == 1 and str(path) in said
