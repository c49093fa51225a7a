"""A first workload file for a CUDA source: the launch that its host code shows, and guesses where it shows none."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import WorkloadError, nearest
from .conditional import without_skipped_branches
from .draft_rows import GUESSED, ITEM_BYTES, Row, grown, leaves
from .expressions import Value, split_arguments
from .headers import folders_nearby, included_files
from .host_calls import HostCode, HostLaunch, parameter_name
from .launch_macros import with_launch_macros
from .signatures import TEXTURES, TYPES, VECTORS, kernel_source
from .usual_sizes import DEVICE, USUAL, Sizes, is_small, usual_size

#: A grid that is computed from several guesses may be their product; one larger than this is guessed itself.
_MOST_GUESSED_BLOCKS = 1 << 20
_ROW_STARTS = re.compile(
    r"(?i)(row|col)?_?(ptrs?|offsets?|starts?|begins?)|(row|col)_?(ptrs?|offsets?|index)|indptr|offsets?"
)


def bare(kernel: str) -> str:
    """A kernel's name without namespaces and template arguments."""
    return kernel.partition("<")[0].rpartition("::")[2].strip()


@dataclass(frozen=True)
class Draft:
    """A launch to be written as a workload file. Every value says where it comes from."""

    path: Path
    kernel: str
    kernels: tuple[str, ...]
    kernel_source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    launch_source: str
    shared_bytes: int = 0
    shared_source: str = ""
    rows: tuple[Row, ...] = ()
    blocks: int | None = None
    """Thread blocks to record, if not all."""
    launch_count: int = 0
    """How often the host code launches the kernel."""
    include: tuple[str, ...] = ()
    """Folders of headers, from that of the source."""
    notes: tuple[str, ...] = ()

    @property
    def guesses(self) -> list[dict[str, Any]]:
        """What was guessed: key, value and, of an argument, its name."""
        found: list[dict[str, Any]] = []
        if self.kernel_source == GUESSED:
            found.append({"key": "kernel", "value": self.kernel})
        if self.launch_source == GUESSED:
            found += [{"key": "grid", "value": list(self.grid)}, {"key": "block", "value": list(self.block)}]
        if self.include:
            found.append({"key": "include", "value": list(self.include)})
        if self.shared_source == GUESSED:
            found.append({"key": "dynamic_shared_memory_bytes", "value": self.shared_bytes})
        if self.blocks is not None:
            found.append({"key": "record.blocks", "value": self.blocks})
        for row in self.rows:
            for part in leaves(row):
                if part.is_guessed or part.high is not None:
                    found.append({"key": "arguments", "name": row.name, "value": part.pairs})
        return found

    def toml(self) -> str:
        """The workload file. Guesses are marked where they stand."""
        lines = [f"# Written by `warplens init {self.path.name}`. Values marked `{GUESSED}` are not in the source."]
        lines += [f"# {note}" for note in self.notes]
        if len(self.kernels) > 1:
            lines.append(f"# Kernels of the source: {', '.join(self.kernels)}")
        name = bare(self.kernel) if len(self.kernels) > 1 else self.path.stem
        lines += [f"name = {_text(name)}", "", "[cuda]", f"source = {_text(self.path.name)}"]
        if self.include:
            lines.append(_marked(f"include = [{', '.join(map(_text, self.include))}]", GUESSED))
        lines.append(_marked(f"kernel = {_text(self.kernel)}", self.kernel_source))
        lines.append(_marked(f"grid = {list(self.grid)}", self.launch_source))
        lines.append(_marked(f"block = {list(self.block)}", self.launch_source))
        if self.shared_bytes:
            lines.append(_marked(f"dynamic_shared_memory_bytes = {self.shared_bytes}", self.shared_source))
        for row in self.rows:
            lines += ["", f"[[cuda.arguments]] # {row.name}"]
            if row.members:
                lines += [
                    "members = [",
                    *(line for member in row.members for line in _member_lines(member, "  ")),
                    "]",
                ]
            else:
                found = [f"{key} = {_toml(value)}" for key, value in row.pairs.items()]
                lines += [*found[:-1], _marked(found[-1], row.source)] if row.value is not None else [
                    found[0], _marked(found[1], row.source), *found[2:]
                ]  # fmt: skip
        if self.blocks is not None:
            lines += ["", "[record]", _marked(f"blocks = {self.blocks}", f"{GUESSED}: all would take long")]
        return "\n".join(lines) + "\n"

    def with_array_bytes(self, argument: int, least_bytes: int) -> Draft:
        """The draft with a larger array."""
        row = self.rows[argument]
        rows = (*self.rows[:argument], grown(row, least_bytes), *self.rows[argument + 1 :])
        # Where the size in the source is not enough, indices were not to blame.
        return replace(self, rows=rows if row.is_guessed else _with_highs(rows))

    def with_lower_highs(self) -> Draft:
        """The draft with smaller random numbers, which may be indices; the same where they are as small as can be."""

        def lower(row: Row) -> Row:
            return replace(row, high=row.high and max(row.high // 2, 1), members=tuple(map(lower, row.members)))

        return replace(self, rows=tuple(map(lower, self.rows)))


def _member_lines(row: Row, indent: str) -> list[str]:
    """A member of a struct, which may be one itself."""
    if row.members:
        inner = [line for member in row.members for line in _member_lines(member, indent + "  ")]
        return [f"{indent}{{ members = [ # {row.name}", *inner, f"{indent}] }},"]
    inside = ", ".join(f"{key} = {_toml(value)}" for key, value in row.pairs.items())
    return [_marked(f"{indent}{{ {inside} }},", ", ".join(each for each in (row.name, row.source) if each))]


def _marked(text: str, source: str) -> str:
    return f"{text} # {source}" if source else text


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {_toml(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return _text(value) if isinstance(value, str) else str(value)


def draft_of(path: Path, kernel: str | None = None, which: int = 0, sizes: Sizes = USUAL) -> Draft:
    """The draft for one kernel of a source: the one named, else the first that host code launches, else the first.

    `which` of the launches of that kernel is drafted, if it has several.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    folders = folders_nearby(text, path.parent)
    headers = included_files(text, path.parent, [path.parent, *folders]) or {}
    texts = {Path(name).name: raw.decode("utf-8", "replace") for name, raw in headers.items()}
    starts = []
    for name, header in texts.items():
        starts.append((name, text.count("\n") + 2))
        text = f"{text}\n{header}"
    drafts: list[_Drafting] = []
    # Builds define macros too: a branch that is off counts where nothing else launches the kernel.
    for each in dict.fromkeys((without_skipped_branches(text), text)):
        with suppress(_NoKernelError) if each != text and not drafts else nullcontext():
            drafts.append(_Drafting(path, each, tuple(starts), kernel, which, sizes))
            if drafts[-1].launch is not None:
                break
    draft = next((each for each in drafts if each.launch), drafts[0]).draft()
    return replace(draft, include=tuple(os.path.relpath(each, path.parent) for each in folders))


class _NoKernelError(WorkloadError):
    """The source has no such kernel."""


class _Drafting:
    def __init__(
        self,
        path: Path,
        text: str,
        headers: tuple[tuple[str, int], ...],
        wanted: str | None,
        which: int,
        sizes: Sizes,
    ) -> None:
        self.path, self.sizes = path, sizes
        self.assumed: dict[str, Value] = {}
        #: How often a guess was used for a name.
        self.guesses = 0
        self.host = HostCode(with_launch_macros(text), self._assume, headers)
        self.kernels = kernel_source(self.host.text)
        names = [each.name for each in self.kernels]
        if not names:
            raise _NoKernelError(f"{path}: no __global__ function can be seen in it; name a source that has one")
        base = bare(wanted or "")
        if base and base not in names:
            raise _NoKernelError(f"{path}: has no kernel {wanted!r}; {nearest(base, names)}")
        launched = [each.kernel for each in self.host.launches if each.kernel in names]
        chosen = base or (launched or names)[0]
        self.wanted = wanted
        self.kernel = next(each for each in self.kernels if each.name == chosen)
        launches = [each for each in self.host.launches if each.kernel == chosen]
        begin, end = self.kernel.body
        self.body = self.host.text[begin:end]
        launches.sort(key=self._passed_over)
        self.launch = launches[min(which, len(launches) - 1)] if launches else None
        self.launch_count = len(launches)

    def _passed_over(self, launch: HostLaunch) -> int:
        """2 if the launch is of another instance or one of its conditions fails, 1 if guesses say so, else 0."""
        written = split_arguments((self.wanted or "").partition("<")[2].rpartition(">")[0])
        if written and launch.template and written != list(launch.template):
            return 2
        by_guess = 0
        for condition in self.host.conditions(launch.position):
            before = self.guesses
            if self.host.value(condition, launch.position) == 0:
                if self.guesses == before:
                    return 2
                by_guess = 1
        return by_guess

    def _assume(self, name: str) -> Value | None:
        """A guess for a name whose value the source does not show."""
        property_of_device = DEVICE.get(name.rpartition(".")[2])
        if property_of_device is not None and "." in name:
            self.guesses += 1
            return property_of_device
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in ("argv", "stream", "nullptr", "NULL"):
            return None
        self.guesses += 1
        return self.assumed.setdefault(name, self._guess(name))

    def _guess(self, name: str) -> int:
        return usual_size(name, self.sizes, is_flat=self.is_flat, has_dimensions=self.has_dimensions)

    @cached_property
    def has_dimensions(self) -> bool:
        """Whether the kernel takes the sizes of several dimensions, as M, N and K of a product."""
        plain = (text for text in self.kernel.parameters if not re.search(r"[*\[&]|float|double|bool", text))
        return sum(not is_small(parameter_name(text)) for text in plain) > 1

    @property
    def is_flat(self) -> bool:
        """Whether the kernel uses one dimension only."""
        return not re.search(r"\b(threadIdx|blockIdx|blockDim)\s*\.\s*y\b", self.body)

    def draft(self) -> Draft:
        template, template_source = self._template()
        bound = {each["name"]: value for each, value in zip(self.kernel.template, template, strict=False)}
        name = self.kernel.qualified_name + (f"<{', '.join(template)}>" if template else "")
        kernel_from = template_source if template and "<" not in (self.wanted or "") else ""
        grid, block, shared, launch_from, shared_from = self._configuration(bound)
        threads = math.prod(grid) * math.prod(block)
        rows = tuple(self._row(index, text, bound, threads) for index, text in enumerate(self.kernel.parameters))
        return Draft(
            path=self.path,
            kernel=name if self.wanted is None or "<" not in self.wanted else self.wanted,
            kernels=tuple(each.name for each in self.kernels),
            kernel_source=kernel_from,
            grid=grid,
            block=block,
            launch_source=launch_from,
            shared_bytes=shared,
            shared_source=shared_from,
            rows=_with_highs(rows),
            launch_count=self.launch_count,
        )

    # -- template and configuration ------------------------------------------------------------------

    def _template(self) -> tuple[list[str], str]:
        """Arguments of the kernel's template, and where they come from."""
        if self.wanted and "<" in self.wanted:
            return split_arguments(self.wanted.partition("<")[2].rpartition(">")[0]), ""
        if not self.kernel.template:
            return [], ""
        given: Sequence[str] = self.launch.template if self.launch else ()
        source = self.launch.place if self.launch else GUESSED
        instance = rf"\btemplate\s+__global__[^;<>]*\b{re.escape(self.kernel.name)}\s*<([^;()]*)>\s*\("
        if not given and (match := re.search(instance, self.host.plain)):
            given, source = split_arguments(match[1]), self.host.place(match.start())
        found = []
        for index, each in enumerate(self.kernel.template):
            written = given[index] if index < len(given) else ""
            known, is_known = self._template_argument(each, written)
            if not is_known and not each["default"]:
                source = GUESSED
            found.append(known)
        return found, source

    def _template_argument(self, parameter: Mapping[str, str], written: str) -> tuple[str, bool]:
        position = self.launch.position if self.launch else 0
        if parameter["kind"] == "type":
            name = self.host.type_of(written) if written else self._deduced(parameter["name"])
            known = name in TYPES or name in VECTORS or self._is_type(name, position)
            return (name, True) if known else (parameter["default"] or "float", False)
        before = self.guesses
        if self.host.is_enumerator(written):
            return written, True
        value = self.host.value(written, position) if written else None
        if value is None and (written in ("true", "false") or "::" in written):
            return written, True
        is_flag = "bool" in parameter.get("type", "")
        if isinstance(value, int):
            return str(bool(value)).lower() if is_flag else str(value), self.guesses == before
        if parameter["default"]:
            return parameter["default"], False
        return ("true" if is_flag else "16" if not self.is_flat else "256"), False

    def _is_type(self, name: str, position: int) -> bool:
        """Whether a name may be a type, which the source or a header declares; no parameter of a template is."""
        if not name or name in self._template_names(position):
            return False
        declared = rf"\b(?:struct|class|enum|union|using|typedef\b[^;]*)\s+(?:\w+\([^)]*\)\s*)?{re.escape(name)}\b"
        return (
            not re.fullmatch(r"[a-zA-Z]\w*", name)
            or name.startswith("cu")
            or bool(re.search(declared, self.host.plain))
        )

    def _template_names(self, position: int) -> set[str]:
        """Parameters of the template that the function around a launch belongs to."""
        function = self.host.function_at(position)
        head = self.host.plain[max(0, function.begin - 500) : function.begin] if function else ""
        match = re.search(r"template\s*<([^;{}]*)>[^;{}]*\{?\s*$", head)
        return {parameter_name(part) for part in split_arguments(match[1])} if match else set()

    def _deduced(self, name: str) -> str:
        """The type that the arguments of the launch give a template parameter."""
        for text, written in zip(self.kernel.parameters, self.launch.arguments if self.launch else (), strict=False):
            is_pointed_to = re.search(rf"\b{re.escape(name)}\b[^,]*\*", text)
            if is_pointed_to and self.launch and (found := self.host.element_type(written, self.launch.position)):
                return found
        return ""

    def _configuration(self, bound: Mapping[str, str]) -> tuple[tuple[int, ...], tuple[int, ...], int, str, str]:
        """(grid, block, dynamic shared bytes, where the launch comes from, where the shared memory comes from)."""
        dynamic = bool(re.search(r"extern\s+__shared__|extern\s+\S*\s*__shared__", self.body))
        if self.launch is not None:
            before = self.guesses
            written = self.launch.configuration
            parts = [self.host.value(each, self.launch.position) for each in written[:3]]
            grid, block = (_extents(part) for part in (*parts, None, None)[:2])
            source = self.launch.place if self.guesses == before else GUESSED
            if source == GUESSED and math.prod(grid) > _MOST_GUESSED_BLOCKS:
                grid = ()
            if grid and block and math.prod(block) <= 1024:
                shared = parts[2] if len(parts) > 2 and isinstance(parts[2], int) else 0
                if source == GUESSED and shared > DEVICE["sharedMemPerBlockOptin"]:
                    shared = 0
                if shared or not dynamic:
                    return grid, block, shared, source, source if shared else ""
                return grid, block, 8 * math.prod(block), source, GUESSED
        else:
            block = grid = ()
        if not block or math.prod(block) > 1024:
            block = self._guessed_block(bound)
        if not grid:
            extent = self.sizes.extent
            covered = (extent, extent) if len(block) > 1 or not self.is_flat else (self.sizes.elements,)
            grid = tuple(-(-extent // size) for extent, size in zip(covered, (*block, 1), strict=False))
        return grid, block, 8 * math.prod(block) if dynamic else 0, GUESSED, GUESSED if dynamic else ""

    def _guessed_block(self, bound: Mapping[str, str]) -> tuple[int, ...]:
        if self.sizes.block:
            return self.sizes.block
        bounds = re.search(r"__launch_bounds__\s*\(([^,()]+)", self.kernel.head)
        size = self._bound_value(bounds, bound)
        if 0 < size <= 1024:
            return (size,)
        if re.search(r"\bthreadIdx\s*\.\s*y\b", self.body):
            size = self._bound_value(re.search(r"__shared__[^;\[\]]*\[([^\]]+)\]\s*\[", self.body), bound)
            return (size, size) if 0 < size <= 32 else (16, 16)
        size = self._bound_value(re.search(r"__shared__[^;\[\]]*\[([^\]]+)\]\s*;", self.body), bound)
        return (size,) if 32 <= size <= 1024 and size % 32 == 0 else (256,)

    def _bound_value(self, written: re.Match[str] | None, bound: Mapping[str, str]) -> int:
        """The value of a size in the kernel; 0 if it is unknown."""
        if written is None:
            return 0
        value = self.host.value(bound.get(written[1].strip(), written[1]), self.kernel.body[0])
        return value if isinstance(value, int) else 0

    # -- arguments -----------------------------------------------------------------------------------

    def _row(self, index: int, text: str, bound: Mapping[str, str], threads: int) -> Row:
        name = parameter_name(text) or f"argument {index}"
        written = self.launch.arguments[index] if self.launch and index < len(self.launch.arguments) else ""
        words = re.sub(r"=.*|\[.*|[*&]", " ", text, flags=re.S)
        kind = self.host.type_of(re.sub(rf"\b{re.escape(name)}\s*$", "", words.strip()))
        for parameter, argument in bound.items():  # `T` and `View<T>`
            kind = re.sub(rf"\b{re.escape(parameter)}\b", argument.replace("\\", r"\\"), kind)
        kind = self.host.type_of(kind)
        if "*" in text or "[" in text:
            return self._array(name, kind, written, "const" in text.split("*")[0], threads)
        if kind in TEXTURES:
            return self._texture(name)
        if kind == "CUtensorMap":
            tiles = {"box": [64, 64], "swizzle_bytes": 128}
            return Row(name, "float16", shape=2 * (self.sizes.extent,), fill="random", tiles=tiles)
        if members := self.host.members_of(kind):
            return self._struct(name, members, written, threads)
        return self._scalar(name, TYPES.get(kind, "int32"), written)

    def _struct(self, name: str, members: list[tuple[str, str]], written: str, threads: int) -> Row:
        """A struct by its members, from the list that is passed, or from what is assigned to the variable."""
        listed = re.fullmatch(r"\w*\s*\{(.*)\}", written, re.S)
        values = split_arguments(listed[1]) if listed else []
        if self.launch and re.fullmatch(r"\w+", written):
            names = [each for each, _ in members]
            values = self.host.assigned_members(written, names, self.launch.position)
        values += [""] * (len(members) - len(values))
        return Row(name, members=tuple(map(self._member, members, values, [threads] * len(members))))

    def _member(self, member: tuple[str, str], written: str, threads: int) -> Row:
        name, kind = member
        plain = self.host.type_of(kind.replace("*", " "))
        if "*" in kind:
            return self._array(name, plain, written, True, threads)
        if plain in TEXTURES:
            return self._texture(name)
        if members := self.host.members_of(plain):
            return self._struct(name, members, written, threads)
        return self._scalar(name, TYPES.get(plain, "int32"), written)

    def _texture(self, name: str) -> Row:
        """A texture or surface of floats: its size and how it is read, as far as the host code sets them plainly."""
        before = self.guesses
        extents = self.host.array_extents()
        found = tuple(int(each) for each in extents if isinstance(each, int) and each > 1)
        known = bool(found) and len(found) == len(extents) and self.guesses == before
        shape = found[::-1] or (self.sizes.extent, self.sizes.extent)
        source = "" if known else GUESSED
        return Row(name, shape=shape, fill="random", texture=self.host.texture_settings(), source=source)

    def _scalar(self, name: str, dtype: str, written: str) -> Row:
        before = self.guesses
        value = self.host.value(written, self.launch.position) if written and self.launch else None
        source = self.launch.place if self.launch and self.guesses == before else GUESSED
        if written in ("true", "false"):
            value = int(written == "true")
        if not isinstance(value, int | float):
            value, source = self.assumed.get(name, self._guess(name)), GUESSED
            value = value if isinstance(value, int | float) else self._guess(name)
        if source == GUESSED and "float" in dtype and isinstance(value, int):  # a guess at a size
            value = 1
        if dtype == "bool":
            return Row(name, dtype, bool(value), source=source)
        return Row(name, dtype, float(value) if "float" in dtype else int(value), source=source)

    def _array(self, name: str, kind: str, written: str, is_read: bool, threads: int) -> Row:
        lanes: tuple[int, ...] = ()
        if kind in VECTORS:
            kind_dtype, members = VECTORS[kind]
            dtype, lanes = kind_dtype, (len(members),)
        else:
            dtype = TYPES.get(kind, "uint8" if kind in ("void", "") else "float32")
        before = self.guesses
        size = self.host.allocated_bytes(written, self.launch.position) if written and self.launch else None
        source = self.launch.place if size and self.launch and self.guesses == before else GUESSED
        item = math.prod(lanes) * ITEM_BYTES[dtype]
        count = max(size // item, 1) if size else max(threads, 1)
        fill = "random" if "float" in dtype or is_read else "zeros"
        if is_read and dtype.startswith(("int", "uint")) and _ROW_STARTS.fullmatch(name):
            fill = "arange"
        return Row(name, dtype, shape=(count, *lanes), fill=fill, source=source)


def _with_highs(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Random whole numbers may be indices: they stay below the elements of the smallest array."""
    smallest = min(
        (row.shape[0] for each in rows for row in leaves(each) if row.shape and row.shape[0] > 1), default=1
    )

    def with_high(row: Row) -> Row:
        if row.members:
            return replace(row, members=tuple(map(with_high, row.members)))
        if row.fill != "random" or "float" in row.dtype or row.dtype == "bool":
            return row
        bits = 8 * ITEM_BYTES[row.dtype] - row.dtype.startswith("int")
        source = row.source if row.high else f"{row.source}, high is {GUESSED}"
        return replace(row, high=min(smallest, 2**bits), source=source)

    return tuple(map(with_high, rows))


def _extents(value: Value | None) -> tuple[int, ...]:
    """Extents of a grid or a block; empty if they are unknown or impossible."""
    values = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(values) <= 3 or not all(isinstance(each, int) and each > 0 for each in values):
        return ()
    return tuple(int(each) for each in values)
