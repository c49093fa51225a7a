"""An answer in words, for the command line, the report and the page alike."""

from __future__ import annotations

from ..formatting import show_factor, show_seconds, show_share
from ..models.energy import Energy
from .answer import Advice, Answer, Line, Opinion
from .benefits import NAMES, largest
from .scene import LEAST_GAIN
from .versions import VersionComparison

#: Speed-of-light figures by the keys of an answer, in the order in which they are shown.
LIGHT_NAMES = {"compute": "compute", "l1": "L1", "l2": "L2", "dram": "DRAM"}
#: What limits occupancy, in the words of the occupancy calculator.
_LIMITS = {
    "warps": "the SM holds no more warps",
    "blocks": "the SM holds no more blocks",
    "given": "as given",
    "grid size": "the grid has no more blocks",
}
#: What helps where a resource is full and no rule knows how to use it less.
_LESS = {
    "compute": "fewer instructions",
    "l1": "fewer or wider accesses",
    "l2": "less traffic between the SMs and the L2",
    "dram": "moving fewer bytes",
}
#: Digits of a time that has a range.
_DIGITS = 3


def time(seconds: float) -> str:
    return show_seconds(seconds, _DIGITS)


def between(low: str, high: str) -> str:
    """A range; a unit that both ends have is written once."""
    first, second = low.split(" "), high.split(" ")
    return f"{first[0] if first[1:] == second[1:] else low} to {high}"


def time_range(answer: Answer) -> str:
    """`212 to 301 µs`, or nothing where the model gives no range."""
    if answer.seconds_low is None or answer.seconds_high is None:
        return ""
    return between(time(answer.seconds_low), time(answer.seconds_high))


def limit(answer: Answer) -> str:
    """`DRAM bandwidth, 93 % used`, or what warps wait for where no resource is full."""
    limiter = answer.limiter
    if limiter is None:
        return ""
    return f"{limiter.name}: {limiter.waits}" if limiter.waits else f"{limiter.name}, {show_share(limiter.busy)} used"


def occupancy(answer: Answer) -> str:
    """`50 %, 32 of 64 warps per SM; limited by registers`."""
    found = answer.occupancy
    warps = float(answer.prediction.terms["W"])
    room = f"{show_share(found.achieved)}, {warps:g} of {warps / found.achieved:.0f} warps per SM"
    return room if found.achieved >= 1.0 else f"{room}; {_LIMITS.get(found.limiter, f'limited by {found.limiter}')}"


def energy(found: Energy) -> str:
    """`21.4 mJ at 412 W; least at 1.39 GHz, least energy × delay at 1.78 GHz; …`."""
    said = f"{_joules(found.joules)} at {found.watts:.0f} W"
    if found.least_energy_hz is not None and found.least_product_hz is not None:
        said += f"; least at {_clock(found.least_energy_hz)}, "
        said += f"least energy × delay at {_clock(found.least_product_hz)}"
    limited = found.limited_hz
    if limited is None or limited >= found.clock_hz.max():
        return said
    return f"{said}; the power limit of {found.limit_watts:g} W holds the clock at {_clock(limited)}"


def _joules(value: float) -> str:
    for unit, scale in (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} nJ"


def _clock(hz: float) -> str:
    return f"{hz / 1e9:.2f} GHz"


def gain(advice: Advice) -> str:
    """`239 → 76.1 µs, 3.1× faster (2.6 to 4.0×)`."""
    now, then = time(advice.seconds), time(advice.seconds_after)
    times = between(now, then).replace(" to ", " → ")
    return f"{times}, {show_factor(advice.speedup)} faster ({factors(advice.speedup_low, advice.speedup_high)})"


def factors(low: float, high: float) -> str:
    """`2.6 to 4.0×`."""
    return f"{show_factor(low).removesuffix('×')} to {show_factor(high)}"


def opinion(found: Opinion) -> str:
    """`A second model, GPUPerf, agrees: 92 % less time with more accesses in flight (B_memlp)`."""
    verdict = "agrees" if found.agrees else "sees little of this"
    return f"A second model, GPUPerf, {verdict}: {show_share(found.gain)} less time with {_benefit(found)}"


def _benefit(found: Opinion) -> str:
    return f"{NAMES[found.benefit]} ({found.benefit})"


def place(line: Line) -> str:
    """`transpose.cu:12`, or `line 12` where the file has no name."""
    return f"{line.file}:{line.line}" if line.file else f"line {line.line}"


def closing(answer: Answer) -> str:
    """What stands in place of advice: why there is none."""
    if answer.advice:
        return ""
    if answer.note:
        return answer.note
    limiter, nothing = answer.limiter, f"no rule finds {show_share(LEAST_GAIN)} to gain"
    if limiter is None or limiter.waits:
        hint = largest(answer.benefits, ("B_memlp", "B_itilp"))
        told = f"; GPUPerf would save {show_share(hint.gain)} with {_benefit(hint)}" if hint and hint.agrees else ""
        return nothing + told
    full = f"{limiter.name} {'are' if limiter.name.endswith('s') else 'is'} {show_share(limiter.busy)} used"
    return f"{nothing}: {full}, so only {_LESS[limiter.resource]} would help"


def plain(answer: Answer) -> str:
    """The answer as `print` shows it: time, limit, and each piece of advice with its lines and what to do."""
    spread = f" ({found})" if (found := time_range(answer)) else ""
    limited = f", limited by {found}" if (found := limit(answer)) else ""
    told = [f"{answer.prediction.kernel} on {answer.prediction.gpu}: {time(answer.seconds)}{spread}{limited}"]
    for number, each in enumerate(answer.advice, 1):
        told += [f"{number}  {gain(each)}  {each.rule}", f"   {each.text}"]
        told += [f"   {place(line)}  {line.text}".rstrip() for line in each.lines]
        told.append(f"   do: {each.remedy}")
    return "\n".join([*told, *([] if answer.advice else [closing(answer)])])


def doubts(answer: Answer) -> tuple[str, ...]:
    """What the model warns of, but for what the answer says itself, and what only other models depend on."""
    warnings = (text for text in answer.prediction.warnings if not text.startswith(("bound by ", "warps differ")))
    return (*warnings, answer.note) if answer.advice and answer.note else tuple(warnings)


def verdict(found: VersionComparison) -> str:
    """`B is 2.1× faster than A on h200 (1.7 to 2.8×): 17.7 → 8.26 µs`."""
    before, after = time(found.before.seconds), time(found.after.seconds)
    where = f"on {found.before.prediction.gpu}"
    if before == after:
        return f"B takes as long as A {where}: {after}"
    times = between(before, after).replace(" to ", " → ")
    faster = found.speedup >= 1.0
    word, factor = ("faster", found.speedup) if faster else ("slower", 1.0 / found.speedup)
    if found.speedup_low is None or found.speedup_high is None:
        return f"B is {show_factor(factor)} {word} than A {where}: {times}; the model gives no range"
    ends = found.speedup_low, found.speedup_high
    told = factors(*ends) if faster else factors(1.0 / ends[1], 1.0 / ends[0])
    if found.is_significant:
        return f"B is {show_factor(factor)} {word} than A {where} ({told}): {times}"
    return (
        f"No difference that the model can tell {where}: B is {show_factor(factor)} {word} than A ({told}): {times}"
    )
