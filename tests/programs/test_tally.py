"""What a program's launches add up to."""

from dataclasses import replace

import pytest

from warplens.errors import InputError
from warplens.frontends.runtime import LaunchInfo
from warplens.machine import load_gpu
from warplens.programs import run as programs
from warplens.programs.tally import Recorded, Tally
from warplens.programs.timeline import Slice

INFO = LaunchInfo(0, 0, "k", "k()", (1, 1, 1), (32, 1, 1), 16, 0, 0)


@pytest.fixture
def tally():
    return Tally([load_gpu("h200")], None, lambda text: None)


def test_a_launch_takes_the_time_of_the_nearest_one_in_proportion(tally):
    assert tally._seconds(INFO) is None
    few, many = (replace(INFO, instructions=each) for each in (1, 100))
    tally.recorded_launches += [Recorded(few, (1.0,), 0), Recorded(many, (30.0,), 1)]
    assert tally._seconds(replace(INFO, instructions=3)) == (3.0,)
    assert tally._seconds(replace(INFO, instructions=90)) == (27.0,)


def test_time_between_events_that_were_recorded(tally):
    tally.recorded(0, 1, 2)
    assert tally.elapsed(0, 1, 2) is None and tally.elapsed(0, 2, 1) is None
    tally.recorded(0, 2, 2)
    assert tally.elapsed(0, 1, 2) >= 0.0


def test_gaps_are_when_nothing_runs(tally):
    line = tally._timeline(0, 0)
    spans = ((0.0, 4.0, 0), (1.0, 1.0, None), (3.0, 3.0, 1), (8.0, 2.0, 2))
    line.slices += [Slice("x", 0, 2, start, length, launch, 8) for start, length, launch in spans]
    found = programs._total(tally, load_gpu("h200"), 0)
    assert (found.kernel_seconds, found.elapsed_seconds, found.gap_seconds) == (9.0, 10.0, 2.0)


def test_a_program_is_compiled_for_the_first_gpu(monkeypatch, tmp_path):
    asked = []

    def compiled(sources, folder, stand_in, architecture, options):
        asked.append(architecture)
        return tmp_path / "program"

    def refuse(program):
        asked.append(program)
        raise InputError("enough")

    monkeypatch.setattr(programs, "build_stand_in", lambda: tmp_path)
    monkeypatch.setattr(programs, "compile_program", compiled)
    monkeypatch.setattr(programs, "check_libraries", refuse)
    with pytest.raises(InputError, match="enough"):
        programs.run_program(["--size", "4"], [load_gpu("h200"), load_gpu("a100")], sources=[tmp_path / "x.cu"])
    assert asked == [90, str(tmp_path / "program")]


def test_a_launch_that_takes_long_tells_how_far_it_is(monkeypatch):
    said = []
    tally = Tally([load_gpu("h200")], None, said.append)
    tally.running(INFO, 0, 400)
    tally.running(INFO, 100, 400)
    assert said == []
    monkeypatch.setattr("warplens.programs.tally.TOLD_EVERY_SECONDS", 0.0)
    tally.running(INFO, 100, 400)
    tally.running(replace(INFO, index=1), 1, 400)
    assert said == ["launch 0, k(): 25 % of 400 thread blocks"]
