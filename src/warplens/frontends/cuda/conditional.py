"""Which branches of `#if` a source keeps, as far as its text says it."""

from __future__ import annotations

import re

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif|define|undef)\b(.*)", re.S)
_DEFINED = re.compile(r"\s*(!?)\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*")
#: What compilers and their headers define.
_PREDEFINED = re.compile(r"__\w+|_\w+|\w*(VERSION|CUDA|NVCC|ARCH)\w*|NDEBUG|WIN\w*|linux|unix")


def without_skipped_branches(text: str) -> str:
    """A source without the branches that its macros switch off; what only a compiler knows stays, and all lines."""
    lines = re.findall(r"(?:\\\n|[^\n])*\n?", text)
    ever = {match[1] for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M)}
    defined: set[str] = set()
    kept: list[str] = []
    #: (The branches around are kept, one of the branches was taken, this one is kept); None: the text does not say.
    open_branches: list[tuple[bool, bool | None, bool]] = []
    for line in lines:
        active = not open_branches or open_branches[-1][2]
        match = _DIRECTIVE.match(line)
        word, rest = (match[1], re.sub(r"//.*|/\*.*?\*/", "", match[2]).strip()) if match else ("", "")
        if word in ("ifdef", "ifndef", "if"):
            holds = _holds(word, rest, defined, ever) if active else False
            open_branches.append((active, holds, active and holds is not False))
        elif word in ("elif", "else") and open_branches:
            around, taken, _ = open_branches[-1]
            holds = True if word == "else" else _holds("if", rest, defined, ever)
            here = around and taken is not True and holds is not False
            known = True if taken or (holds and taken is False) else None if taken is None or holds is None else False
            open_branches[-1] = (around, known, here)
        elif word == "endif" and open_branches:
            open_branches.pop()
        elif active:
            name = (re.match(r"\w+", rest) or [""])[0]
            if word == "define":
                defined.add(name)
            elif word == "undef":
                defined.discard(name)
                ever.add(name)
            kept.append(line)
            continue
        kept.append("\n" * line.count("\n"))
    return "".join(kept)


def _holds(word: str, rest: str, defined: set[str], ever: set[str]) -> bool | None:
    """Whether the condition of a branch holds; None if the text does not say."""
    if word != "if":
        rest = f"{'!' if word == 'ifndef' else ''}defined({rest})"
    if rest in ("0", "1"):
        return rest == "1"
    values = []
    for part in rest.split("&&") if "||" not in rest else rest.split("||"):
        match = _DEFINED.fullmatch(part)
        name = match[2] or match[3] if match else ""
        if match is None or ("||" in rest and "&&" in rest):
            return None
        if name not in defined and (name in ever or _PREDEFINED.fullmatch(name)):
            return None
        values.append((name in defined) != bool(match[1]))
    return any(values) if "||" in rest else all(values)
