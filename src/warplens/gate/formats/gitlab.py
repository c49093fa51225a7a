"""GitLab's code quality report: a list of problems by file and line."""

from __future__ import annotations

from typing import Any

from .. import words
from ..check import CheckResult
from .place import fingerprint, place_of


def code_quality(result: CheckResult) -> list[dict[str, Any]]:
    """One problem for each kernel that became slower; its fingerprint stays while the kernel does."""
    found = []
    for verdict in result.verdicts:
        if verdict.outcome != "slower":
            continue
        file, line = place_of(verdict, result)
        found.append(
            {
                "description": f"{words.headline(verdict)}. {words.reason(verdict)}",
                "check_name": "warplens/slower",
                "fingerprint": fingerprint(verdict),
                "severity": "major" if verdict.fails(result.limit) else "minor",
                "location": {"path": file, "lines": {"begin": line}},
            }
        )
    return found
