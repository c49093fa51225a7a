"""Two snapshots of a kernel: faster, slower or the same, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from ..categories import CATEGORIES
from ..explanation import Line
from ..explanation.paired import paired_change, told_apart
from ..formatting import show_number, show_seconds
from ..traces import CLASS_NAMES
from .snapshot import BANK_CYCLES, LOCAL_BYTES, Identity, Snapshot

Outcome = Literal["slower", "faster", "same", "new", "removed"]

#: Counts that say how a kernel is launched and what it takes of an SM, with words for a change of each and its kind.
OCCUPANCY, REGISTERS = "warps per SM", "registers per thread"
SHARED_BYTES = "shared memory per block, bytes"
_RESOURCES = {
    OCCUPANCY: ("warps per SM (occupancy)", "occupancy"),
    REGISTERS: ("registers per thread", "registers"),
    "threads per block": ("threads per block", "launch"),
    "thread blocks": ("thread blocks", "launch"),
    SHARED_BYTES: ("bytes of shared memory per block", "launch"),
}
_TRAFFIC = {
    "sectors asked of the L1": "sectors asked of the L1",
    "sectors asked of the L2": "sectors asked of the L2",
    "DRAM bytes": "DRAM bytes",
    BANK_CYCLES: "cycles in which banks of shared memory serve requests",
}
#: Counts that change by less are no cause.
LEAST_COUNT = 0.01
#: Parts of the time that change by less than this part of it are no cause.
LEAST_TIME = 0.005
_MOST_CLASSES = 3
#: How much lines must resemble each other to be versions of one.
_ALIKE = 0.5


@dataclass(frozen=True)
class Cause:
    """One thing that changed with a kernel's time."""

    kind: Literal[
        "workload", "spills", "occupancy", "registers", "launch", "stall", "line", "sectors", "instructions"
    ]
    text: str
    before: float
    after: float
    line: Line | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "text": self.text, "before": self.before, "after": self.after}
        if self.line is not None:
            found |= {"file": self.line.file, "line": self.line.line}
        return found


