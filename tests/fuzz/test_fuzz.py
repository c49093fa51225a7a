"""Mutated inputs of every kind end in a clean error or a result; never in a traceback, a hang or another number."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import reliability
from .engine import fuzz, problem
from .kinds import kinds

CASES = Path(__file__).parent / "cases"
#: Cases of each kind in the short run; readers that take long have fewer.
FEW = {"workload": 40, "messages": 20, "nsight-rep": 40, "ptx": 10, "accelsim": 40, "prediction": 8}


@pytest.mark.parametrize("name", kinds())
def test_sound_inputs_are_read(name: str, tmp_path: Path) -> None:
    kind = kinds()[name]
    for number, content in enumerate(kind.sound(tmp_path)):
        path = tmp_path / f"{number}{kind.suffix}"
        path.write_bytes(content)
        kind.read(path)


@pytest.mark.parametrize("name", kinds())
def test_mutated_inputs_never_break_the_reader(name: str, tmp_path: Path) -> None:
    done, bad = fuzz(kinds()[name], tmp_path, seed=24, cases=FEW.get(name, 120), seconds=3)
    assert done and not bad, "\n".join(f"{each.why}\n{each.content[:300]!r}" for each in bad)


def test_the_page_on_reliability_has_the_committed_counts() -> None:
    assert reliability.PAGE.read_text() == reliability.page(reliability.load())


@pytest.mark.parametrize("path", sorted(CASES.glob("*@*")), ids=lambda path: path.name)
def test_cases_that_were_bad_once(path: Path, tmp_path: Path) -> None:
    """Files are called KIND@what-was-wrong."""
    kind = kinds().get(path.name.split("@")[0])
    if kind is None:
        pytest.skip("this system has no such input")
    (tmp_path / f"sound{kind.suffix}").write_bytes(kind.sound(tmp_path)[0])
    sound = kind.read(tmp_path / f"sound{kind.suffix}")  # its code is compiled now, not in the time of the case
    assert problem(kind, path.read_bytes(), tmp_path, sound) is None
