"""The answer as a tree of elements: time, limiter, where the time goes, advice and hot lines."""

from __future__ import annotations

from collections.abc import Sequence

from ..categories import CATEGORIES
from ..explanation import Advice, Answer, Counts, Line, words
from ..formatting import show_factor, show_share
from ..models import Prediction
from .elements import Node, node

#: Advice and lines that are shown at once; the rest is folded.
FIRST_ADVICE, FIRST_LINES = 3, 5
#: Parts of the time that the bar names.
_LEAST_SHARE = 0.005
#: Cycles that an access holds the banks from which on they conflict.
_CONFLICT = 1.1


def verdict(answer: Answer) -> Node:
    """Time with its range, limiter, speed of light and occupancy."""
    limit, doubts = words.limit(answer), words.doubts(answer)
    light = [(name, key) for key, name in words.LIGHT_NAMES.items() if key in answer.speed_of_light]
    meters = [_meter(name, answer.speed_of_light[key]) for name, key in light]
    return node(
        "div",
        {"class": "verdict-card"},
        node(
            "div",
            {"class": "said"},
            node("p", {"class": "time"}, node("b", {}, words.time(answer.seconds)), f" {words.time_range(answer)}"),
            node("p", {}, "Limited by ", node("strong", {}, limit)) if limit else None,
            node("p", {"class": "note"}, f"Occupancy {words.occupancy(answer)}"),
            *(node("p", {"class": "note"}, text) for text in doubts),
        ),
        node("div", {"class": "meters"}, *meters, _meter("occupancy", answer.occupancy.achieved)),
    )


def time_bar(prediction: Prediction) -> Node | None:
    """The time by stall category."""
    parts = {name: float(part / prediction.cpi) for name, part in (prediction.stack or {}).items()}
    shown = [(CATEGORIES[name], share) for name, share in parts.items() if share >= _LEAST_SHARE]
    if not shown:
        return None
    bar = [
        node("span", {"style": f"flex-grow:{share:.4f};background:{each.colour}", "title": _told(each.label, share)})
        for each, share in shown
    ]
    legend = [
        node("li", {}, node("span", {"style": f"background:{each.colour}"}), _told(each.label, share))
        for each, share in shown
    ]
    said = "; ".join(_told(each.label, share) for each, share in shown)
    return node(
        "section",
        {"class": "where"},
        node("h3", {}, "Where the time goes"),
        node("div", {"class": "time-bar", "role": "img", "aria-label": said}, *bar),
        node("ul", {"class": "legend"}, *legend),
    )


def advice_list(answer: Answer) -> Node:
    """What to change, the largest gain first."""
    heading = node("h3", {}, "What to change")
    if not answer.advice:
        told = words.closing(answer)
        return node("section", {"class": "advice"}, heading, node("p", {}, f"{told[:1].upper()}{told[1:]}."))
    items = [_advice(each) for each in answer.advice]
    first = node("ol", {}, *items[:FIRST_ADVICE])
    return node("section", {"class": "advice"}, heading, first, _folded("ol", items[FIRST_ADVICE:], "more"))


def hot_lines(answer: Answer) -> Node | None:
    """Source lines by their share of the time, with what their accesses do."""
    lines = [line for line in answer.lines if line.share >= _LEAST_SHARE]
    if not lines:
        return None
    rows = [_line_row(each) for each in lines]
    rest = ", ".join(f"{show_share(share)} {name}" for name, share in answer.rest.items() if share >= _LEAST_SHARE)
    return node(
        "section",
        {"class": "hot"},
        node("h3", {}, "Hot lines"),
        node("table", {"class": "code"}, node("tbody", {}, *rows[:FIRST_LINES])),
        _folded("table", rows[FIRST_LINES:], "more"),
        node("p", {"class": "note"}, f"The rest of the time: {rest}.") if rest else None,
    )


def answer_nodes(answer: Answer) -> list[Node]:
    """All of it, in the order of reading."""
    parts = (verdict(answer), time_bar(answer.prediction), advice_list(answer), hot_lines(answer))
    return [part for part in parts if part is not None]


def _told(label: str, share: float) -> str:
    return f"{label} {show_share(share)}"


def _bar(share: float) -> Node:
    return node("span", {"class": "meter"}, node("span", {"style": f"width:{min(100 * share, 100):.1f}%"}))


def _meter(name: str, share: float) -> Node:
    return node("div", {}, node("span", {}, name), _bar(share), node("b", {}, show_share(share)))


def _advice(each: Advice) -> Node:
    low, high = show_factor(each.speedup_low), show_factor(each.speedup_high)
    now, then = words.time(each.seconds), words.time(each.seconds_after)
    lines = [_line_row(line) for line in each.lines]
    return node(
        "li",
        {"data-rule": each.rule},
        node(
            "div",
            {"class": "gain"},
            node("b", {}, show_factor(each.speedup)),
            node("span", {}, words.between(low, high)),
            node("span", {}, words.between(now, then).replace(" to ", " → ")),
        ),
        node(
            "div",
            {},
            node("p", {"class": "what"}, each.text),
            node("table", {"class": "code"}, node("tbody", {}, *lines)) if lines else None,
            node("p", {}, node("b", {}, "Do: "), each.remedy),
            node("p", {"class": "note"}, "But: ", each.cost, " ", node("code", {"class": "rule"}, each.rule)),
            node("p", {"class": "note"}, f"{words.opinion(each.opinion)}.") if each.opinion is not None else None,
        ),
    )


def _line_row(line: Line) -> Node:
    code = node("code", {}, line.text or " ")
    if line.inner:  # what headers brought in
        inner = node("table", {"class": "code"}, node("tbody", {}, *map(_line_row, line.inner)))
        code = node("details", {}, node("summary", {}, code), inner)
    return node(
        "tr",
        {},
        node("td", {"class": "place"}, words.place(line)),
        node("td", {}, code),
        node("td", {"class": "does"}, _does(line.counts)) if line.counts is not None else None,
        node("td", {"class": "share"}, _bar(line.share), show_share(line.share)),
    )


def _does(counts: Counts) -> str:
    """Sectors of a request against those that would do, bank conflicts, and hit ratios."""
    told = []
    if counts.sectors_per_request is not None and counts.least_sectors is not None:
        sectors, needed = f"{counts.sectors_per_request:.3g}", f"{counts.least_sectors:.3g}"
        wasteful = sectors != needed and counts.sectors_per_request > counts.least_sectors
        unit = "sector" if sectors == "1" else "sectors"
        told.append(f"{sectors} {unit}{f' ({needed} needed)' if wasteful else ''}")
    if counts.conflict_ways is not None and counts.conflict_ways >= _CONFLICT:
        told.append(f"{counts.conflict_ways:.2g}-way conflict")
    ratios = {"L1": counts.l1_hit_ratio, "L2": counts.l2_hit_ratio}
    told += [f"{level} {show_share(ratio)}" for level, ratio in ratios.items() if ratio is not None]
    return " · ".join(each.replace(" ", "\N{NO-BREAK SPACE}") for each in told)


def _folded(tag: str, rows: Sequence[Node], what: str) -> Node | None:
    if not rows:
        return None
    return node("details", {}, node("summary", {}, f"{len(rows)} {what}"), node(tag, {"class": "code"}, *rows))
