"""The gate: a project's kernels now, against a baseline or another revision."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._version import __version__
from ..api import JSON_SCHEMA, place
from ..errors import InputError
from ..explanation import Advice, explain
from ..frontends.cuda.compile import compiler_version
from ..machine import Gpu, load_gpu
from .baseline import baseline_of, mismatches, read_baseline, updated, write_baseline
from .predicting import launched, relative, snapshots
from .project import Project, load_project, locate
from .revisions import Repository
from .snapshot import Snapshot
from .verdicts import Verdict, verdicts

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CheckResult:
    """The verdicts of a check, those that fail first, and the first advice for the worst of them."""

    verdicts: tuple[Verdict, ...]
    #: What the kernels are compared with, in words.
    against: str
    limit: float
    notes: tuple[str, ...] = ()
    advice: Advice | None = None
    #: Where the project lies in its repository, as other tools know its files from there.
    folder: str = ""

    @property
    def failing(self) -> tuple[Verdict, ...]:
        return tuple(each for each in self.verdicts if each.fails(self.limit))

    @property
    def worst(self) -> Verdict | None:
        return max(self.failing, key=lambda each: each.change, default=None)

    def count(self, outcome: str) -> int:
        return sum(each.outcome == outcome for each in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": JSON_SCHEMA,
            "version": __version__,
            "against": self.against,
            "fail_above": self.limit,
            "failed": bool(self.failing),
            "verdicts": [{**each.to_dict(), "fails": each.fails(self.limit)} for each in self.verdicts],
            "notes": list(self.notes),
            "advice": self.advice and self.advice.to_dict(),
        }


@dataclass(frozen=True)
class Scope:
    """What is to be predicted: inputs of a project on some GPUs. No GPU stands for the one that an input names."""

    project: Project
    paths: tuple[Path, ...]
    gpus: tuple[Gpu | None, ...]
    #: Whether those are all inputs of the project.
    all_inputs: bool
    #: What names of kernels must match.
    kernel: re.Pattern[str] | None = None
    #: What a command line named.
    given: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether that is all of the project, on all its GPUs."""
        usual = {load_gpu(name).name for name in self.project.gpus}
        return self.all_inputs and usual <= self._gpu_names

    @property
    def _gpu_names(self) -> set[str]:
        return {gpu.name for gpu in self.gpus if gpu is not None}

    def snapshots(self, progress: Progress | None = None) -> list[Snapshot]:
        found = snapshots(self.paths, self.gpus, self.project.root, progress)
        chosen = self._chosen(found)
        if found and not chosen and self.kernel is not None:
            names = ", ".join(dict.fromkeys(each.identity.kernel for each in found))
            raise InputError(f"--kernel {self.kernel.pattern}: no kernel has such a name; the project has {names}")
        return chosen

    def snapshots_at(self, root: Path, folder: Path, progress: Progress | None = None) -> list[Snapshot]:
        """The same inputs in another checkout of the repository at `root`."""
        paths = list(locate(self.paths, root, folder))
        return self._chosen(snapshots(paths, self.gpus, self._inside(root, folder), progress))

    def snapshots_before(
        self, root: Path, folder: Path, progress: Progress | None = None
    ) -> tuple[list[Snapshot], dict[str, InputError]]:
        """The inputs of another checkout, those that are gone too, and why some of them cannot be predicted."""
        inside, failed = self._inside(root, folder), dict[Path, InputError]()
        kept = list(locate(self.paths, root, folder))
        given = [folder / Path(name).resolve().relative_to(root.resolve()) for name in self.given]
        settings = load_project(inside) if inside.is_dir() else self.project
        settings = settings if settings.file else replace(self.project, root=inside)
        there = settings.existing_inputs(given)
        paths = dict.fromkeys((*kept, *there))
        found = self._chosen(snapshots(list(paths), self.gpus, inside, progress, failed))
        if failed and not found:
            raise next(iter(failed.values()))
        return found, {relative(path, inside): error for path, error in failed.items()}

    def _inside(self, root: Path, folder: Path) -> Path:
        """The folder of the project in another checkout."""
        return folder / self.project.root.resolve().relative_to(root.resolve())

    def _chosen(self, found: list[Snapshot]) -> list[Snapshot]:
        if self.kernel is None:
            return found
        return [each for each in found if self.kernel.search(each.identity.kernel)]

    def covers(self, snapshot: Snapshot) -> bool:
        """Whether a kept snapshot is one that would be predicted, if its kernel were still there."""
        known = {relative(path, self.project.root) for path in self.paths}
        meant = (not self._gpu_names or snapshot.gpu in self._gpu_names) and (
            self.all_inputs or snapshot.identity.path in known
        )
        return meant and bool(self._chosen([snapshot]))


