"""Other revisions of a project, checked out by git into a folder that goes again."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError


@dataclass(frozen=True)
class Commit:
    """A commit: its full and short name, when it was made, and its subject."""

    name: str
    short: str
    date: str
    subject: str


@dataclass(frozen=True)
class Repository:
    """A git repository with a working tree."""

    root: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        try:
            return cls(Path(_git(folder, "rev-parse", "--show-toplevel").strip()))
        except _GitError:
            raise InputError(
                f"{folder}: lies in no git repository, so there are no revisions to compare with; "
                "use a baseline instead: `warplens check --update`, then `warplens check`"
            ) from None

    @property
    def is_dirty(self) -> bool:
        """Whether files that git knows have changes that are not committed."""
        return bool(_git(self.root, "status", "--porcelain", "--untracked-files=no").strip())

    def commit(self, name: str) -> Commit:
        """The commit of a name; one that git does not know is an error with a remedy."""
        if name.startswith("-"):
            raise InputError(f"{name!r} is no revision; write a branch, a tag or a commit")
        try:
            found = _git(self.root, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").split()[-1]
        except _GitError:
            shallow = _git(self.root, "rev-parse", "--is-shallow-repository").strip() == "true"
            remedy = (
                "this clone is shallow: fetch it first (actions/checkout: fetch-depth: 0)"
                if shallow
                else "`git fetch` it, or name a branch, a tag or a commit that `git log` shows"
            )
            raise InputError(f"git knows no revision {name!r} here; {remedy}") from None
        return self.commits(found, 1)[0]

    def commits(self, names: str, most: int | None = None) -> list[Commit]:
        """Commits of a branch (`HEAD`) or between two (`GOOD..BAD`), the oldest first; of merges the first parent."""
        limit = [] if most is None else [f"--max-count={most}"]
        arguments = ["--first-parent", *limit, "--format=%H%x00%h%x00%cs%x00%s", "--end-of-options", names, "--"]
        shown = _git(self.root, "log", *arguments)
        return [Commit(*line.split("\0", 3)) for line in reversed(shown.splitlines())]

    @contextmanager
    def checked_out(self, commit: Commit) -> Iterator[Path]:
        """A folder with the files of a commit; the working tree is left alone."""
        with (
            tempfile.TemporaryDirectory(prefix="warplens-", ignore_cleanup_errors=True) as folder,
            self._beside(commit.name, Path(folder) / self.root.name) as place,
        ):
            yield place

    @contextmanager
    def _beside(self, commit: str, place: Path) -> Iterator[Path]:
        """A worktree at another place, with those submodules that are here too: nothing is fetched."""
        try:
            _git(self.root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        except _GitError as error:
            raise InputError(
                f"git cannot check out {commit[:7]} of {self.root} into {place}: {error}; "
                "if this is a submodule, fetch its commits first"
            ) from None
        try:
            with ExitStack() as inner:
                for path, name in self._submodules(commit):
                    inner.enter_context(Repository(self.root / path)._beside(name, place / path))
                yield place
        finally:
            _git(self.root, "worktree", "remove", "--force", str(place))

    def _submodules(self, commit: str) -> Iterator[tuple[str, str]]:
        """(Path, commit) of the submodules of a commit that are here too."""
        for line in _git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0"):
            entry, _, path = line.partition("\t")
            if entry.startswith("160000 ") and (self.root / path / ".git").exists():
                yield path, entry.split()[2]


class _GitError(Exception):
    """What git said."""


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, encoding="utf-8", check=False
        )
    except FileNotFoundError:
        raise InputError(
            "git is not installed, so there are no revisions to compare with; install it, or use a baseline: "
            "`warplens check --update`, then `warplens check`"
        ) from None
    if done.returncode:
        raise _GitError(" ".join(done.stderr.split()) or f"git {arguments[0]} failed")
    return done.stdout
