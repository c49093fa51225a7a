"""Functions are short and shallow enough to read at once, and modules short enough to find something in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "studies/src")
#: Where modules are short too.
OTHERS = ("tests", "benchmarks", "scripts")
MODULE_LINES = 500
FUNCTION_LINES = 80
NESTING = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def functions() -> Iterator[tuple[str, Function]]:
    """Every function, methods and functions within others too, by its file and name."""
    for path in modules(*FOLDERS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)} {node.name}", node


def nesting(node: ast.AST) -> int:
    """Blocks within one another. `elif` is as deep as its `if`; functions and classes inside count on their own."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (Function, ast.ClassDef)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, nesting(child) + (isinstance(child, BLOCKS) and not is_elif))
    return deepest


def is_too_big(function: Function) -> bool:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno >= FUNCTION_LINES or nesting(function) > NESTING


def test_functions_are_short_and_shallow():
    assert not [name for name, function in functions() if is_too_big(function)]


def test_modules_are_short():
    assert not [path for path in modules(*FOLDERS, *OTHERS) if len(path.read_text().splitlines()) > MODULE_LINES]


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("x = 1", 0),
        ("if a:\n  x = 1\nelif b:\n  x = 2\nelse:\n  x = 3", 1),
        ("if a:\n  x = 1\nelse:\n  if b:\n    x = 2\n  y = 1", 2),
        ("for a in b:\n  try:\n    with c:\n      x = 1\n  except E:\n    x = 2", 3),
        ("while a:\n  match b:\n    case 1:\n      x = 1", 2),
        ("if a:\n  def f():\n    if b:\n      x = 1", 1),
    ],
)
def test_nesting_is_counted_in_blocks(source, depth):
    assert nesting(ast.parse(source)) == depth