def scope_of(
    project: Project,
    given: Sequence[str] = (),
    gpus: Sequence[str] = (),
    kernel: re.Pattern[str] | None = None,
) -> Scope:
    """What a command line asks for, or else the settings of the project."""
    names = tuple(gpus) or project.gpus
    machines: tuple[Gpu | None, ...] = tuple(load_gpu(name) for name in names) or (None,)
    return Scope(project, tuple(project.inputs(given)), machines, not given, kernel, tuple(given))


def check_baseline(scope: Scope, path: Path, limit: float, progress: Progress | None = None) -> CheckResult:
    """Compare with a committed baseline. If it has a kernel that the project lacks, one of them is old: an error."""
    kept = read_baseline(path)
    notes = mismatches(kept, [gpu for gpu in scope.gpus if gpu is not None], compiler_version(), path)
    now = scope.snapshots(progress)
    found = verdicts([each for each in kept.snapshots if scope.covers(each)], now)
    gone = [each for each in found if each.outcome == "removed" or each.is_renamed]
    if gone:
        new = dict.fromkeys(_in_words(each.after) for each in found if each.outcome == "new" or each.is_renamed)
        renamed = f" (renamed to {' or '.join(new)}?)" if new else ""
        names = ", ".join(dict.fromkeys(_in_words(each.before) for each in gone))
        raise InputError(
            f"{path}: has {names}, which the project lacks{renamed}; if that is meant, run `warplens check --update`"
        )
    return _result(scope, found, f"the baseline {path.name}", limit, notes)


def _in_words(found: Snapshot | None) -> str:
    assert found is not None
    return f"{found.identity} of {found.identity.path}"


def check_revision(scope: Scope, name: str, limit: float, progress: Progress | None = None) -> CheckResult:
    """Compare with another revision, which is checked out beside the working tree and predicted too."""
    repository = Repository.around(scope.project.root)
    commit = repository.commit(name)
    notes = ["the working tree has uncommitted changes; they are part of what is checked"] * repository.is_dirty
    with repository.checked_out(commit) as folder:
        try:
            before, failed = scope.snapshots_before(repository.root, folder, progress)
        except InputError as error:
            raise InputError(f"at {name}: {there(error, folder)}") from None
        notes += [
            f"{path} cannot be predicted at {name}, so nothing is compared with it: {there(error, folder)}"
            for path, error in failed.items()
        ]
    found = verdicts(before, scope.snapshots(progress))
    renamed = [each for each in found if each.is_renamed]
    notes += dict.fromkeys(f"{_in_words(each.after)} is compared with {_in_words(each.before)}" for each in renamed)
    return _result(scope, found, f"{name} ({commit.short})", limit, notes)


def there(error: InputError, folder: Path) -> str:
    """What went wrong in a checkout that goes again, with paths from its root."""
    return str(error).replace(f"{folder}/", "")


def update_baseline(scope: Scope, path: Path, progress: Progress | None = None) -> list[Verdict]:
    """Write the baseline anew, or the part of it that is predicted; what changed against the old one."""
    old = read_baseline(path) if path.exists() else None
    machines = [gpu for gpu in scope.gpus if gpu is not None]
    if old is not None and not scope.whole:
        mismatches(old, machines, compiler_version(), path)
    now = scope.snapshots(progress)
    new = updated(old, baseline_of(now, machines, compiler_version()), whole=scope.whole)
    write_baseline(path, new)
    before = () if old is None else [each for each in old.snapshots if scope.whole or scope.covers(each)]
    return verdicts(before, now)


def _result(scope: Scope, found: list[Verdict], against: str, limit: float, notes: Sequence[str]) -> CheckResult:
    order = sorted(found, key=lambda each: (not each.fails(limit), -each.change if each.fails(limit) else 0.0))
    made = CheckResult(tuple(order), against, limit, tuple(notes), folder=scope.project.folder)
    if made.worst is None:
        return made
    return replace(made, advice=first_advice(scope, made.worst))


def first_advice(scope: Scope, worst: Verdict) -> Advice | None:
    """What to change first in a kernel that became slower: at the line that lost most, where there is such advice."""
    path = scope.project.root / worst.identity.path
    gpu = next((each for each in scope.gpus if each is not None and each.name == worst.gpu), None)
    with launched(path, gpu) as workloads:
        for workload in workloads:
            if (workload.name, workload.launch_index) == (worst.identity.kernel, worst.identity.launch):
                advice = explain(*place(workload, gpu)).advice
                number = worst.line.line if worst.line else 0
                there = (each for each in advice if number in [line.line for line in each.lines])
                return next(there, advice[0] if advice else None)
    return None
