"""Where a verdict belongs in the project's files."""

from __future__ import annotations

from pathlib import PurePosixPath

from ...result_cache import content_hash
from ..check import CheckResult
from ..verdicts import Verdict


def place_of(verdict: Verdict, result: CheckResult) -> tuple[str, int]:
    """(file, line) from the root of the repository: the line of source that lost most, else the input itself."""
    snapshot, line = verdict.snapshot, verdict.line
    file = PurePosixPath(result.folder, snapshot.source or snapshot.identity.path).as_posix()
    known = snapshot.source and line is not None and line.line and line.file in ("", snapshot.source_name)
    return file, line.line if known and line is not None else 1


def fingerprint(verdict: Verdict) -> str:
    """The same for a kernel on a GPU in every run, so that tools know what they have shown before."""
    return content_hash([verdict.identity.path, str(verdict.identity), verdict.gpu])[:32]
