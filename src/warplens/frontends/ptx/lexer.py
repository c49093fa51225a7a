"""PTX text to tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import PtxError

#: Longest accepted text; PTX of ordinary programs has a few megabytes at most.
MOST_CHARACTERS = 64 * 2**20

_PATTERN = re.compile(
    r"""
    (?P<space>[ \t\r\f]+|//[^\n]*|/\*.*?\*/)
  | (?P<newline>\n)
  | (?P<number>0[fF][0-9a-fA-F]{8}(?![\w$]) | 0[dD][0-9a-fA-F]{16}(?![\w$])
      | (?:\d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)(?![\w$])
      | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U?)
  | (?P<dot>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
  | (?P<word>[A-Za-z_$%][A-Za-z0-9_$]*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<punctuation>[{}()\[\]<>,;:+\-!|=@~*])
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """kind is number, dot (.word), word, string, punctuation or end; `glued` if no space comes before it."""

    kind: str
    text: str
    line: int
    glued: bool = False


def tokens(text: str, name: str) -> list[Token]:
    """All tokens of a PTX text, with an end token last; raises `PtxError` at the first character that fits none."""
    if len(text) > MOST_CHARACTERS:
        raise PtxError(f"{name}: {len(text)} characters of PTX; at most {MOST_CHARACTERS} are read")
    found: list[Token] = []
    line, position, glued = 1, 0, False
    for match in _PATTERN.finditer(text):
        if match.start() != position:
            break
        kind = str(match.lastgroup)
        piece = match.group()
        if kind == "newline":
            line += 1
            glued = False
        elif kind == "space":
            line += piece.count("\n")
            glued = False
        else:
            found.append(Token(kind, piece, line, glued))
            glued = True
        position = match.end()
    if position < len(text):
        raise PtxError(f"{name}: line {line}: {text[position]!r} is not valid PTX")
    found.append(Token("end", "", line))
    return found
