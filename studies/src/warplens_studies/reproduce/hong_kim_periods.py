"""Hong & Kim, ISCA 2009, Figs. 5 to 11: warps that take turns, memory that serves some at a time, and barriers.

The figures are drawings without numbers. Here a small simulation executes what the
text says of each, and its time is compared with the equations.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from warplens.api import place, predict
from warplens.models.papers import HONG_KIM
from warplens.reports.style import LINE_COLOURS

from .base import COMPARISON, Claim, Findings, Row, Table, compare, recipe

COMPUTE, MEMORY = 1, 3  # one computation period is a third of a memory waiting period (§3.2.1)
LENGTHS = f"a computation period of {COMPUTE} and a memory waiting period of {MEMORY}, as the text says of Case 1"


@dataclass(frozen=True)
class Period:
    """A computation or a memory waiting period of a warp."""

    warp: int
    kind: str
    start: float
    end: float


def simulate_periods(
    warps: int,
    repeats: int,
    compute: float,
    memory: float,
    servers: int,
    departure: float = 0.0,
    *,
    barrier: bool = False,
) -> list[Period]:
    """`warps` warps, each `repeats` times a computation and a memory waiting period.

    One computation runs at a time, of the warp that is ready first. At most
    `servers` memory warps are served together, and they leave at least
    `departure` apart. With a barrier, no warp continues before all have been served.
    """
    ready = [(0.0, warp) for warp in range(warps)]
    heapq.heapify(ready)
    left = [repeats] * warps
    serving: list[float] = [0.0] * servers
    processor = departed = 0.0
    waiting: list[tuple[float, int]] = []
    periods: list[Period] = []
    while ready:
        since, warp = heapq.heappop(ready)
        processor = max(processor, since) + compute
        periods.append(Period(warp, "compute", processor - compute, processor))
        start = max(processor, heapq.heappop(serving), departed)
        departed = start + departure
        heapq.heappush(serving, start + memory)
        periods.append(Period(warp, "memory", start, start + memory))
        left[warp] -= 1
        if left[warp]:
            waiting.append((start + memory, warp))
        if barrier and not ready and waiting:
            last = max(end for end, _ in waiting)
            waiting = [(last, warp) for _, warp in waiting]
        if not barrier or not ready:
            for item in waiting:
                heapq.heappush(ready, item)
            waiting = []
    return periods


def _end(periods: Sequence[Period]) -> float:
    return max(period.end for period in periods)


def _draw(plt: Any, panels: Sequence[tuple[str, Sequence[Period]]]) -> Any:
    """Two lanes, processor and memory, as the paper draws them; memory warps that overlap are stacked."""
    figure, axes = plt.subplots(len(panels), 1, figsize=(8.4, 0.5 + 1.5 * len(panels)), squeeze=False, sharex=True)
    for axis, (title, periods) in zip(axes[:, 0], panels, strict=True):
        lanes: list[float] = []
        for period in sorted(periods, key=lambda each: each.start):
            if period.kind == "compute":
                lane = 0
            else:
                free = [i for i, end in enumerate(lanes) if end <= period.start + 1e-9]
                lane = free[0] if free else len(lanes)
                lanes[lane : lane + 1] = [period.end]
                lane += 1
            colour = LINE_COLOURS[period.warp % len(LINE_COLOURS)]
            height = period.end - period.start
            axis.barh(
                lane,
                height,
                left=period.start,
                height=0.8,
                color=colour,
                edgecolor="white",
                alpha=1.0 if lane == 0 else 0.6,
            )
            if height >= 0.6 * _end(periods) / 60:
                middle = period.start + height / 2
                axis.text(middle, lane, f"{period.warp + 1}", ha="center", va="center", fontsize=6.5, color="white")
        axis.set_yticks(range(1 + len(lanes)), ["processor", *("memory" for _ in lanes)], fontsize=7)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_title(title, loc="left", fontsize=8.5)
    axes[-1, 0].set_xlabel("cycles (numbers are warps)")
    return figure


def _findings(
    cases: Sequence[tuple[str, Sequence[Period], str, float]],
    claims: Sequence[Claim],
    assumptions: Sequence[str],
    remarks: Sequence[str] = (),
) -> Findings:
    """Cases: title, simulated periods, equation and its result."""
    return Findings(
        columns=("case", "warp", "period", "start [cycles]", "end [cycles]"),
        rows=tuple(
            (title, p.warp + 1, p.kind, p.start, p.end)
            for title, periods, *_ in cases
            for p in sorted(periods, key=lambda each: each.start)
        ),
        draw=lambda plt: _draw(plt, [(f"{c[0]}: {_end(c[1]):g} cycles, {c[2]} {c[3]:g}", c[1]) for c in cases]),
        claims=tuple(claims),
        assumptions=tuple(assumptions),
        remarks=tuple(remarks),
        summary=Table(
            COMPARISON,
            tuple(
                compare(f"{title}: cycles, {equation}", value, _end(periods))
                for title, periods, equation, value in cases
            ),
        ),
    )


def _equal(case: str, text: str, periods: Sequence[Period], equation: str, value: float) -> Claim:
    return Claim(
        f"{case}: {text}", abs(_end(periods) - value) < 1e-9, f"simulated {_end(periods):g}, {equation} {value:g}"
    )


@recipe(
    "hong-kim-fig5",
    HONG_KIM,
    "Figure 5: total execution time when CWP is greater than MWP, 8 and 4 warps",
    "cycles of a small simulation of Cases 1 and 2 against Equation (1)",
)
def figure5() -> Findings:
    servers = 2
    one = simulate_periods(8, 1, COMPUTE, MEMORY, servers)
    two = simulate_periods(4, 2, COMPUTE, MEMORY, servers)
    expected = 2 * COMPUTE + 4 * MEMORY
    first = MEMORY * 8 / servers + COMPUTE * servers  # Eq. (H-1), MEMORY being Mem_cycles of one period
    second = 2 * MEMORY * 4 / servers + COMPUTE * servers
    return _findings(
        (("Case 1, 8 warps", one, "Eq. (1)", first), ("Case 2, 4 warps of 2 periods", two, "Eq. (1)", second)),
        (
            _equal("Case 1", "2 computation and 4 memory waiting periods (§3.2.1)", one, "they take", expected),
            _equal("Case 2", "the total is the same as in Case 1 (§3.2.1)", two, "Case 1", _end(one)),
        ),
        (LENGTHS, "MWP = 2"),
    )


@recipe(
    "hong-kim-fig6",
    HONG_KIM,
    "Figure 6: total execution time when MWP is greater than CWP, 8 and 4 warps",
    "cycles of a small simulation of Cases 3 and 4 against Equation (3)",
)
def figure6() -> Findings:
    three = simulate_periods(8, 1, COMPUTE, MEMORY, 8)
    four = simulate_periods(4, 2, COMPUTE, MEMORY, 8)
    value = MEMORY + COMPUTE * 8.0  # Eq. (H-3): Comp_cycles × N is the same in both
    text = "8 computation periods and one memory waiting period (§3.2.2)"
    return _findings(
        (("Case 3, 8 warps", three, "Eq. (3)", value), ("Case 4, 4 warps of 2 periods", four, "Eq. (3)", value)),
        (_equal("Case 3", text, three, "Eq. (3)", value), _equal("Case 4", text, four, "Eq. (3)", value)),
        (LENGTHS, "MWP = 8"),
    )


@recipe(
    "hong-kim-fig7",
    HONG_KIM,
    "Figure 7: total execution time when computation is longer than memory waiting, 8 warps",
    "cycles of a small simulation of Case 5 against Equation (3), and what Equation (23) gives",
)
def figure7() -> Findings:
    compute, memory, warps = 4.0, 3.0, 8
    five = simulate_periods(warps, 1, compute, memory, 8)
    value = memory + compute * warps  # Eq. (H-3)
    chosen = memory * warps / warps + compute * (warps - 1)  # Eq. (H-23) with MWP = N
    return _findings(
        (("Case 5, 8 warps", five, "Eq. (3)", value),),
        (
            _equal("Case 5", "8 computation periods plus one memory waiting period (§3.2.2)", five, "Eq. (3)", value),
            Claim(
                "the condition printed before Eq. (23), 'or Comp_cycles > Mem_cycles', gives this case too",
                abs(chosen - _end(five)) < 1e-9,
                f"Eq. (23) gives {chosen:g}, less than the {compute * warps:g} that issuing takes",
            ),
        ),
        (f"a computation period of {compute:g} and a memory waiting period of {memory:g}; MWP = 8",),
    )


@recipe(
    "hong-kim-fig8",
    HONG_KIM,
    "Figure 8: total execution time when MWP equals N, 1 and 2 warps",
    "cycles of a small simulation of Cases 6 and 7 against Equation (4)",
)
def figure8() -> Findings:
    six = simulate_periods(1, 2, COMPUTE, MEMORY, 1)
    seven = simulate_periods(2, 2, COMPUTE, MEMORY, 2)
    whole = 2.0 * (COMPUTE + MEMORY)
    return _findings(
        (("Case 6, 1 warp", six, "Eq. (4)", whole), ("Case 7, 2 warps", seven, "Eq. (4)", whole + COMPUTE)),
        (
            _equal("Case 6", "all is serialised (§3.2.3)", six, "Eq. (4)", whole),
            _equal("Case 7", "roughly half of the sum of all periods (§3.2.3)", seven, "Eq. (4)", whole + COMPUTE),
        ),
        (LENGTHS, "two periods of each a warp"),
    )


# -- memory --------------------------------------------------------------------------------


@recipe(
    "hong-kim-fig9",
    HONG_KIM,
    "Figure 9: memory system model and timeline of memory warps",
    "memory warps that leave a departure delay apart: how many are served at a time, against Equation (16)",
)
def figure9() -> Findings:
    terms = predict("hong-kim-table2", model="mwp-cwp").terms
    latency, departure = terms["Mem_L"], terms["Departure_delay"]
    periods = [p for p in simulate_periods(8, 1, 0.0, latency, 8, departure) if p.kind == "memory"]
    middle = [p for p in periods if p.start >= latency]
    # Mean number in service while the queue is busy: Little's law on the simulated periods.
    span = periods[-1].start + departure
    served = sum(p.end - p.start for p in periods) / span
    return _findings(
        (("8 memory warps", periods, "7 departures and Mem_L:", 7 * departure + latency),),
        (
            Claim(
                "MWP memory warps are handled during Mem_L (§3.3.1, Eq. (16))",
                abs(served - latency / departure) < 1e-9,
                f"{served:.4f} in service on average, Mem_L/Departure_delay = {latency / departure:.4f}; "
                f"{len(middle)} of 8 start after the first has ended",
            ),
        ),
        (f"Mem_L {latency:g} and Departure_delay {departure:g} of Table 2; all warps ask at once",),
    )


@recipe(
    "hong-kim-fig10",
    HONG_KIM,
    "Figure 10: departure delays of uncoalesced and coalesced memory warps",
    "transactions of two memory warps one by one, against Equations (10), (11) and (15)",
)
def figure10() -> Findings:
    _, gpu = place("hong-kim-table2")
    count, latency = int(gpu.dram.uncoalesced_transactions), float(gpu.dram.latency_cycles)
    ways = {"uncoalesced": (count, gpu.dram.departure_uncoalesced_cycles), "coalesced": (1, 4.0)}
    made: dict[str, list[Period]] = {}
    for access, (
        each,
        gap,
    ) in ways.items():  # transactions depart one by one
        sent = simulate_periods(2 * each, 1, 0.0, latency, 2 * each, gap)
        made[access] = [replace(p, warp=p.warp // each) for p in sent if p.kind == "memory"]
    whole = {access: max(p.end for p in periods if p.warp == 0) for access, periods in made.items()}
    apart = {access: min(p.start for p in periods if p.warp == 1) for access, periods in made.items()}
    terms = predict("hong-kim-table2", model="mwp-cwp").terms

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(8.8, 3.0), width_ratios=(3, 2))
        for axis, (access, periods) in zip(axes, made.items(), strict=True):
            for row, period in enumerate(periods):
                axis.barh(row, latency, left=period.start, height=0.8, color=LINE_COLOURS[period.warp])
            axis.invert_yaxis()
            axis.yaxis.get_major_locator().set_params(integer=True)
            axis.set_title(f"{access}: warp 2 departs after {apart[access]:g}", loc="left", fontsize=8.5)
            axis.set_xlabel(f"cycles (warp 1 waits {whole[access]:g})")
            axis.grid(axis="y", visible=False)
        axes[0].set_ylabel("transaction")
        return figure

    return Findings(
        columns=("access", "warp", "start [cycles]", "end [cycles]"),
        rows=tuple((access, p.warp + 1, p.start, p.end) for access, periods in made.items() for p in periods),
        draw=draw,
        claims=(
            Claim(
                "the latency of an uncoalesced memory warp has the departures of all its transactions (Eq. (10))",
                whole["uncoalesced"] == terms["Mem_L"],
                f"{whole['uncoalesced']:g} cycles one by one, Eq. (10) gives {terms['Mem_L']:g}",
            ),
            Claim(
                "the next memory warp departs #Uncoal_per_mw departure delays later (Eq. (15))",
                apart["uncoalesced"] == terms["Departure_delay"],
                f"{apart['uncoalesced']:g}; coalesced {apart['coalesced']:g}",
            ),
        ),
        assumptions=("the machine of Table 2; its coalesced departure delay is Table 6's 4 cycles",),
        summary=Table(
            COMPARISON,
            (
                compare("Mem_L, uncoalesced", 730.0, whole["uncoalesced"]),
                compare("Departure_delay, uncoalesced", 320.0, apart["uncoalesced"]),
                compare("Mem_L, coalesced", latency, whole["coalesced"]),
            ),
        ),
    )


@recipe(
    "hong-kim-fig11",
    HONG_KIM,
    "Figure 11: additional delay of thread synchronisation",
    "cycles of a small simulation without and with a barrier after each memory period, against Equation (26)",
)
def figure11() -> Findings:
    warps, repeats, compute, departure = 4, 3, 0.5, 1.0
    mwp = MEMORY / departure
    free = simulate_periods(warps, repeats, compute, MEMORY, int(mwp), departure)
    held = simulate_periods(warps, repeats, compute, MEMORY, int(mwp), departure, barrier=True)
    runs = {"no barrier": free, "a barrier after each memory period": held}
    barriers = repeats - 1  # no period follows the last one
    extra = (_end(held) - _end(free)) / barriers
    cost = departure * (mwp - 1)  # Eq. (H-26), one barrier of one block
    rows: list[Row] = [
        compare("extra cycles of a barrier, Eq. (26)", cost, extra),
        compare("one memory waiting period", None, float(MEMORY)),
    ]
    made = _findings(
        [(name, periods, "", _end(periods)) for name, periods in runs.items()],
        (
            Claim(
                "the additional delay is less than one waiting period (§3.4.6)",
                0 < extra < MEMORY,
                f"{extra:g} cycles a barrier, {MEMORY} cycles a period",
            ),
            Claim(
                "it is Departure_delay × (MWP − 1) for each barrier (Eq. (26))",
                abs(extra - cost) < 1e-9,
                f"simulated {extra:g}, Eq. (26) {cost:g}: the first computation after a barrier, {compute:g}, is not "
                "hidden either",
            ),
        ),
        (
            f"computation periods of {compute:g} and memory waiting periods of {MEMORY}, 4 warps of 3 each, "
            f"departure delay {departure:g}, so MWP = {mwp:g}",
        ),
    )
    return replace(
        made,
        draw=lambda plt: _draw(plt, [(f"{name}: {_end(p):g} cycles", p) for name, p in runs.items()]),
        summary=Table(COMPARISON, tuple(rows)),
    )
