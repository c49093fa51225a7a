"""Arithmetic that files of tuning spaces write as text: sizes, restrictions and lists of values.

Kernel Tuner writes Python and evaluates it. Here only arithmetic is: an expression
of a file that somebody sent cannot do anything but compute.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

from ..errors import InputError, nearest

#: Bits of a number, entries of a list or range, and loops in an expression: more is no arithmetic of a launch.
MOST_BITS, MOST_ENTRIES, MOST_LOOPS = 4096, 4096, 2


def _power(base: Any, exponent: Any, *rest: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MOST_BITS:
        raise OverflowError("the number is too large")
    return pow(base, exponent, *rest)


def _shifted(value: Any, places: Any) -> Any:
    if places > MOST_BITS:
        raise OverflowError("the number is too large")
    return value << places


def _times(one: Any, other: Any) -> Any:
    for some, count in ((one, other), (other, one)):
        if hasattr(some, "__len__") and len(some) * count > MOST_ENTRIES:
            raise OverflowError("the list is too long")
    return one * other


def _range(*limits: int) -> range:
    found = range(*limits)
    if len(found) > MOST_ENTRIES:
        raise OverflowError("the range is too long")
    return found


_OPERATORS = {ast.Pow: "_power", ast.LShift: "_shifted", ast.Mult: "_times"}
_BOUNDED = {"_power": _power, "_shifted": _shifted, "_times": _times}


class _Bounded(ast.NodeTransformer):
    """Operators that can make large things of small ones become calls that check."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = _OPERATORS.get(type(node.op))
        if name is None:
            return node
        call = ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


_FUNCTIONS: Mapping[str, Any] = {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "ceil": math.ceil,
    "float": float,
    "floor": math.floor,
    "int": int,
    "len": len,
    "list": list,
    "log2": math.log2,
    "max": max,
    "min": min,
    "pow": _power,
    "range": _range,
    "round": round,
    "sqrt": math.sqrt,
    "str": str,
    "sum": sum,
    "True": True,
    "False": False,
}
_ALLOWED = (
    ast.Expression,
    ast.BoolOp,
    ast.boolop,
    ast.BinOp,
    ast.operator,
    ast.UnaryOp,
    ast.unaryop,
    ast.Compare,
    ast.cmpop,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.expr_context,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Subscript,
    ast.ListComp,
    ast.GeneratorExp,
    ast.comprehension,
)
MOST_CHARACTERS = 10_000


@dataclass(frozen=True)
class Expression:
    """A text that computes something from the parameters of a configuration."""

    text: str
    where: str
    """The place of the text, for messages."""

    @cached_property
    def _tree(self) -> ast.Expression:
        if len(self.text) > MOST_CHARACTERS:
            raise InputError(f"{self.where}: an expression of {len(self.text)} characters is too long")
        try:
            tree = ast.parse(self.text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            raise InputError(
                f"{self.where}: {self.text!r} is not an expression; write arithmetic as in Python"
            ) from None
        for node in ast.walk(tree):
            if not isinstance(node, _ALLOWED):
                raise InputError(f"{self.where}: {self.text!r}: {ast.unparse(node)!r} is more than arithmetic")
        if sum(isinstance(node, ast.comprehension) for node in ast.walk(tree)) > MOST_LOOPS:
            raise InputError(f"{self.where}: {self.text!r}: has more than {MOST_LOOPS} loops")
        return tree

    @cached_property
    def _code(self) -> CodeType:
        tree = _Bounded().visit(ast.parse(self.text.strip(), mode="eval"))
        return compile(tree, self.where, "eval")

    @cached_property
    def names(self) -> frozenset[str]:
        """What it needs to know: names that are neither functions nor its own variables."""
        names = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        return frozenset(node.id for node in names) - own - set(_FUNCTIONS)

    def require(self, known: Mapping[str, Any]) -> None:
        """Refuse an expression of anything but these parameters."""
        if unknown := self.names - known.keys():
            name = min(unknown)
            raise InputError(f"{self.where}: {self.text!r}: {name!r} is no parameter; {nearest(name, known)}")

    def value(self, known: Mapping[str, Any]) -> Any:
        """What it gives for these parameters. Dividing by zero is the caller's to handle."""
        self.require(known)
        try:
            # Comprehensions see only global names.
            return eval(self._code, {"__builtins__": {}, **_FUNCTIONS, **known, **_BOUNDED})
        except ZeroDivisionError:
            raise
        except Exception as error:
            raise InputError(f"{self.where}: {self.text!r}: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text, "where": self.where}


def whole_value(given: Any, known: Mapping[str, Any], where: str) -> int:
    """A whole number, given as such or by an expression."""
    try:
        value = Expression(given, where).value(known) if isinstance(given, str) else given
    except ZeroDivisionError:
        raise InputError(f"{where}: {given!r} divides by zero") from None
    is_whole = value.is_integer() if isinstance(value, float) else isinstance(value, int)
    if isinstance(value, bool) or not is_whole:
        raise InputError(f"{where}: {given!r} gives {value!r}, not a whole number")
    return int(value)


def names_in(given: Any, where: str) -> Iterable[str]:
    """The parameters that a value of a file depends on: one, a list of them, or none where it is a number."""
    if isinstance(given, str):
        return Expression(given, where).names
    return [name for each in given for name in names_in(each, where)] if isinstance(given, list) else ()
