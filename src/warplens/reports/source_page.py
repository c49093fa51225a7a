"""The source of a kernel with its numbers beside it, and the table of its instructions, as HTML."""

from __future__ import annotations

from html import escape
from typing import Any

from .source import Row, SourceUse, cells_of
from .view import Table

#: A longer source is shown around its executed lines only, with some lines before and after.
MOST_LINES, AROUND = 400, 6


def source_listing(view: Any, anchor: str) -> str:
    """Lines with their numbers, then instructions, which link to their lines."""
    assert isinstance(view, SourceUse)
    parts = []
    if view.text:
        parts.append(f"<h4>{escape(view.source_name)}</h4>{_lines(view, anchor)}")
    parts.append(
        f"<details><summary>Instructions ({view.total_instructions})</summary>{_instructions(view, anchor)}</details>"
    )
    return "".join(parts)


def _head(view: SourceUse, *first: str) -> str:
    heads = [f'<th scope="col">{name}</th>' for name in first]
    return "".join([*heads, *(f'<th scope="col" class="number">{name}</th>' for name in view.columns)])


def _cells(view: SourceUse, row: Row | None) -> str:
    width = len(view.columns)
    if row is None:
        return "<td></td>" * width
    shown = Table(view.columns, (cells_of(row)[:width],)).text()[0]
    return "".join(f'<td class="number">{escape(cell)}</td>' for cell in shown)


def _heat(row: Row | None) -> str:
    """A tint that grows with the time of a line."""
    share = 0.0 if row is None else row.share
    return f' style="--heat:{min(share, 1.0):.3f}"' if share >= 0.005 else ""


def _shown_lines(view: SourceUse, executed: set[int]) -> list[int]:
    total = len(view.text)
    lines = list(range(1, total + 1))
    first = next((number for number in lines if view.text[number - 1].strip()), 1)
    if total <= MOST_LINES:
        return lines[first - 1 :]
    return [number for number in lines if any(number + near in executed for near in range(-AROUND, AROUND + 1))]


def _lines(view: SourceUse, anchor: str) -> str:
    counts = {row.line: row for row in view.lines if row.line}
    rows, before = [], None
    for number in _shown_lines(view, set(counts)):
        if before is not None and number != before + 1:
            rows.append(f'<tr><td class="number">⋮</td><td></td>{_cells(view, None)}</tr>')
        before = number
        row = counts.get(number)
        code = _with_inner(f"<code>{escape(view.text[number - 1].rstrip()) or ' '}</code>", row)
        rows.append(
            f'<tr id="{anchor}-line-{number}"{_heat(row)}><td class="number">{number}</td>'
            f"<td>{code}</td>{_cells(view, row)}</tr>"
        )
    return (
        f'<div class="wide source" tabindex="0"><table><thead><tr>{_head(view, "line", "source")}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _with_inner(code: str, row: Row | None) -> str:
    """A line that unfolds to the lines of headers that the compiler inlined there."""
    if row is None or not row.inner:
        return code
    inner = "".join(
        f"<li>{escape(each.file)}:{each.line}: {100 * each.share:.1f} % of the time</li>" for each in row.inner
    )
    return f"<details><summary>{code}</summary><ul>{inner}</ul></details>"


def _instructions(view: SourceUse, anchor: str) -> str:
    rows = []
    for row in view.instructions:
        line = "" if not row.line else str(row.line)
        link = f'<a href="#{anchor}-line-{row.line}">{line}</a>' if view.text and row.line else line
        rows.append(
            f"<tr{_heat(row)}><td>{row.pc:#06x}</td><td>{link}</td>"
            f"<td><code>{escape(row.opcode)}</code></td>{_cells(view, row)}</tr>"
        )
    more = view.total_instructions - len(view.instructions)
    cut = f'<p class="note">… and {more} more</p>' if more > 0 else ""
    head = _head(view, "PC", "line", "instruction")
    return (
        f'<div class="wide source" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{cut}"
    )
