"""`warplens convert`: both ways, its summary, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warplens.cli.main import cli, main

DATA = Path(__file__).parents[1] / "frontends" / "accelsim" / "data"
SOURCE = DATA / "saxpy_lowocc.traceg.xz"


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["warplens", "convert", *map(str, arguments)])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def without_progress(text: str) -> str:
    """What is on stderr besides the lines that appear once a conversion takes over two seconds (compiling does)."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(" %"))


@pytest.fixture
def convert(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *arguments: run(capsys, monkeypatch, *arguments)


def test_there_and_back(convert: Any, tmp_path: Path) -> None:
    code, out, err = convert(SOURCE, tmp_path / "a.wlt", "--json")
    assert code == 0 and without_progress(err) == ""
    summary = json.loads(out)
    assert summary["schema"] == 1
    assert summary["instructions"] == 34048 and summary["coverage"] == 1
    assert summary["bytes"] == (tmp_path / "a.wlt").stat().st_size
    (launch,) = summary["launches"]
    assert launch["kernel"] == "saxpy_lowocc" and launch["instructions"] == 34048
    code, out, err = convert(
        tmp_path / "a.wlt", tmp_path / "out", "--json", "--tracer-version", 3, "--compression", "gz"
    )
    assert code == 0 and without_progress(err) == ""
    again = json.loads(out)
    assert {key: again[key] for key in ("warps", "instructions", "coverage")} == {
        key: summary[key] for key in ("warps", "instructions", "coverage")
    }
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["kernel-1.traceg.gz", "kernelslist.g"]
    assert again["bytes"] == sum((tmp_path / "out" / name).stat().st_size for name in names)
    for source in (tmp_path / "out", tmp_path / "out" / "kernelslist.g", tmp_path / "out" / "kernel-1.traceg.gz"):
        code, out, _ = convert(source, tmp_path / "b.wlt", "--force")
        assert code == 0 and "34 048".replace(" ", "\N{THIN SPACE}") in out
    code, _, _ = convert(tmp_path / "out", tmp_path / "plain", "--compression", "none")
    assert code == 0 and (tmp_path / "plain" / "kernel-1.traceg").is_file()


def test_refuses_to_overwrite(convert: Any, tmp_path: Path) -> None:
    (tmp_path / "a.wlt").write_text("mine")
    code, out, err = convert(SOURCE, tmp_path / "a.wlt")
    assert code == 2 and out == "" and "exists" in err and "--force" in err
    assert (tmp_path / "a.wlt").read_text() == "mine"
    assert convert(SOURCE, tmp_path / "a.wlt", "--force")[0] == 0
    (tmp_path / "out").mkdir()
    assert convert(tmp_path / "a.wlt", tmp_path / "out")[0] == 0
    code, _, err = convert(tmp_path / "a.wlt", tmp_path / "out")
    assert code == 2 and "exists" in err
    assert convert(tmp_path / "a.wlt", tmp_path / "out", "--force")[0] == 0


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("absent.wlt", "out", "absent.wlt: no such file"),
        ("absent.traceg", "a.wlt", "no such file"),
        ("absent", "a.wlt", "absent: no such file"),
        ("text", "a.wlt", "text:1: 'hello' is not a command"),
        ("text.wlt", "out", "not a complete warplens trace"),
        ("bad.traceg", "a.wlt", "bad.traceg:1: 'hello' is not a header line"),
        ("text.wlt", "a.wlt", "both .wlt"),
        ("text.wlt", "out.traceg", "OUT is a folder"),
        ("text.wlt", "text", "is not a folder"),
        (".", "a.wlt", "kernelslist.g: no such file"),
    ],
)
def test_bad_input(convert: Any, tmp_path: Path, source: str, target: str, says: str) -> None:
    for name in ("text", "text.wlt", "bad.traceg"):
        (tmp_path / name).write_text("hello\n")
    code, out, err = convert(tmp_path / source, tmp_path / target)
    assert code == 2 and out == "" and says in err and "Traceback" not in err
    assert not (tmp_path / "a.wlt").exists() and not (tmp_path / "out").exists()


def test_bad_options(convert: Any, tmp_path: Path) -> None:
    assert convert(SOURCE, tmp_path / "out", "--tracer-version", 6)[0] == 2
    assert convert(SOURCE, tmp_path / "out", "--compression", "zip")[0] == 2
    assert convert(SOURCE)[0] == 2
    assert "convert" in cli.commands


def test_warns_of_unknown_opcodes_and_missing_blocks(convert: Any, tmp_path: Path) -> None:
    text = (
        "-kernel name = k\n-grid dim = (2,1,1)\n-block dim = (32,1,1)\n-accelsim tracer version = 4\n#BEGIN_TB\n"
        "thread block = 0,0,0\nwarp = 0\ninsts = 2\n0000 1 0 FROB 0 0 0\n0010 1 0 EXIT 0 0 0\n#END_TB\n"
        "#warplens: 1 of the blocks are recorded\n"
    )
    (tmp_path / "kernel-1.traceg").write_text(text)
    code, out, err = convert(tmp_path / "kernel-1.traceg", tmp_path / "a.wlt", "--json")
    assert code == 0 and json.loads(out)["coverage"] == 0.5
    assert "warning: kernel 'k': 50 %" in err and "FROB" in err
    code, _, err = convert(tmp_path / "a.wlt", tmp_path / "out")
    assert code == 0 and "1 of its 2 thread blocks are recorded" in err


def test_says_how_far_it_is_when_it_takes_long(convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.cli.progress.PATIENCE_SECONDS", -1.0)
    code, out, err = convert(SOURCE, tmp_path / "a.wlt", "--json")
    assert code == 0 and "reading" in err and "%" in err
    json.loads(out)
    code, out, err = convert(tmp_path / "a.wlt", tmp_path / "out", "--json")
    assert code == 0 and "writing" in err and "100 %" in err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert convert(tmp_path / "a.wlt", tmp_path / "out", "--force", "--json")[0] == 0


def test_as_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from warplens.cli import main; main()",
            "convert",
            SOURCE,
            tmp_path / "a.wlt",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and without_progress(done.stderr) == ""
    assert json.loads(done.stdout)["instructions"] == 34048
