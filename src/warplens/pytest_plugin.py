"""The `warplens_check` fixture: claims about predicted times in a project's own tests.

def test_softmax(warplens_check):
    kernel = warplens_check("kernels/softmax.toml")
    assert kernel.faster_than("12us", gpu="h100")
    assert kernel.not_slower_than_baseline(gpu="h100")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .gate.project import Project
    from .gate.snapshot import Snapshot


@dataclass(frozen=True)
class Claim:
    """Whether a claim about a kernel holds; a test that fails shows the reason."""

    holds: bool
    reason: str

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{'holds' if self.holds else 'fails'}: {self.reason}>"


@dataclass(frozen=True)
class CheckedKernel:
    """The kernel of an input of the project."""

    project: Project
    path: Path
    kernel: str | None = None

    def snapshot(self, gpu: str) -> Snapshot:
        """The prediction on a GPU; from the result cache where nothing changed."""
        from .errors import InputError
        from .gate.predicting import take
        from .machine import load_gpu

        found = take(self.path, self.project.root, load_gpu(gpu))
        chosen = [each for each in found if self.kernel in (None, each.identity.kernel)]
        if len(chosen) != 1:
            names = ", ".join(str(each.identity) for each in found)
            raise InputError(f"{self.path}: has {len(found)} launches ({names}); name one: kernel=NAME")
        return chosen[0]

    def seconds(self, gpu: str) -> float:
        return self.snapshot(gpu).seconds

    def faster_than(self, time: str | float, *, gpu: str) -> Claim:
        """Whether the predicted time is below a limit: seconds, or a text such as `12us`."""
        from .formatting import show_seconds
        from .units import parse_number

        limit = float(parse_number(time, "s")) if isinstance(time, str) else float(time)
        found = self.snapshot(gpu)
        told = f"{found.identity} takes {show_seconds(found.seconds, 3)} on {found.gpu}"
        return Claim(found.seconds < limit, f"{told}, the limit is {show_seconds(limit, 3)}")

    def not_slower_than_baseline(self, *, gpu: str, fail_above: str | None = None) -> Claim:
        """Whether the kernel is as fast as the committed baseline says, within the project's limit or another."""
        from .gate import words
        from .gate.baseline import read_baseline
        from .gate.project import part_of
        from .gate.verdicts import verdict

        now = self.snapshot(gpu)
        path = self.project.root / self.project.baseline
        before = read_baseline(path).by_key().get((now.identity, now.gpu))
        if before is None:
            remedy = f"run `warplens check --update --gpu {now.gpu}`"
            return Claim(False, f"{path.name} has no {now.identity} on {now.gpu}; {remedy}")
        found = verdict(before, now)
        limit = self.project.fail_above if fail_above is None else part_of(fail_above)
        reason = f"{words.headline(found)}; {words.reason(found)}" if found.causes else words.headline(found)
        return Claim(not found.fails(limit), reason)


@pytest.fixture
def warplens_check(request: pytest.FixtureRequest) -> Callable[..., CheckedKernel]:
    """A function from an input of the project (and the name of a kernel in it) to its claims."""
    from .gate.project import load_project

    project = load_project(request.config.rootpath)

    def checked(path: str | Path, kernel: str | None = None) -> CheckedKernel:
        return CheckedKernel(project, project.root / path, kernel)

    return checked
