"""Values of plain C expressions in host code: numbers, sizes, `dim3`, and what names stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: A number, or the extents of a `dim3` or of a list in braces.
Value = int | float | tuple[Any, ...]
#: Finds the value of a name, or of a call of a function or macro with arguments as they are written.
Lookup = Callable[[str, Sequence[str] | None], Value | None]

#: Bytes of types by their names in CUDA C++.
SIZES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1, "uchar": 1,
    "short": 2, "unsigned short": 2, "int16_t": 2, "uint16_t": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "nv_bfloat16": 2, "int": 4, "unsigned": 4, "unsigned int": 4, "uint": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
    "half2": 4, "__half2": 4, "__nv_bfloat162": 4, "long": 8, "unsigned long": 8, "long long": 8, "double": 8,
    "unsigned long long": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8, "float2": 8, "int2": 8, "float3": 12,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "uchar4": 4, "uint2": 8, "char4": 4, "uchar3": 3,
}  # fmt: skip

_TOKEN = re.compile(
    r"""(?x)\s*(
    0[xX][0-9a-fA-F']+[uUlL]* | (?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*
    | [A-Za-z_](?:[\w]|::)* | <<|>>|<=|>=|==|!=|&&|\|\||->|[-+*/%()<>!?:,&|^~\[\]{}.] )"""
)
_BINARY = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor,
    "sqrt": math.sqrt, "sqrtf": math.sqrt, "pow": pow, "powf": pow, "log2": math.log2, "log2f": math.log2, "abs": abs,
    "exp": math.exp, "expf": math.exp, "fmin": min, "fmax": max, "dim3": lambda *extents: extents, "int": int,
    "float": float, "double": float, "unsigned": int, "size_t": int, "make_int2": lambda *e: e, "uint": int,
}  # fmt: skip
_MOST_CHARACTERS = 2000
_LARGEST = 2**62


class _Unknown(Exception):  # noqa: N818 (what the value is)
    """The expression has no value that the text shows."""


def evaluate(text: str, lookup: Lookup) -> Value | None:
    """The value of an expression; None if the text does not show it."""
    try:
        if len(text) > _MOST_CHARACTERS:
            return None
        return _Parser(text, lookup).whole()
    except (_Unknown, ArithmeticError, TypeError, ValueError, IndexError, RecursionError):
        return None


def split_arguments(text: str) -> list[str]:
    """Arguments at the top level of a list: commas inside brackets, and in `<…>` of templates, do not divide it."""
    parts, depth, start = [], 0, 0
    for position, mark in enumerate(text):
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "," and depth == 0:
            piece = text[start:position]
            if piece.count("<") > piece.count(">") and re.search(r"\w<[\w\s:,*<]*$", piece):
                continue
            parts.append(piece.strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def substituted(text: str, values: Mapping[str, str]) -> str:
    """A text with other texts in place of names, all at once: a name in what is put in stays as it is."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: values.get(match[0], match[0]), text)


def closing(text: str, start: int) -> int:
    """Position after the bracket that closes the one at `start`; the end of the text if none does."""
    pairs = {"(": ")", "[": "]", "{": "}", "<": ">"}
    opening, depth = text[start], 0
    for match in re.compile(rf"[\{opening}\{pairs[opening]}]").finditer(text, start):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return match.end()
    return len(text)


class _Parser:
    def __init__(self, text: str, lookup: Lookup) -> None:
        self.text, self.lookup = text, lookup
        self.tokens: list[tuple[str, int]] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _Unknown
            self.tokens.append((match[1], match.start(1)))
            position = match.end()
        self.index = 0

    def whole(self) -> Value:
        value = self.ternary()
        if self.index < len(self.tokens):
            raise _Unknown
        return value

    def peek(self, ahead: int = 0) -> str:
        index = self.index + ahead
        return self.tokens[index][0] if index < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise _Unknown
        self.index += 1
        return token

    def ternary(self) -> Value:
        value = self.binary(0)
        if self.peek() != "?":
            return value
        self.take()
        if not value:
            self.skip_to(":")
            self.take(":")
            return self.ternary()
        chosen = self.ternary()
        self.take(":")
        self.skip_to(")]},:")
        return chosen

    def skip_to(self, marks: str) -> None:
        depth = 0
        while self.peek() and not (depth == 0 and self.peek() in marks):
            depth += (self.peek() in "([{") - (self.peek() in ")]}")
            self.index += 1

    def binary(self, level: int) -> Value:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _BINARY[level]:
            left = _apply(self.take(), left, self.binary(level + 1))
        return left

    def unary(self) -> Value:
        token = self.peek()
        if token in ("-", "+", "!", "~"):
            self.take()
            value: Any = self.unary()
            return {"-": lambda: -value, "+": lambda: value, "!": lambda: int(not value), "~": lambda: ~value}[
                token
            ]()
        if token == "(" and (type_ := self.cast()):
            value = self.unary()
            return float(value) if type_ in ("float", "double") else int(value)
        return self.postfix(self.primary())

    def cast(self) -> str:
        """The type of a cast that stands here, which is taken; empty if none does."""
        words, ahead = [], 1
        while re.fullmatch(r"[A-Za-z_][\w:]*", self.peek(ahead)):
            words.append(self.peek(ahead))
            ahead += 1
        name = " ".join(words)
        if self.peek(ahead) != ")" or name not in SIZES or not re.match(r"[\w(.]", self.peek(ahead + 1) or " "):
            return ""
        self.index += ahead + 1
        return name

    def primary(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.ternary()
            self.take(")")
            return value
        if token == "{":
            return tuple(evaluate(part, self.lookup) for part in self.arguments("}"))
        if re.match(r"[\d.]", token) and token != ".":
            return _number(token)
        if not re.match(r"[A-Za-z_]", token):
            raise _Unknown
        return self.named(token)

    def named(self, name: str) -> Value:
        if name == "sizeof":
            self.take("(")
            inside = " ".join(self.arguments(")")).strip()
            size = 8 if inside.endswith("*") else SIZES.get(inside.removeprefix("const ").strip())
            found = size if size is not None else self.lookup(f"sizeof {inside}", None)
        elif name == "static_cast" or (name.endswith("_cast") and self.peek() == "<"):
            self.skip_to("(")
            self.take("(")
            found = evaluate(",".join(self.arguments(")")), self.lookup)
        elif self.peek() == "(":
            self.take()
            written = self.arguments(")")
            found = self.call(name, written)
        else:
            found = self.assigned_member(name)
            found = self.lookup(name, None) if found is None else found
        if found is None:
            raise _Unknown
        return found

    def assigned_member(self, name: str) -> Value | None:
        """`shape.rows` of a struct to whose member something is assigned; taken if its value is known."""
        if self.peek() != "." or not re.fullmatch(r"[A-Za-z_]\w*", self.peek(1)) or self.peek(2) == "(":
            return None
        found = self.lookup(f"{name}.{self.peek(1)}", None)
        self.index += 2 * (found is not None)
        return found

    def call(self, name: str, written: Sequence[str]) -> Value | None:
        short = name.removeprefix("std::")
        if short in _FUNCTIONS:
            values = [evaluate(part, self.lookup) for part in written]
            if all(value is not None for value in values):
                return _FUNCTIONS[short](*values)
        return self.lookup(name, written)

    def arguments(self, end: str) -> list[str]:
        """Arguments as they are written, up to the closing bracket, which is taken."""
        begin = self.tokens[self.index - 1][1]
        stop = closing(self.text, begin)
        while self.index < len(self.tokens) and self.tokens[self.index][1] < stop - 1:
            self.index += 1
        self.take(end)
        return split_arguments(self.text[begin + 1 : stop - 1])

    def postfix(self, value: Value) -> Value:
        while self.peek() in (".", "["):
            if self.take() == ".":
                value = self.member(value, self.take())
            else:
                inside = self.arguments("]")
                number = evaluate(inside[0], self.lookup)
                if not isinstance(value, tuple):
                    raise _Unknown
                value = value[number if isinstance(number, int) and 0 <= number < len(value) else len(value) // 2]
        return value

    def member(self, value: Value, name: str) -> Value:
        """`block.x` of a `dim3`, of one extent too, and `host.size()` of a container of that many elements."""
        extents = value if isinstance(value, tuple) else (value,)
        if name == "size" and self.peek() == "(" and self.peek(1) == ")":
            self.index += 2
            return extents[0]
        if name not in ("x", "y", "z"):
            raise _Unknown
        return (*extents, 1, 1)["xyz".index(name)]


def _number(token: str) -> int | float:
    plain = token.replace("'", "")
    if plain[:2] in ("0x", "0X"):
        return int(plain.rstrip("uUlL"), 16)
    if re.fullmatch(r"\d+[uUlL]*", plain):
        digits = plain.rstrip("uUlL")
        return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)
    return float(plain.rstrip("fFlL"))


def _apply(operator: str, left: Any, right: Any) -> Any:
    whole = isinstance(left, int) and isinstance(right, int)
    if operator == "<<":
        if not 0 <= right < 63:
            raise _Unknown
        result = left << right
    elif operator == "/":
        result = (
            int(left / right) if whole and (left < 0) != (right < 0) else left // right if whole else left / right
        )
    else:
        result = {
            "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
            "%": lambda: left % right, ">>": lambda: left >> right, "<": lambda: int(left < right),
            ">": lambda: int(left > right), "<=": lambda: int(left <= right), ">=": lambda: int(left >= right),
            "==": lambda: int(left == right), "!=": lambda: int(left != right), "&": lambda: left & right,
            "|": lambda: left | right, "^": lambda: left ^ right, "&&": lambda: int(bool(left and right)),
            "||": lambda: int(bool(left or right)),
        }[operator]()  # fmt: skip
    if isinstance(result, int | float) and abs(result) > _LARGEST:
        raise _Unknown
    return result
