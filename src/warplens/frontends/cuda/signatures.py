"""Kernels of a CUDA source with the parameters that its text shows, and a first workload file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .compile import kernel_names, without_comments

#: Most kernels of one source to report.
MOST_SIGNATURES = 64
_TYPES = {
    "bool": "bool", "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "signed": "int32", "unsigned": "uint32", "unsigned int": "uint32",
    "long": "int64", "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "size_t": "uint64", "float": "float32", "double": "float64", "__half": "float16", "half": "float16",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def signatures(source: str) -> list[dict[str, Any]]:
    """Kernels of a source with the parameters that its text shows."""
    plain = without_comments(source)
    found = []
    for name in kernel_names(source)[:MOST_SIGNATURES]:
        match = re.search(rf"\b{re.escape(name)}\s*\(([^)]{{0,2000}})\)", plain)
        rows = [_parameter(part) for part in match[1].split(",") if part.strip()] if match else []
        found.append({"kernel": name, "parameters": rows})
    return found


def _parameter(text: str) -> dict[str, Any]:
    pointer = "*" in text or "[" in text
    words = re.sub(r"__restrict__|\bconst\b|\bvolatile\b|\brestrict\b|\[.*|[*&]|=.*", " ", text).split()
    name = words.pop() if len(words) > 1 else "argument"
    return {"name": name, "pointer": pointer, "dtype": _TYPES.get(" ".join(words))}


def first_launch(path: Path) -> str:
    """A workload file for the first kernel of a source: sizes are placeholders."""
    found = signatures(path.read_text(encoding="utf-8", errors="replace"))
    blocks, threads = 1024, 256
    kernel: dict[str, Any] = found[0] if found else {"kernel": "", "parameters": []}
    lines = ["[cuda]", f'source = "{path.name}"', f'kernel = "{kernel["kernel"]}"']
    lines += [f"grid = [{blocks}]", f"block = [{threads}]"]
    for each in kernel["parameters"]:
        dtype = each["dtype"] or "float32"
        lines += [f"[[cuda.arguments]] # {each['name']}", f'dtype = "{dtype}"']
        if each["pointer"]:
            lines += [f"shape = [{blocks * threads}]", 'fill = "random"']
        else:
            lines += [f"value = {1.0 if dtype.startswith('float') else blocks * threads}"]
    return "\n".join(lines)
