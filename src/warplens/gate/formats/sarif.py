"""SARIF 2.1.0, which code scanning shows beside the lines of a pull request."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ..._version import __version__
from .. import words
from ..check import CheckResult
from ..verdicts import Verdict
from .place import fingerprint, place_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULE = "slower"


def sarif(result: CheckResult) -> dict[str, Any]:
    """One result for each kernel that became slower: an error where the gate fails, else a warning."""
    rule = {
        "id": _RULE,
        "name": "KernelIsSlower",
        "shortDescription": {"text": "A kernel is predicted to be slower than before."},
        "defaultConfiguration": {"level": "error"},
    }
    slower = [each for each in result.verdicts if each.outcome == "slower"]
    run = {
        "tool": {"driver": {"name": "warplens", "version": __version__, "rules": [rule]}},
        "columnKind": "unicodeCodePoints",
        "results": [_finding(each, result) for each in slower],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _finding(verdict: Verdict, result: CheckResult) -> dict[str, Any]:
    file, line = place_of(verdict, result)
    text = f"{words.headline(verdict)}. {words.reason(verdict)}."
    if verdict == result.worst and result.advice is not None:
        text += f" {result.advice.text} {result.advice.remedy}"
    place = {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": line}}
    return {
        "ruleId": _RULE,
        "ruleIndex": 0,
        "level": "error" if verdict.fails(result.limit) else "warning",
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"kernel/v1": fingerprint(verdict)},
        "properties": {"gpu": verdict.gpu, "change": verdict.change},
    }
