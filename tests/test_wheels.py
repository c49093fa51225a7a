"""What the two distributions contain, and what the first offers without the second."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from wheels import Fresh, build_wheels

CORE_BYTES = 4_000_000


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build_wheels(tmp_path_factory.mktemp("wheels"))


def packages(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name.split("/")[0] for name in archive.namelist() if ".dist-info" not in name}


def test_the_core_wheel_is_small_and_has_no_studies(wheels: tuple[Path, Path]) -> None:
    core, studies = wheels
    assert core.stat().st_size < CORE_BYTES
    assert packages(core) == {"warplens"} and packages(studies) == {"warplens_studies"}
    with zipfile.ZipFile(core) as archive:
        names = set(archive.namelist())
    for needed in ("py.typed", "machine/data/h200.toml", "suite/kernels/matmul.cu", "reports/assets/report.js"):
        assert f"warplens/{needed}" in names
    assert any(name.startswith("warplens/workload/papers/") for name in names)


def test_without_the_studies_their_commands_say_what_to_install(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    fresh = Fresh(tmp_path, wheels[:1])
    shown = fresh.run(fresh.command("--help"))
    for name in ("validate", "reproduce"):
        assert name in shown
        assert "warplens-studies" in fresh.run(fresh.command(name, "--help"))
        done = fresh.try_run(fresh.command(name, "--json", "anything"))
        assert done.returncode == 1 and done.stdout == ""
        assert (
            done.stderr
            == f"error: `warplens {name}` needs warplens-studies: python -m pip install warplens-studies\n"
        )


def test_with_the_studies_their_commands_work(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    fresh = Fresh(tmp_path, wheels)
    assert "hong-kim-table2" in fresh.run(fresh.command("reproduce", "--list"))
    assert fresh.run(fresh.command("reproduce", "hong-kim-table2", "-o", "out"))
    assert (fresh.folder / "out" / "hong-kim-table2.csv").exists()
    assert "accelsim" in fresh.run(fresh.command("validate", "--help"))
