"""Mutations of Python source: lists those of a file, and compiles a function with one of them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

#: Names from these modules decorate functions that Numba compiles.
COMPILERS = ("jit", "compiled", "numba")
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "ceil": "floor", "floor": "ceil"}
CALLS |= {"any": "all", "all": "any"}


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """All mutations of a node."""

    def with_(**values: Any) -> Any:
        made = copy.copy(node)
        for name, value in values.items():
            setattr(made, name, value)
        return made

    match node:
        case ast.Compare(ops=[op]):
            yield with_(ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in ARITHMETIC:
            yield with_(op=ARITHMETIC[type(op)]())
        case ast.Constant(value=bool(value)):
            yield with_(value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield with_(value=value + 1)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case (
            ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test)
            | ast.IfExp(test=ast.Name() | ast.Attribute() | ast.Call() as test)
        ):
            yield with_(test=ast.copy_location(ast.UnaryOp(ast.Not(), test), test))
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield with_(func=ast.copy_location(ast.Name(CALLS[name], ast.Load()), node.func))
        case ast.Call(func=ast.Attribute(attr="where"), args=[condition, yes, no]):
            yield with_(args=[condition, no, yes])
        case ast.Call(func=ast.Attribute(attr=name)) if name in CALLS:
            func = copy.copy(node.func)
            func.attr = CALLS[name]
            yield with_(func=func)


@dataclass(frozen=True)
class Mutant:
    """One change of one function."""

    file: str
    line: int
    column: int
    function: str
    before: str
    after: str
    kernel: bool
    place: tuple[int, int] = field(compare=False)
    """Index of the node in the module, and index of the change."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.function}: {self.before} → {self.after}"


def _short(node: ast.AST) -> str:
    node = ast.Expr(node.test) if isinstance(node, ast.If) else node
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:60] + " … " + text[-27:]


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes to mutate: no annotations, messages, decorators or defaults."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.arguments | ast.ImportFrom | ast.Import):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _inside(child)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of the module and methods of its classes; functions inside them belong to them."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    yield f"{node.name}.{child.name}", child


def _compilers(tree: ast.Module) -> set[str]:
    """Names in a module that compile what they decorate."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    chosen = [node for node in imports if (node.module or "").split(".")[-1] in COMPILERS]
    return {name.asname or name.name for node in chosen for name in node.names}


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    positions = {id(node): index for index, node in enumerate(ast.walk(tree))}
    compilers = _compilers(tree)
    found = []
    for name, function in _functions(tree):
        decorators = {ast.unparse(each).split("(")[0].split(".")[-1] for each in function.decorator_list}
        for statement in function.body:
            for node in _inside(statement):
                for index, new in enumerate(changed(node)):
                    found.append(
                        Mutant(
                            file=str(path.relative_to(root)),
                            line=node.lineno,
                            column=node.col_offset,
                            function=name,
                            before=_short(node),
                            after=_short(new),
                            kernel=bool(compilers & decorators),
                            place=(positions[id(node)], index),
                        )
                    )
    return found


def mutated_code(mutant: Mutant, root: Path) -> CodeType:
    """The code of the mutant's function."""
    path = root / mutant.file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[mutant.place[0]]
    new = list(changed(node))[mutant.place[1]]

    class Exchange(ast.NodeTransformer):
        def visit(self, found: ast.AST) -> ast.AST:
            return new if found is node else self.generic_visit(found)

    tree = ast.fix_missing_locations(Exchange().visit(tree))
    code: CodeType = compile(tree, str(path), "exec", dont_inherit=True)
    for name in mutant.function.split("."):
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)
    return code


def function_of(module: Any, name: str) -> FunctionType:
    """The plain function behind a name of a module, whatever it is wrapped in."""
    found: Any = module
    for part in name.split("."):
        found = vars(found)[part]
    while not isinstance(found, FunctionType):
        if isinstance(found, property):
            found = found.fget
        elif isinstance(found, cached_property):
            found = found.func
        else:
            found = getattr(found, "__wrapped__", None) or found.__func__
    return found