@dataclass(frozen=True)
class Verdict:
    """A kernel on a GPU, before and after. Changes are parts of the time before: 0.14 is 14 % slower."""

    outcome: Outcome
    before: Snapshot | None
    after: Snapshot | None
    change: float = 0.0
    change_low: float = 0.0
    change_high: float = 0.0
    causes: tuple[Cause, ...] = ()

    @property
    def is_renamed(self) -> bool:
        """Whether it has another name than before, or lies elsewhere."""
        return self.before is not None and self.after is not None and self.before.identity != self.after.identity

    @property
    def snapshot(self) -> Snapshot:
        """The newer one that there is."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def identity(self) -> Identity:
        return self.snapshot.identity

    @property
    def gpu(self) -> str:
        return self.snapshot.gpu

    @property
    def line(self) -> Line | None:
        """The line that lost most time, else the one that takes most."""
        found = next((cause.line for cause in self.causes if cause.line is not None), None)
        lines = self.snapshot.lines
        return found or (lines[0] if lines else None)

    def fails(self, limit: float) -> bool:
        return self.outcome == "slower" and self.change > limit

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.identity.path,
            "kernel": self.identity.kernel,
            "launch": self.identity.launch,
            "gpu": self.gpu,
            "outcome": self.outcome,
            "seconds_before": self.before and self.before.seconds,
            "seconds": self.after and self.after.seconds,
            "change": self.change,
            "change_low": self.change_low,
            "change_high": self.change_high,
            "causes": [cause.to_dict() for cause in self.causes],
        }


def verdict(before: Snapshot, after: Snapshot) -> Verdict:
    """Compare two snapshots; a change that the model cannot tell from none is none."""
    change, low, high = paired_change(before.timing, after.timing, same_launch=before.launched_as(after))
    outcome: Outcome = "same" if not told_apart(change, low, high) else "slower" if change > 0.0 else "faster"
    causes = () if outcome == "same" else tuple(causes_of(before, after))
    return Verdict(outcome, before, after, change, low, high, causes)


def verdicts(before: Iterable[Snapshot], after: Iterable[Snapshot]) -> list[Verdict]:
    """Compare all kernels on all GPUs: those there are now, then those that are gone.

    A kernel that is gone and a new one are the same one where the file stayed or the name did, and nothing else
    could be meant.
    """
    old, now = {(each.identity, each.gpu): each for each in before}, list(after)
    pairs = {key: old.pop(key) for each in now if (key := (each.identity, each.gpu)) in old}
    for alike in (_same_file, _same_name):
        gone, new = (_single(alike, each) for each in (old.values(), (e for e in now if _key(e) not in pairs)))
        for place in gone.keys() & new.keys():
            pairs[_key(new[place])] = old.pop(_key(gone[place]))
    found = [verdict(pairs[_key(each)], each) if _key(each) in pairs else Verdict("new", None, each) for each in now]
    return [*found, *(Verdict("removed", each, None) for each in old.values())]


def _key(snapshot: Snapshot) -> tuple[Identity, str]:
    return snapshot.identity, snapshot.gpu


def _same_file(snapshot: Snapshot) -> tuple[Any, ...]:
    return snapshot.identity.path, snapshot.identity.launch, snapshot.gpu


def _same_name(snapshot: Snapshot) -> tuple[Any, ...]:
    return snapshot.identity.kernel, snapshot.identity.launch, snapshot.gpu


def _single(alike: Callable[[Snapshot], Any], snapshots: Iterable[Snapshot]) -> dict[Any, Snapshot]:
    """Snapshots that no other one is like."""
    found: dict[Any, list[Snapshot]] = {}
    for each in snapshots:
        found.setdefault(alike(each), []).append(each)
    return {place: each[0] for place, each in found.items() if len(each) == 1}


def causes_of(before: Snapshot, after: Snapshot) -> Iterator[Cause]:
    """What changed with the time, in the order in which one asks: resources, waits, lines, traffic, instructions."""
    if before.arguments and after.arguments and before.arguments != after.arguments:
        yield Cause("workload", "the arguments of the launch are others than before", 0.0, 0.0)
    old, new = before.counts.get(LOCAL_BYTES, 0.0), after.counts.get(LOCAL_BYTES, 0.0)
    if old != new:
        text = f"local memory: {new:g} bytes per thread, {old:g} before (spills, arrays indexed at run time)"
        yield Cause("spills", text, old, new)
    resources = {name: tuple(_count(before, after, name, *told)) for name, told in _RESOURCES.items()}
    if not resources[OCCUPANCY]:  # they cost time by warps that do not fit, and by spills
        resources.pop(SHARED_BYTES)
        if old == new:
            resources.pop(REGISTERS)
    for found in resources.values():
        yield from found
    yield from _stalls(before, after)
    yield from _lines(before, after)
    for name, words in _TRAFFIC.items():
        yield from _count(before, after, name, words, "sectors")
    yield from _instructions(before, after)


def _count(before: Snapshot, after: Snapshot, name: str, words: str, kind: Any) -> Iterator[Cause]:
    old, new = before.counts.get(name, 0.0), after.counts.get(name, 0.0)
    if abs(new - old) > LEAST_COUNT * max(old, new):
        yield Cause(kind, f"{words}: {show_number(new)}, {show_number(old)} before", old, new)


def _stalls(before: Snapshot, after: Snapshot) -> Iterator[Cause]:
    """The category that changed most in the direction of the whole, and what warps do in that time."""
    sign = 1.0 if after.seconds >= before.seconds else -1.0
    old, new = before.timing.causes, after.timing.causes
    changes = {name: sign * (new.get(name, 0.0) - old.get(name, 0.0)) for name in CATEGORIES}
    worst = max(changes, key=changes.__getitem__)
    if changes[worst] > LEAST_TIME * before.seconds:
        who = "an SM" if CATEGORIES[worst].group == "idle" else "a warp"
        text = f"{_signed(sign * changes[worst])} in which {who} {CATEGORIES[worst].sentence}"
        yield Cause("stall", text, old.get(worst, 0.0), new.get(worst, 0.0))


def _lines(before: Snapshot, after: Snapshot) -> Iterator[Cause]:
    """The line that changed most in the direction of the whole."""
    sign = 1.0 if after.seconds >= before.seconds else -1.0
    old, new = _times(before), _times(after)
    known = _matched(old, new)
    changes = [(sign * (seconds - old.get(known.get(text, ""), 0.0)), text) for text, seconds in new.items() if text]
    if not changes or max(changes)[0] <= LEAST_TIME * before.seconds:
        return
    change, text = max(changes)
    line = next(each for each in after.lines if each.text == text)
    place = f"{line.file}:{line.line}" if line.file else f"line {line.line}"
    yield Cause("line", f"{_signed(sign * change)} at {place}: {text}", new[text] - sign * change, new[text], line)


def _times(snapshot: Snapshot) -> dict[str, float]:
    """Seconds by the text of lines."""
    found: dict[str, float] = {}
    for line in snapshot.lines:
        found[line.text] = found.get(line.text, 0.0) + line.share * snapshot.seconds
    return found


def _matched(old: Iterable[str], new: Iterable[str]) -> dict[str, str]:
    """New lines to old ones: those with the same text, and of the rest those that resemble each other."""
    found = {text: text for text in new if text in old}
    rest = [text for text in old if text not in found]
    for text in new:
        if text not in found and (close := get_close_matches(text, rest, 1, _ALIKE)):
            found[text] = close[0]
            rest.remove(close[0])
    return found


def _instructions(before: Snapshot, after: Snapshot) -> Iterator[Cause]:
    """The classes of instructions whose number changed most."""
    changes = []
    for name in CLASS_NAMES:
        old, new = before.counts.get(name, 0.0), after.counts.get(name, 0.0)
        if abs(new - old) > LEAST_COUNT * max(before.counts.get("warp instructions", 0.0), 1.0):
            changes.append((abs(new - old), name, old, new))
    for _, name, old, new in sorted(changes, reverse=True)[:_MOST_CLASSES]:
        text = f"{name} instructions of warps: {show_number(new)}, {show_number(old)} before"
        yield Cause("instructions", text, old, new)


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '−'}{show_seconds(abs(seconds), 3)}"
