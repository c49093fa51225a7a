"""An answer as the terminal shows it: time, limit, speed of light, occupancy and advice within 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..formatting import show_name, show_seconds, show_share
from .common import WIDTH, console, lines_of, say, show_title, wrapped
from .model_table import MOST_LAUNCHES, show_stalls

if TYPE_CHECKING:
    from rich.text import Text

    from ..api import Comparison
    from ..explanation import Advice, Answer

#: Columns of labels and of a full bar.
LABEL, BAR = 12, 20
#: Pieces of advice that are shown unless more are asked for.
MOST_ADVICE = 3


def show_answers(result: Comparison, most: int, measured: dict[str, Any]) -> None:
    """All answers; of an application first where its time goes."""
    by_gpu: dict[str, list[Answer]] = {}
    for answer in result.answers:
        by_gpu.setdefault(answer.prediction.gpu, []).append(answer)
    for gpu, answers in by_gpu.items():
        if len(answers) > 1:
            _overview(gpu, answers)
        for answer in answers:
            if len(answers) <= MOST_LAUNCHES or answer.advice:
                show_answer(answer, most, measured.get(answer.prediction.kernel))
    if any(answer.advice for answer in result.answers):
        say("What a rule means: warplens models --rules NAME")


def _overview(gpu: str, answers: list[Answer]) -> None:
    """Kernels of an application by time."""
    from ..explanation import words

    total = sum(answer.seconds * max(len(answer.launches), 1) for answer in answers)
    launches = sum(max(len(answer.launches), 1) for answer in answers)
    wrapped(f"{launches} launches on {gpu}: {words.time(total)}", style="bold")
    for answer in answers[:MOST_LAUNCHES]:
        times = max(len(answer.launches), 1)
        name = show_name(answer.prediction.kernel, 40)
        share = show_share(times * answer.seconds / total)
        say(f"{share:>6}  {words.time(times * answer.seconds):>8}  {times:>4} × {name}")
    if len(answers) > MOST_LAUNCHES:
        say(f"… and {len(answers) - MOST_LAUNCHES} more; select launches with --launch, or see all with --json")
    say("")


def show_answer(answer: Answer, most: int = MOST_ADVICE, measured: Any = None) -> None:
    """The answer of one kernel on one GPU; `measured` is what a profiler saw of it."""
    launches = max(len(answer.launches), 1)
    show_title(answer.prediction, f", {launches} launches" if launches > 1 else "")
    out = console()
    measured_seconds = None if measured is None else measured.seconds
    for line in (*_headline(answer, launches, measured_seconds), *_resources(answer), *_advice(answer, most)):
        out.print(line, soft_wrap=True)
    out.print()
    if measured is not None and measured.stalls is not None:
        show_stalls(measured.stalls, [answer.prediction])


def _headline(answer: Answer, launches: int, measured: float | None) -> Iterator[Text]:
    from ..explanation import words

    spread = words.time_range(answer)
    together = f"; {words.time(launches * answer.seconds)} in all" if launches > 1 else ""
    each = " each" if launches > 1 else ""
    yield _row("time", f"{words.time(answer.seconds)}{each}", f" ({spread}){together}" if spread else together)
    if measured is not None:
        ratio = answer.seconds / measured - 1.0
        off = f" (predicted {show_share(abs(ratio))} {'above' if ratio >= 0 else 'below'})"
        yield _row("measured", show_seconds(measured), off)
    if answer.limiter is not None:
        yield from _wrapped(words.limit(answer), "limited by", LABEL)
    if answer.energy is not None:
        yield from _wrapped(words.energy(answer.energy), "energy", LABEL)


def _resources(answer: Answer) -> Iterator[Text]:
    """Speed of light as bars, then occupancy."""
    from rich.text import Text

    from ..explanation import words

    for key, name in words.LIGHT_NAMES.items():
        if key in answer.speed_of_light:
            share = answer.speed_of_light[key]
            yield Text.assemble(f"{name:<{LABEL}}", (bar(share), _colour(share)), f" {show_share(share):>5}")
    yield from _wrapped(words.occupancy(answer), "occupancy", LABEL)


def _advice(answer: Answer, most: int) -> Iterator[Text]:
    from rich.text import Text

    from ..explanation import words

    for text in words.doubts(answer):
        yield from _wrapped(text, "note", LABEL, "dim")
    if not answer.advice:
        yield Text()
        yield from _wrapped(words.closing(answer), "", 0)
        return
    for number, advice in enumerate(answer.advice[:most], 1):
        yield Text()
        yield from _one(number, advice)
    left = len(answer.advice) - most
    if left > 0:
        yield Text(f"\nand {left} more: --advice all")


def _one(number: int, advice: Advice) -> Iterator[Text]:
    """A piece of advice: gain and rule, what is wrong, where, what to do, what it may cost."""
    from rich.text import Text

    from ..explanation import words

    gain = words.gain(advice)
    room = max(WIDTH - 3 - len(gain) - len(advice.rule), 2)
    yield Text.assemble((f"{number}  {gain}", "bold green"), " " * room, (advice.rule, "dim"))
    yield from _wrapped(advice.text, "   ", 3)
    for line in advice.lines:
        place = words.place(line)
        source = textwrap.shorten(line.text, WIDTH - len(place) - 5, placeholder=" …")
        yield Text.assemble("   ", (place, "cyan"), f"  {source}".rstrip())
    yield from _wrapped(advice.remedy, "   do: ", 7)
    yield from _wrapped(advice.cost, "   but: ", 8, "dim")


def bar(share: float, columns: int = BAR) -> str:
    """A bar of that many columns, filled by eighths of a column."""
    eighths = round(min(max(share, 0.0), 1.0) * columns * 8)
    full, part = divmod(eighths, 8)
    return f"{'█' * full}{' ▏▎▍▌▋▊▉'[part] if part else ''}".ljust(columns, "·")


def _colour(share: float) -> str:
    from ..models.warplens_model import BOUND

    return "yellow" if share >= BOUND else "green"


def _row(label: str, strong: str, rest: str) -> Text:
    from rich.text import Text

    return Text.assemble(f"{label:<{LABEL}}", (strong, "bold"), rest)


def _wrapped(text: str, first: str, indent: int, style: str = "") -> Iterator[Text]:
    from rich.text import Text

    for line in lines_of(text, first, indent):
        yield Text(line, style=style)
