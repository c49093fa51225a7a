"""Kernels of a CUDA source with the parameters that its text shows, and a first workload file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .compile import kernel_names, without_comments

#: Most kernels of one source to report.
MOST_SIGNATURES = 64
#: dtypes of arguments by their names in CUDA C++.
TYPES = {
    "bool": "bool", "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "signed": "int32", "unsigned": "uint32", "unsigned int": "uint32",
    "long": "int64", "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "size_t": "uint64", "float": "float32", "double": "float64", "__half": "float16", "half": "float16",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


#: Vector types that are passed by value, and their members.
_VECTORS = {
    f"{name}{count}": (dtype, "xyzw"[:count])
    for name, dtype in (("float", "float32"), ("double", "float64"), ("int", "int32"), ("uint", "uint32"))
    for count in (2, 3, 4)
} | {"dim3": ("uint32", "xyz")}
#: Elements of an array in a struct that get a field each.
_MOST_ELEMENTS = 16


def signatures(source: str) -> list[dict[str, Any]]:
    """Kernels of a source with their parameters, as far as the text shows them.

    `template` lists what a kernel's template needs; `members` those of a struct that is passed by value.
    """
    plain = without_comments(source)
    structs = _structs(plain)
    found: list[dict[str, Any]] = []
    for name in kernel_names(source)[:MOST_SIGNATURES]:
        match = re.search(rf"\b{re.escape(name)}\s*\(([^)]{{0,2000}})\)", plain)
        if match is None:
            found.append({"kernel": name, "parameters": []})
            continue
        template = _template(plain, match.start())
        types = {each["name"] for each in template if each["kind"] == "type"}
        rows = [_parameter(part, structs, types) for part in match[1].split(",") if part.strip()]
        found.append({"kernel": name, "parameters": rows} | ({"template": template} if template else {}))
    return found


def _template(plain: str, end: int) -> list[dict[str, str]]:
    """Parameters of the template that a kernel's name ends: types, and numbers with their dtype."""
    start = plain.rfind("template", max(0, end - 1000), end)
    match = re.fullmatch(r"template\s*<([^<>;{}]*)>[^;{}]*", plain[start:end]) if start >= 0 else None
    found = []
    for part in match[1].split(",") if match else ():
        words, _, default = part.partition("=")
        *kind, name = words.split() or [""]
        is_type = kind[:1] in (["typename"], ["class"])
        found.append({"name": name, "kind": "type" if is_type else "value", "default": default.strip()})
    return [each for each in found if each["name"]]


def _structs(plain: str) -> dict[str, list[dict[str, Any]]]:
    """Members of the structs of a source that has plain ones, by name."""
    found = {name: [{"name": each, "pointer": False, "dtype": dtype} for each in members]
             for name, (dtype, members) in _VECTORS.items()}  # fmt: skip
    for match in re.finditer(r"\bstruct\s*(\w*)\s*\{([^{}]{0,4000})\}\s*(\w*)", plain):
        members = [each for line in match[2].split(";") if line.strip() for each in _members(line)]
        for name in (match[1], match[3]):
            if name and members:
                found[name] = members
    return found


def _members(declaration: str) -> list[dict[str, Any]]:
    """`const float *a, b[2]` has three: *a, b[0] and b[1]."""
    first, *others = declaration.split(",")
    dtype = _parameter(first)["dtype"]
    found = []
    for part in (first, *others):
        size = re.search(r"\[\s*(\d{1,2})\s*\]", part)
        name = re.sub(r"\[.*", "", part).replace("*", " ").split()[-1:] or [""]
        count = min(int(size[1]), _MOST_ELEMENTS) if size else 0
        names = [f"{name[0]}[{index}]" for index in range(count)] or name
        found += [{"name": each, "pointer": "*" in part, "dtype": dtype} for each in names]
    return found


def _parameter(
    text: str, structs: Mapping[str, list[dict[str, Any]]] | None = None, types: Collection[str] = ()
) -> dict[str, Any]:
    pointer = "*" in text or "[" in text
    words = re.sub(r"__restrict__|__grid_constant__|\b(const|volatile|restrict|struct)\b|\[.*|[*&]|=.*", " ", text)
    *kind, name = words.split() or ["argument"]
    if not kind:
        kind, name = [name], "argument"
    named = " ".join(kind)
    found = {"name": name, "pointer": pointer, "dtype": TYPES.get(named)}
    if named in types:
        found["type"] = named
    if not pointer and named in (structs or {}):
        found["members"] = (structs or {})[named]
    return found


def first_launch(path: Path) -> str:
    """A workload file for the first kernel of a source: sizes are placeholders."""
    found = signatures(path.read_text(encoding="utf-8", errors="replace"))
    blocks, threads = 1024, 256
    kernel: dict[str, Any] = found[0] if found else {"kernel": "", "parameters": []}
    lines = ["[cuda]", f'source = "{path.name}"', f'kernel = "{kernel["kernel"]}"']
    lines += [f"grid = [{blocks}]", f"block = [{threads}]"]
    for each in kernel["parameters"]:
        lines.append(f"[[cuda.arguments]] # {each['name']}")
        if "members" in each:
            members = ", ".join(f"{{ {', '.join(_value(member, blocks * threads))} }}" for member in each["members"])
            lines.append(f"members = [{members}]")
        else:
            lines += _value(each, blocks * threads)
    return "\n".join(lines)


def _value(parameter: Mapping[str, Any], elements: int) -> list[str]:
    dtype = parameter["dtype"] or "float32"
    if parameter["pointer"]:
        return [f'dtype = "{dtype}"', f"shape = [{elements}]", 'fill = "random"']
    return [f'dtype = "{dtype}"', f"value = {1.0 if dtype.startswith('float') else elements}"]
