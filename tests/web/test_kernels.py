"""Kernels of the page: what is offered, what is held in memory, and when work ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.suite.catalog import SUITE
from warplens.web.errors import Cancelled
from warplens.web.kernels import MOST_USES, Held, Kernel, bundled_kernels
from warplens.web.visitors import MOST_KERNELS, MOST_VISITORS, Visitors
from warplens.workload.load import example_names
from workload.traces import fresh


def counted(name: str, loaded: list[str]) -> Kernel:
    def load(progress):
        loaded.append(name)
        return fresh()

    return Kernel(name, name, "", "", load)


def test_everything_that_ships_is_offered_once() -> None:
    ids = [kernel.id for kernel in bundled_kernels()]
    assert len(ids) == len(set(ids)) == len(SUITE) + len(example_names())


def test_a_kernel_is_loaded_once_and_machines_keep_their_work_apart() -> None:
    loaded: list[str] = []
    held, kernel = Held(), counted("a", loaded)
    one, again, other = held.get(kernel, "h200"), held.get(kernel, "h200"), held.get(kernel, "mdm2020")
    assert one is again and loaded == ["a"]
    assert one.trace is other.trace and one.results is not other.results


def test_the_least_recently_used_is_let_go() -> None:
    loaded: list[str] = []
    held = Held(most=2)
    a, b, c = (counted(name, loaded) for name in "abc")
    for kernel in (a, b, a, c, a, b):
        held.get(kernel, "h200")
    assert loaded == ["a", "b", "c", "b"]
    held.forget(["b"])
    held.get(b, "h200")
    assert loaded[-2:] == ["b", "b"]


def test_large_traces_take_the_room_of_several() -> None:
    loaded: list[str] = []
    size = sum(group.instructions for group in fresh().trace.groups())
    held = Held(most_instructions=int(1.5 * size))
    for name in "aba":
        held.get(counted(name, loaded), "h200")
    assert loaded == ["a", "b", "a"]


def test_what_was_worked_out_does_not_pile_up_for_ever() -> None:
    loaded: list[str] = []
    held, kernel = Held(), counted("a", loaded)
    for _ in range(MOST_USES + 2):
        held.get(kernel, "h200")
    assert loaded == ["a", "a"]


def test_the_last_question_wins_and_all_end_with_the_server() -> None:
    visitors = Visitors(lambda gone: None)
    visitor = visitors.get(None)
    first, other = visitor.ask("answers"), visitor.ask("kernels")
    second = visitor.ask("answers")
    other.check()
    second.check()
    with pytest.raises(Cancelled):
        first.check()
    visitors.closing.set()
    with pytest.raises(Cancelled):
        second.check()


def test_visitors_and_their_kernels_are_forgotten_with_their_folders(tmp_path: Path) -> None:
    gone: list[Path] = []
    visitors = Visitors(lambda items: gone.extend(folder for _, folder in items))
    visitor = visitors.get(None)
    for index in range(MOST_KERNELS + 1):
        visitors.add_kernel(visitor, counted(f"own:{index}", []), tmp_path / str(index))
    assert gone == [tmp_path / "0"] and len(visitor.kernels) == MOST_KERNELS
    for _ in range(MOST_VISITORS):
        visitors.get(None)
    assert len(gone) == MOST_KERNELS + 1
    assert visitors.get(visitor.identity) is not visitor
