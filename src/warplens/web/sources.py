"""Checks the source and launch of a CUDA kernel that a visitor pastes."""

from __future__ import annotations

import re
from typing import Any

from ..errors import InputError
from ..frontends.cuda.arguments import FILLS
from ..frontends.cuda.compile import kernel_names
from ..frontends.cuda.headers import STANDARD_HEADERS
from ..tomlfile import TomlFile
from ..workload.source import CudaLaunch, cuda_launch_of
from .errors import FieldError

MOST_SOURCE_BYTES = 64 * 2**10
MOST_ARGUMENTS = 32
MOST_MEMBERS = 64
#: Of all arrays together; they are held twice while a kernel runs.
MOST_ARRAY_BYTES = 256 * 2**20
#: What messages and the page call the source.
SOURCE_NAME = "kernel.cu"

#: What <…> may name: the compiler looks among its own headers alone, and says so where it has none of that name.
_OWN_HEADER = re.compile(r"\w+(/\w+)*(\.\w+)?")
#: What "…" may name, which looks beside the source first.
_HEADERS = re.compile(
    r"cuda_\w+\.h|mma\.h|math_constants\.h|cuComplex\.h|vector_types\.h|cooperative_groups(/[a-z_]+)?\.h|cuda/[a-z_/]+"
)
#: A word that can bring in a file, wherever it stands.
_BRINGS_FILES = re.compile(r"\b(include\w*|import|embed|__has_include\w*|__has_embed)\b")
_DIRECTIVE = re.compile(r'\s*#\s*include\s*(?:<([\w./]+)>|"([\w./]+)")\s*(?://[^\n]*)?')
_CAN_BE_DIRECTIVE = ("#", "%:", "??=", "*/")

_FILLS = [name for name in FILLS if name not in ("file", "function")]


def check_source(text: Any) -> str:
    """The text, if it is small enough and includes nothing but the compiler's own headers."""
    if not isinstance(text, str) or not text.strip():
        raise FieldError("source", "paste the source of a CUDA kernel")
    if len(text.encode("utf-8", "replace")) > MOST_SOURCE_BYTES:
        raise FieldError("source", f"is larger than {MOST_SOURCE_BYTES >> 10} KiB")
    if "\0" in text:
        raise FieldError("source", "holds a NUL character: not CUDA C++")
    # What the preprocessor sees: lines that end in a backslash go on, whatever follows it on the line.
    joined = re.sub(r"(\\|\?\?/)[ \t\v\f\r]*\n", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    for line in joined.split("\n"):
        if not any(mark in line for mark in _CAN_BE_DIRECTIVE):
            continue
        if not _BRINGS_FILES.search(line) and not ("#" in line and re.search(r"\\[uUN]", line)):
            continue
        match = _DIRECTIVE.fullmatch(line)
        if not match or not (
            (match[1] and _OWN_HEADER.fullmatch(match[1]))
            or (match[2] and (match[2] in STANDARD_HEADERS or _HEADERS.fullmatch(match[2])))
        ):
            raise FieldError(
                "source",
                f"{line.strip()[:80]!r}: only headers that come with the compiler can be included, "
                "such as <cuda_fp16.h>, each on a line of its own",
            )
    return text


def launch_of(document: Any) -> CudaLaunch:
    """The launch that a page describes, checked as a workload file would be."""
    if not isinstance(document, dict):
        raise FieldError("source", "the request is not a JSON object")
    source = check_source(document.get("source"))
    arguments = document.get("arguments", [])
    if not isinstance(arguments, list) or len(arguments) > MOST_ARGUMENTS:
        raise FieldError("arguments", f"must be a list of at most {MOST_ARGUMENTS} arguments")
    for index, row in enumerate(arguments):
        members = row.get("members", []) if isinstance(row, dict) else []
        if not isinstance(members, list) or len(members) > MOST_MEMBERS:
            raise FieldError(f"arguments.{index}", f"must have a list of at most {MOST_MEMBERS} members")
        for each in (row, *members):
            _check_argument(each, f"arguments.{index}.fill")
        if any("members" in each for each in members):
            raise FieldError(f"arguments.{index}", "a page takes no structs in structs")
    kernel = document.get("kernel", "")
    if not isinstance(kernel, str) or not re.fullmatch(r"[\w:<>, ]{0,200}", kernel):
        raise FieldError("kernel", "is not the name of a kernel")
    names = kernel_names(source)
    if not kernel and len(names) != 1:
        told = f"the source has {', '.join(names)}; choose one" if names else "the source has no __global__ function"
        raise FieldError("kernel", told)
    kernel = kernel or names[0]
    table = {"code": source, "arguments": arguments, "kernel": kernel}
    table |= {key: document[key] for key in ("grid", "block", "dynamic_shared_memory_bytes") if key in document}
    try:
        launch = cuda_launch_of(TomlFile(SOURCE_NAME, "", {"name": kernel, "cuda": table}))
    except InputError as error:
        raise _blamed(str(error)) from None
    total = sum(argument.nbytes for argument in launch.arguments)
    if total > MOST_ARRAY_BYTES:
        largest = max(range(len(launch.arguments)), key=lambda index: launch.arguments[index].nbytes)
        raise FieldError(
            f"arguments.{largest}.shape",
            f"the arrays hold {total:,} bytes together; at most {MOST_ARRAY_BYTES:,} are taken by the page",
        )
    return launch


def _check_argument(row: Any, field: str) -> None:
    if not isinstance(row, dict) or row.get("fill", "zeros") not in _FILLS:
        raise FieldError(field, f"must be one of {', '.join(_FILLS)}")
    if {"file", "function"} & row.keys():
        raise FieldError(field, "a page cannot read files")


def _blamed(text: str) -> FieldError:
    """A complaint about the launch, at the field of the page."""
    match = re.match(rf"{re.escape(SOURCE_NAME)}(?::\d+)?: (?:cuda\.)?([\w.\[\]]+): (.*)", text, re.S)
    if not match:
        return FieldError("source", text.removeprefix(f"{SOURCE_NAME}: "))
    field = re.sub(r"\[(\d+)\]", r".\1", match[1])
    return FieldError("source" if field == "code" else field, match[2])
