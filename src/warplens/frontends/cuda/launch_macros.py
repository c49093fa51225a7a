"""Macros that hold launches or kernels, written out where a source uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .expressions import closing, split_arguments, substituted
from .host_code import scrubbed

#: Parameters of a macro, None for one that takes none, and what it stands for.
Macro = tuple[tuple[str, ...] | None, str]

#: Macros may use each other, and each use may be of several: what is written out has a limit.
_MOST_ROUNDS = 6
_MOST_CHARACTERS = 1 << 20
_HOLDS = re.compile(r"<<<|\bcudaLaunch\w*Kernel|__global__")


def macros(text: str) -> dict[str, Macro]:
    """The macros of a source, in its order; of several with one name the first."""
    found: dict[str, Macro] = {}
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?((?:\\\n|[^\n])*)", text, re.M):
        names = None if match[2] is None else tuple(_names(match[2][1:-1]))
        body = " ".join(re.sub(r"//.*|/\*.*?\*/|\\\n", " ", match[3]).split())
        found.setdefault(match[1], (names, body))
    return found


def with_launch_macros(text: str) -> str:
    """A source whose uses of such macros are written out, each on the line of its use."""
    known = macros(text)
    chosen = {name for name, (_, body) in known.items() if _HOLDS.search(body)}
    while more := {
        name for name, (_, body) in known.items() if name not in chosen and chosen & set(re.findall(r"\w+", body))
    }:
        chosen |= more
    if not chosen:
        return text
    uses = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(chosen)))})\b")
    for _ in range(_MOST_ROUNDS):
        parts, end, plain = [], 0, scrubbed(text)
        for match in uses.finditer(plain):
            parameters, body = known[match[0]]
            opening = re.compile(r"\s*\(").match(plain, match.end())
            if match.start() < end or (parameters is not None and opening is None):
                continue
            stop, given = match.end(), []
            if parameters is not None and opening is not None:
                stop = closing(plain, opening.end() - 1)
                given = split_arguments(text[opening.end() : stop - 1])
            used = text[match.start() : stop]
            parts += [text[end : match.start()], _written_out(body, parameters or (), given), "\n" * used.count("\n")]
            end = stop
        if not parts or sum(map(len, parts)) + len(text) > _MOST_CHARACTERS:
            break
        text = "".join((*parts, text[end:]))
    return text


def _names(parameters: str) -> list[str]:
    return ["__VA_ARGS__" if each.strip() == "..." else each.strip() for each in parameters.split(",")]


def _written_out(body: str, parameters: tuple[str, ...], given: list[str]) -> str:
    if parameters[-1:] == ("__VA_ARGS__",):
        given = [*given[: len(parameters) - 1], ", ".join(given[len(parameters) - 1 :])]
    values: Mapping[str, str] = dict(zip(parameters, given, strict=False))
    body = re.sub(r"(?<!#)#\s*(\w+)", lambda match: f'"{values.get(match[1], match[1])}"', body)
    return re.sub(r"\s*##\s*", "", substituted(body, values))
