"""Damaged PTX: what becomes of it. Also a program, so that a crash ends another process."""

from __future__ import annotations

import re
import sys
from random import Random

import numpy as np

from reference.ptx import FaultError, Launch, NotCoveredError
from warplens.errors import KernelFault, PtxError
from warplens.frontends.ptx import execute, parse_ptx

from .launches import Launched, asynchronous, launches

_TOKEN = re.compile(r"[%$\w]+|\.\w+|[^\s\w]|\s+")
_NUMBERS = ["0", "1", "-1", "4", "7", "31", "64", "4096", "2147483647", "0xFFFFFFFFFFFFFFFF", "0f7F800000", "1e30"]
_WORDS = [".u8", ".s16", ".u32", ".s32", ".b32", ".u64", ".b64", ".f32", ".f64", ".pred", ".f16x2"]
_WORDS += [".lo", ".hi", ".wide", ".rn", ".sat", ".global", ".shared", ".local", ".v4"]
MOST_THREAD_INSTRUCTIONS = 400_000


def mutated(random: Random, text: str) -> str:
    """A text with one to three small damages."""
    for _ in range(random.choice([1, 1, 2, 3])):
        text = _damaged(random, text) if text.strip() else text
    return text


def _damaged(random: Random, text: str) -> str:
    kind = random.randrange(9)
    if kind == 0:
        return text[: random.randrange(len(text))]
    if kind in (1, 2):  # whole lines
        lines = text.split("\n")
        at, other = (random.randrange(len(lines)) for _ in range(2))
        if kind == 1:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at : at + 1] = random.choice([[], [lines[at], lines[at]], [lines[other], lines[at]]])
        return "\n".join(lines)
    tokens = _TOKEN.findall(text)

    def choose(pattern: str) -> int:
        return random.choice([each for each, token in enumerate(tokens) if re.fullmatch(pattern, token)] or [0])

    if kind == 3:
        del tokens[choose(r"\S.*")]
    elif kind == 4:
        at = choose(r"\S.*")
        tokens.insert(at, tokens[at])
    elif kind == 5:
        tokens[choose(r"\d\w*")] = random.choice(_NUMBERS)
    elif kind == 6:
        tokens[choose(r"\.[a-z]+\d*")] = random.choice(_WORDS)
    else:  # swap two names of the same kind
        pattern = random.choice([r"%\w+", r"\$L\w+", r"[a-z]\w+"])
        one, two = choose(pattern), choose(pattern)
        tokens[one], tokens[two] = tokens[two], tokens[one]
    return "".join(tokens)


def outcome(text: str, entry: str) -> str:
    """refused, faulted, right, wrong: …, or unchecked where the oracle cannot tell."""
    launch, other = launches()[entry], launches()[entry]
    grid, block = launch.dimensions
    shared = launch.dynamic_shared_memory_bytes
    if what := executed(text, entry, launch):
        return what
    module = parse_ptx(text)
    try:
        Launch(module, entry, grid, block, other.arguments, shared, MOST_THREAD_INSTRUCTIONS // 8).run()
    except FaultError as error:
        return f"wrong: ran through, where the oracle says {error}"
    except (NotCoveredError, AssertionError, KeyError, IndexError, ValueError, StopIteration):
        return "unchecked"  # invalid PTX that execution accepts: what it means is open
    for one, two in zip(launch.arguments, other.arguments, strict=True):
        if isinstance(one, np.ndarray) and not same_words(one, two):
            return "wrong: other results than the oracle's"
    return "right"


def executed(text: str, entry: str, launch: Launched) -> str:
    """refused, faulted, or wrong: …; nothing where it runs through."""
    grid, block = launch.dimensions
    try:
        execute(
            parse_ptx(text),
            entry,
            grid,
            block,
            launch.arguments,
            dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
            most_instructions=MOST_THREAD_INSTRUCTIONS,
            most_seconds=10,
            workers=1,
        )
    except PtxError:
        return "refused"
    except KernelFault:
        return "faulted"
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"
    return ""


def same_words(one: np.ndarray, two: np.ndarray) -> bool:
    """Bit for bit, apart from which NaN doubles are: PTX fixes it for narrower floats only."""
    if one.dtype == np.float64:
        return np.array_equal(one, two, equal_nan=True)
    return one.tobytes() == two.tobytes()


def main() -> None:
    """Seeds first … last - 1, one line each; the seed is printed first, so that a crash shows which."""
    first, last = (int(each) for each in sys.argv[1:3])
    chosen = run_asynchronous if "asynchronous" in sys.argv[3:] else run
    for seed in range(first, last):
        print(seed, end=" ", flush=True)
        print(*chosen(seed), flush=True)


def run(seed: int) -> tuple[str, str]:
    random = Random(seed)
    entry = random.choice(list(launches()))
    return entry, outcome(mutated(random, launches()[entry].text), entry)


def run_asynchronous(seed: int) -> tuple[str, str]:
    launch = asynchronous()
    return launch.file, executed(mutated(Random(seed), launch.text), launch.file, launch) or "ran"


if __name__ == "__main__":
    main()
