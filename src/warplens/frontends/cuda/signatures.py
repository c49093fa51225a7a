"""Kernels of a CUDA source with the parameters that its text shows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .compile import kernel_names, without_comments
from .expressions import closing, split_arguments
from .host_code import scrubbed

#: Most kernels of one source to report.
MOST_SIGNATURES = 64
#: dtypes of arguments by their names in CUDA C++.
TYPES = {
    "bool": "bool", "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "signed": "int32", "unsigned": "uint32", "unsigned int": "uint32",
    "long": "int64", "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "size_t": "uint64", "float": "float32", "double": "float64", "__half": "float16", "half": "float16",
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


#: Objects that describe an array to the texture units.
TEXTURES = ("cudaTextureObject_t", "cudaSurfaceObject_t", "CUtexObject", "CUsurfObject")
#: Vector types that are passed by value, and their members.
VECTORS = {
    f"{name}{count}": (dtype, "xyzw"[:count])
    for name, dtype in (("float", "float32"), ("double", "float64"), ("int", "int32"), ("uint", "uint32"))
    for count in (2, 3, 4)
} | {"dim3": ("uint32", "xyz"), "half2": ("float16", "xy"), "__half2": ("float16", "xy"), "uchar4": ("uint8", "xyzw")}
#: Braces within each other in a struct.
_MOST_NESTED = 8
#: Characters from `template` to the kernel's name, comments among them.
_MOST_TEMPLATE = 8000
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
    start = plain.rfind("template", max(0, end - _MOST_TEMPLATE), end)
    match = re.fullmatch(r"template\s*<([^<>;{}]*)>[^;{}]*", plain[start:end]) if start >= 0 else None
    found = []
    for part in match[1].split(",") if match else ():
        words, _, default = part.partition("=")
        *kind, name = words.split() or [""]
        is_type = kind[:1] in (["typename"], ["class"])
        found.append({"name": name, "kind": "type" if is_type else "value", "default": default.strip()})
        if kind[-1:] == ["bool"]:
            found[-1]["type"] = "bool"
    return [each for each in found if each["name"]]


def _structs(plain: str) -> dict[str, list[dict[str, Any]]]:
    """Members of the structs of a source that has plain ones, by name."""
    found = {name: [{"name": each, "pointer": False, "dtype": dtype} for each in members]
             for name, (dtype, members) in VECTORS.items()}  # fmt: skip
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


@dataclass(frozen=True)
class KernelSource:
    """A kernel as its source has it; parameters are texts."""

    name: str
    qualified_name: str
    """With the namespaces around it."""
    head: str
    template: list[dict[str, str]]
    parameters: list[str]
    body: tuple[int, int]


def kernel_source(text: str) -> list[KernelSource]:
    """The kernels that a source defines, in order."""
    plain = scrubbed(text)
    hidden = re.sub(
        r"__(?:launch_bounds|cluster_dims|maxnreg|block_size)__\s*\([^;{}]*?\)(?=\s*\w)",
        lambda match: " " * len(match[0]),
        plain,
    )
    found: dict[str, KernelSource] = {}
    heads = re.finditer(r"__global__([^;{}()]{0,500}?)\b(\w+)\s*\(", hidden)
    for match in itertools.islice(heads, 4 * MOST_SIGNATURES):
        end = closing(plain, match.end() - 1)
        opening = re.match(r"\s*\{", plain[end:])
        if opening is None:  # a declaration
            continue
        begin = end + opening.end()
        parameters = [part for part in split_arguments(plain[match.end() : end - 1]) if part != "void"]
        template = _template(plain, match.start(2))
        name = "::".join((*_namespaces(plain[: match.start()]), match[2]))
        head = plain[max(0, match.start() - 300) : end]
        kernel = KernelSource(match[2], name, head, template, parameters, (begin, closing(plain, begin - 1)))
        found.setdefault(match[2], kernel)
    return list(found.values())


def _namespaces(before: str) -> list[str]:
    """Named namespaces that are open at the end of a text."""
    found: list[str | None] = []
    for match in re.finditer(r"\bnamespace\s+([\w:]+)?\s*\{|[{}]", before):
        if match[0] == "}":
            found = found[:-1]
        else:
            found.append(match[1])
    return [name for name in found if name]


def struct_members(name: str, text: str) -> list[tuple[str, str]]:
    """(Name, type) of the members of a plain struct or of a vector type; a pointer's type ends in `*`."""
    if name in VECTORS:
        dtype, members = VECTORS[name]
        return [(each, next(key for key, value in TYPES.items() if value == dtype)) for each in members]
    found = []
    for line in _struct_body(name, scrubbed(text)).split(";"):
        if not line.strip() or "(" in line:
            continue
        first, *others = split_arguments(line)
        kind = re.match(r"\s*((?:[\w:]+\s+)*[\w:]+(?:\s*<[^<>]*>)?)(?=[\s*&]+[\w*])", first)
        for part in (first, *others) if kind else ():
            assert kind is not None
            size = re.search(r"\[\s*(\d{1,2})\s*\]", part)
            member = (re.findall(r"\w+", re.sub(r"[\[=].*", "", part)) or [""])[-1]
            for _ in range(min(int(size[1]), _MOST_ELEMENTS) if size else 1):
                found.append((member, kind[1] + (" *" if "*" in part else "")))
    return found


def _struct_body(name: str, plain: str) -> str:
    """What stands between the braces of a struct, without functions, and with the arguments of its template."""
    base, _, written = name.rstrip("> ").partition("<")
    if not re.fullmatch(r"\w+", base.strip()):
        return ""
    head = rf"\b(?:struct|class)\s+(?:alignas\([^)]*\)\s*)?{re.escape(base.strip())}\s*(?:final\s*)?\{{"
    if match := re.search(head, plain):
        body = plain[match.end() : closing(plain, match.end() - 1) - 1]
        for _ in range(_MOST_NESTED):
            body = re.sub(r"[^;{}]*\{[^{}]*\}", " ", body)
        names = [each["name"] for each in _template(plain, match.end() - 1)]
        for parameter, argument in zip(names, split_arguments(written), strict=False):
            body = re.sub(rf"\b{re.escape(parameter)}\b", argument.replace("\\", r"\\"), body)
        return re.sub(r"\b(?:public|private|protected)\s*:", " ", body)
    match = re.search(rf"\bstruct\s*\w*\s*\{{([^{{}}]{{0,4000}})\}}\s*{re.escape(base)}\s*;", plain)
    return match[1] if match else ""
