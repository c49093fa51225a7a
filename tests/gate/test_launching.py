"""Inputs of the gate that launch kernels themselves: Python functions, of Triton say, and whole programs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warplens
from warplens.errors import InputError, WorkloadError
from warplens.gate import programs
from warplens.gate.predicting import snapshots, take
from warplens.gate.programs import program_of
from warplens.machine import load_gpu
from warplens.tomlfile import read_toml

from .making import LAUNCH, SCALE

LAUNCHES = '''\
import numpy as np
import warplens

SOURCE = """{source}"""


def launches(gpu):
    kernel = warplens.cuda(SOURCE, architecture="sm_80" if gpu.startswith("a100") else "sm_90").kernel("scale")
    x = np.ones(2048, np.float32)
    return [kernel.launch(blocks, 256, 2048, 2.0, x, np.empty_like(x)) for blocks in (4, 8)]


def nothing(gpu):
    return []


def broken(gpu):
    raise ValueError("no such shape")
'''
PYTHON = '[python]\nlaunches = "kernels.py:launches"\n'
PROGRAM = '[program]\nsources = ["main.cu"]\narguments = ["1024"]\noptions = ["-Iinclude"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "kernels.py").write_text(LAUNCHES.format(source=SCALE))
    (tmp_path / "python.toml").write_text(PYTHON)
    (tmp_path / "main.cu").write_text('#include "size.h"\n' + SCALE)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "size.h").write_text("#define SIZE 1024\n")
    (tmp_path / "program.toml").write_text(PROGRAM)
    return tmp_path


def test_a_function_launches(folder: Path) -> None:
    gpus = [load_gpu(name) for name in ("h200", "a100")]
    found = snapshots([folder / "python.toml"], gpus, folder)
    assert [(str(each.identity), each.gpu) for each in found] == [
        (name, gpu.name) for gpu in gpus for name in ("scale", "scale#1")
    ]
    assert all(each.seconds > 0 and each.identity.path == "python.toml" for each in found)
    (first, _) = warplens.load_workloads(folder / "python.toml", gpu="h200")
    assert warplens.predict(first, "h200").seconds == pytest.approx(found[0].seconds)


@pytest.mark.parametrize(
    ("function", "message"),
    [("nothing", "must return what it launched"), ("broken", "no such shape"), ("other", "no function 'other'")],
)
def test_functions_that_launch_nothing(folder: Path, function: str, message: str) -> None:
    (folder / "python.toml").write_text(PYTHON.replace(":launches", f":{function}"))
    with pytest.raises(WorkloadError, match=message):
        take(folder / "python.toml", folder, load_gpu("h200"))


def test_launching_needs_a_machine(folder: Path) -> None:
    with pytest.raises(InputError, match="names no machine"):
        warplens.load_workloads(folder / "python.toml")
    with pytest.raises(InputError, match="names no GPU"):
        take(folder / "program.toml", folder, None)


@pytest.fixture
def ran(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Programs that were run; each launches one kernel twice."""
    (folder / "scale.cu").write_text(SCALE)
    text = LAUNCH.replace("grid = [1024]\n", "").replace("262144", "2048")
    (folder / "scale.toml").write_text(text + "\n[[launch]]\ngrid = [4]\n\n[[launch]]\ngrid = [8]\n")
    found: list[dict[str, Any]] = []

    def run(command: list[str], gpus: list[Any], *, output: Path, **how: Any) -> SimpleNamespace:
        found.append({"command": command, **how})
        warplens.trace(folder / "scale.toml", output, gpu=gpus[0])
        return SimpleNamespace(exit_code=0, failures=(), launches=2)

    monkeypatch.setattr(programs, "run_program", run)
    return found


def test_a_program_runs_again_when_a_file_of_it_changes(folder: Path, ran: list[dict[str, Any]]) -> None:
    gpu, path = load_gpu("h200"), folder / "program.toml"
    found = take(path, folder, gpu)
    assert [str(each.identity) for each in found] == ["scale", "scale#1"]
    assert {each.source for each in found} == {"main.cu"}
    assert ran[0]["command"] == ["1024"] and ran[0]["working_folder"] == folder.resolve()
    assert take(path, folder, gpu) == found and len(ran) == 1
    for number, name in enumerate(("include/size.h", "main.cu"), 2):
        with (folder / name).open("a") as file:
            file.write("// more\n")
        take(path, folder, gpu)
        assert len(ran) == number


def test_a_program_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(exit_code=3, failures=(), launches=0)
    monkeypatch.setattr(programs, "run_program", lambda *given, **how: failed)
    with pytest.raises(InputError, match="exit code 3"):
        take(folder / "program.toml", folder, load_gpu("h200"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[program]\n", "give sources"),
        ('[program]\nsources = "main.cu"\n', "list of texts"),
        ('[program]\nsource = ["main.cu"]\n', "unknown key 'program.source'"),
    ],
)
def test_tables_that_name_no_program(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "program.toml").write_text(text)
    with pytest.raises(WorkloadError, match=message):
        program_of(read_toml(tmp_path / "program.toml"))
