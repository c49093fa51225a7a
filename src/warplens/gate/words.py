"""Verdicts in words, for terminals, annotations and reports alike."""

from __future__ import annotations

from ..explanation.words import between
from ..formatting import show_seconds
from .check import CheckResult
from .verdicts import Cause, Verdict

#: Kinds of causes by what a reader can act on: the first one is named in a headline.
_TELLING = ("workload", "spills", "occupancy", "launch", "line", "stall", "sectors", "instructions", "registers")

#: Whether more of what a kind counts takes more time, or less.
_COSTS = {"spills": 1, "registers": 1, "occupancy": -1, "sectors": 1}


def percent(part: float) -> str:
    """`14`; one more digit below 10 %."""
    value = 100.0 * abs(part)
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def times(verdict: Verdict) -> str:
    """`41.2 → 47.0 µs`, or one time where it is the same."""
    shown = [show_seconds(each.seconds, 3) for each in (verdict.before, verdict.after) if each is not None]
    if shown[0] == shown[-1]:
        return shown[0]
    return between(*shown).replace(" to ", " → ")


def change(verdict: Verdict) -> str:
    """`14 % slower (9.1 to 20 %)`, or the outcome alone."""
    if verdict.outcome not in ("slower", "faster"):
        return verdict.outcome
    low, high = sorted(abs(each) for each in (verdict.change_low, verdict.change_high))
    return f"{percent(verdict.change)} % {verdict.outcome} ({percent(low)} to {percent(high)} %)"


def headline(verdict: Verdict) -> str:
    """`softmax is 14 % slower on a100 (9.1 to 20 %): 41.2 → 47.0 µs`."""
    if verdict.outcome in ("new", "removed"):
        return f"{verdict.identity} on {verdict.gpu} is {verdict.outcome}: {times(verdict)}"
    if verdict.outcome == "same":
        return f"{verdict.identity} takes as long as before on {verdict.gpu}: {times(verdict)}"
    amount, _, spread = change(verdict).partition(" (")
    return f"{verdict.identity} is {amount} on {verdict.gpu} ({spread}: {times(verdict)}"


def main_cause(verdict: Verdict) -> Cause | None:
    """The cause that tells most, of those that do not speak for the opposite."""
    sign = 1.0 if verdict.outcome == "slower" else -1.0
    known = {
        cause.kind: cause
        for cause in reversed(verdict.causes)
        if sign * _COSTS.get(cause.kind, 0) * (cause.after - cause.before) >= 0.0
    }
    return next((known[kind] for kind in _TELLING if kind in known), None)


def reason(verdict: Verdict) -> str:
    cause = main_cause(verdict)
    return cause.text if cause else "no single cause stands out"


def summary(result: CheckResult) -> str:
    """`2 of 40 slower than allowed, 1 faster, 37 the same; compared with origin/main (1a2b3c4), limit 5 %`."""
    parts = []
    failing, slower = len(result.failing), result.count("slower")
    if failing:
        parts.append(f"{failing} of {len(result.verdicts)} slower than allowed")
    if slower > failing:
        parts.append(f"{slower - failing} slower within the limit")
    parts += [f"{result.count(name)} {name}" for name in ("faster", "new", "removed") if result.count(name)]
    parts += [f"{result.count('same')} the same"] * bool(result.count("same"))
    return f"{', '.join(parts) or 'nothing to compare'}; against {result.against}, limit {100.0 * result.limit:g} %"
