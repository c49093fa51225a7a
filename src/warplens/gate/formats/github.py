"""Annotations and the job summary of GitHub Actions."""

from __future__ import annotations

import html
from collections.abc import Iterator

from .. import words
from ..check import CheckResult
from .place import place_of

_MARKS = {"slower": "🔴", "faster": "🟢", "same": "⚪", "new": "🆕", "removed": "➖"}


def workflow_commands(result: CheckResult) -> Iterator[str]:
    """Annotations: an error on the line of each kernel that fails, a notice on others that changed."""
    for verdict in result.verdicts:
        if verdict.outcome not in ("slower", "faster"):
            continue
        level = "error" if verdict.fails(result.limit) else "warning" if verdict.outcome == "slower" else "notice"
        file, line = place_of(verdict, result)
        title = f"{verdict.identity}: {words.change(verdict).split(' (')[0]} on {verdict.gpu}"
        text = f"{words.headline(verdict)}\n{words.reason(verdict)}"
        if verdict == result.worst and result.advice is not None:
            text += f"\n{result.advice.text} {result.advice.remedy}"
        yield f"::{level} file={_property(file)},line={line},title={_property(title)}::{_data(text)}"
    for note in result.notes:
        yield f"::notice::{_data(note)}"


def _data(text: str) -> str:
    """Escaped as GitHub's toolkit does it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown(result: CheckResult) -> str:
    """The summary of a job: a table, then what each failing kernel changed, folded."""
    lines = [f"### warplens check: {'slower' if result.failing else 'passed'}", "", words.summary(result), ""]
    lines += ["| | kernel | GPU | time | change |", "|---|---|---|---|---|"]
    for verdict in result.verdicts:
        mark = "❌" if verdict.fails(result.limit) else _MARKS[verdict.outcome]
        texts = map(_plain, (verdict.gpu, words.times(verdict), words.change(verdict)))
        cells = (mark, f"`{verdict.identity}`", *texts)  # what stands in backticks is shown as it is
        lines.append(f"| {' | '.join(_cell(each) for each in cells)} |")
    for verdict in result.failing:
        lines += ["", f"<details><summary>{html.escape(words.headline(verdict), quote=False)}</summary>", ""]
        lines += [f"- {_plain(cause.text)}" for cause in verdict.causes]
        if verdict == result.worst and result.advice is not None:
            lines.append(f"- **{result.advice.rule}**: {_plain(result.advice.text)} {_plain(result.advice.remedy)}")
        lines += ["", "</details>"]
    lines += [f"\n> {_plain(note)}" for note in result.notes]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(text: str) -> str:
    """Source in a sentence must not become HTML or emphasis."""
    for character, escaped in (("&", "&amp;"), ("<", "&lt;"), ("*", "\\*"), ("_", "\\_")):
        text = text.replace(character, escaped)
    return text
