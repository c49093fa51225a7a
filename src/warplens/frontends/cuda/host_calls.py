"""What host code says about its launches: `kernel<<<grid, block>>>(…)`, sizes of arrays, and values of names.

The host code is read, not run: only what a reader would see at a glance is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

from .expressions import SIZES, Value, closing, evaluate, split_arguments, substituted
from .host_code import scrubbed
from .launch_macros import Macro, macros
from .signatures import struct_members

#: How far a value is followed: from name to name, through assignments of one name, and in one expression.
_MOST_DEPTH = 12
_MOST_ASSIGNMENTS = 8
_MOST_CHARACTERS = 500
_MOST_LOOKUPS = 300
_MOST_ALIASES = 4
_MOST_SPACES = 200
_ALLOCATION = re.compile(r"\bcuda(?:Malloc|MallocManaged|MallocAsync|MallocHost|HostAlloc)\s*(?:<[^<>]*>)?\s*\(")
#: What stands in parentheses, with three more levels of them.
_NESTED = reduce(lambda inner, _: rf"(?:[^;()]|\({inner}\))*", range(3), "[^;()]*")
_ASSIGNMENT = (
    # A text may end within a declaration, before its next name.
    r"(?<![\w.>]){}\s*(?:\[[^\]]*\]\s*)?(?:=(?!=)([^;]+)(?:;|,\s*\Z)|\(("
    + _NESTED
    + r")\)\s*[;,]|\{{([^;{{}}]*)\}}\s*[;,])"
)
_FUNCTION = re.compile(r"\b(\w+)\s*\(((?:[^(){};]|\([^(){};]*\))*)\)\s*(?:const\s*|noexcept\s*)*\{")
_DECLARATION = re.compile(r"\s*(?:const\s+)?(?:dim3\b|(?:std::)?vector\s*<)")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "do", "else"}
#: Names of functions that divide and round up, wherever they are defined.
_ROUNDED_UP = re.compile(r"(?i)\w*(ceil_?div|div_?ceil|cdiv|div_?(round_?)?up)\w*")
_KERNEL = re.compile(r"(?:\w+::)*(\w+)\s*(?:<([^;{}]*)>)?")
#: Casts, as in `(void **)&x` and `reinterpret_cast<void *>(x)`.
_CASTS = re.compile(r"\(\s*(?:const\s+)?[\w\s:]+\*+\s*(?:const\s*)?\)|\b\w+_cast\s*<[^<>]*(?:<[^<>]*>)?[^<>]*>")
_QUALIFIERS = re.compile(
    r"__restrict__|__restrict|__grid_constant__|\b(?:const|constexpr|static|volatile|restrict|struct|extern|inline|"
    r"auto|register|unsigned(?=\s+(?:float|double)))\b"
)


@dataclass(frozen=True)
class Function:
    """A function of the source: the names of its parameters, and where they and its body are."""

    name: str
    parameters: tuple[str, ...]
    head: int
    begin: int
    end: int
    defaults: tuple[str, ...] = ()
    """What each parameter is where a caller gives nothing; empty if it must."""


@dataclass(frozen=True)
class HostLaunch:
    """One `kernel<arguments><<<grid, block, shared>>>(…)`, as it is written."""

    kernel: str
    template: tuple[str, ...]
    configuration: tuple[str, ...]
    arguments: tuple[str, ...]
    position: int
    place: str
    """Where it stands, as a reader would say it: `line 57`, or `launch.h line 57`."""


@dataclass(frozen=True)
class HostCode:
    """The text of a source, and what it says. `assume` gives values of names that the text does not show."""

    text: str = field(repr=False)
    assume: Callable[[str], Value | None] = field(default=lambda name: None, repr=False)
    headers: tuple[tuple[str, int], ...] = ()
    """Headers whose texts follow that of the source: their names, and the lines of the text at which they begin."""
    _looked_up: list[str] = field(default_factory=list, repr=False, compare=False)
    """Names looked up for one value: names that stand for each other end there."""

    @cached_property
    def plain(self) -> str:
        return scrubbed(self.text)

    @cached_property
    def defines(self) -> dict[str, Macro]:
        return macros(self.text)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Types by other names: `typedef float real;`, `using real = float;`."""
        found: dict[str, str] = {}
        for match in re.finditer(r"\btypedef\s+([\w\s:]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([^;]+);", self.plain):
            name, meaning = (match[2], match[1]) if match[1] else (match[3], match[4])
            found.setdefault(name, meaning.strip())
        return found

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        found = []
        for match in _FUNCTION.finditer(self.plain):
            if match[1] not in _NOT_FUNCTIONS:
                parts = split_arguments(match[2])
                names = tuple(parameter_name(part) for part in parts)
                defaults = tuple(part.partition("=")[2].strip() for part in parts)
                end = closing(self.plain, match.end() - 1)
                found.append(Function(match[1], names, match.start(2), match.end(), end, defaults))
        return tuple(found)

    @cached_property
    def launches(self) -> tuple[HostLaunch, ...]:
        """`kernel<<<…>>>(…)` and the calls that launch, in order, for each kernel that they may mean."""
        found = [*self._marked_launches(), *self._called_launches()]
        return tuple(
            sorted((each for launch in found for each in self._meant(launch)), key=lambda each: each.position)
        )

    def _marked_launches(self) -> Iterator[HostLaunch]:
        for match in re.finditer(r"<<<", self.plain):
            before = re.search(
                r"(\w+)\s*(<[^;{}]*>)?\s*$", self.plain[max(0, match.start() - _MOST_CHARACTERS) : match.start()]
            )
            stop = re.compile(r">>\s?>").search(self.plain, match.end())
            if before is None or stop is None:
                continue
            opening = self.plain.find("(", stop.end())
            if opening < 0 or self.plain[stop.end() : opening].strip():
                continue
            arguments = self.text[opening + 1 : closing(self.plain, opening) - 1]
            template = split_arguments(before[2][1:-1]) if before[2] else []
            configuration = split_arguments(self.plain[match.end() : stop.start()])
            yield self._launch(before[1], template, configuration, split_arguments(arguments), match.start())

    def _called_launches(self) -> Iterator[HostLaunch]:
        """`cudaLaunchKernel(…)`, whose arguments are a list of addresses, and `cudaLaunchKernelEx(…)`."""
        for match in re.finditer(r"\bcudaLaunch(?:Cooperative)?Kernel(Ex)?\s*\(", self.plain):
            written = split_arguments(self.text[match.end() : closing(self.plain, match.end() - 1) - 1])
            kernel = _kernel_in(written[1 if match[1] else 0]) if len(written) > 1 else None
            if kernel is None:
                continue
            if match[1]:
                fields = ("gridDim", "blockDim", "dynamicSmemBytes")
                configuration = self.assigned_members(written[0].lstrip("& "), fields, match.start())
                arguments = written[2:]
            else:
                configuration = [*written[1:3], *written[4:5]]
                arguments = (
                    [_base(each) for each in self._listed(written[3], match.start())] if len(written) > 3 else []
                )
            yield self._launch(*kernel, configuration, arguments, match.start())

    def _launch(
        self, kernel: str, template: list[str], configuration: list[str], arguments: list[str], position: int
    ) -> HostLaunch:
        return HostLaunch(
            kernel, tuple(template), tuple(configuration), tuple(arguments), position, self.place(position)
        )

    def place(self, position: int) -> str:
        """Where a place of the text is, as a reader would say it."""
        line = self.text.count("\n", 0, position) + 1
        name, first = next(((name, first) for name, first in reversed(self.headers) if first <= line), ("", 1))
        return f"{name} line {line - first + 1}".lstrip()

    def _listed(self, array: str, position: int) -> list[str]:
        """What the declaration of an array lists: `void *args[] = {&x, &n};`."""
        function = self.function_at(position)
        begin = function.begin if function else 0
        declared = rf"\b{re.escape(array.strip('& '))}\s*\[[^\]]*\]\s*=?\s*\{{"
        for match in list(re.finditer(declared, self.plain[begin:position]))[-1:]:
            end = closing(self.plain, begin + match.end() - 1)
            return split_arguments(self.text[begin + match.end() : end - 1])
        return []

    def _meant(self, launch: HostLaunch, depth: int = 0) -> list[HostLaunch]:
        """The launch by the name of its kernel, where `auto kernel = &real<4>;` or a caller gives it another."""
        function = self.function_at(launch.position)
        if function is None or launch.template or depth > _MOST_ALIASES:
            return [launch]
        name = re.escape(launch.kernel)
        body = self.plain[function.begin : launch.position]
        written = [match[1] for match in re.finditer(rf"(?<![\w.>]){name}\s*=(?!=)\s*([^;]+);", body)]
        if launch.kernel in function.parameters:
            written += [text for text, _ in self.passed(function, launch.kernel)]
        found: dict[str, list[HostLaunch]] = {}
        for text in written:
            kernel = _kernel_in(text)
            if kernel is not None and kernel[0] not in (launch.kernel, "nullptr", "NULL"):
                renamed = replace(launch, kernel=kernel[0], template=tuple(kernel[1]))
                found.setdefault(text, self._meant(renamed, depth + 1))
        return [each for kept in found.values() for each in kept] or [launch]

    # -- values ----------------------------------------------------------------------------------

    def value(self, expression: str, position: int, depth: int = 0) -> Value | None:
        """The value of an expression at a place of the source; None if the text does not show it."""
        if depth == 0:
            self._looked_up.clear()
        if depth > _MOST_DEPTH or len(self._looked_up) > _MOST_LOOKUPS:
            return None

        def lookup(name: str, arguments: Sequence[str] | None) -> Value | None:
            if name.startswith("sizeof "):
                return self._size(name.removeprefix("sizeof "), position)
            if arguments is not None:
                return self._called(name, arguments, position, depth + 1)
            self._looked_up.append(name)
            return self._named(name, position, depth + 1)

        return evaluate(expression, lookup)

    def _size(self, name: str, position: int) -> int | None:
        name = self.type_of(name.strip("* ")) if name.strip("* ") in self.aliases else name
        if name in SIZES:
            return SIZES[name]
        if pointed := SIZES.get(self.pointed_type(name.lstrip("*& "), position)):
            return pointed
        members = [8 if kind.endswith("*") else SIZES.get(self.type_of(kind), 0) for _, kind in self.members_of(name)]
        # Whole members of one size need no padding; what others have is not worked out.
        return sum(members) if members and min(members) == max(members) > 0 else None

    def members_of(self, kind: str) -> list[tuple[str, str]]:
        """(Name, type) of the members of a struct of the source, or of a vector type."""
        return struct_members(kind, self.text)

    def _named(self, name: str, position: int, depth: int) -> Value | None:
        if name in ("argc",):
            return 1
        function = self.function_at(position)
        begin = function.begin if function else 0
        for area, offset in ((self.plain[begin:position], begin), (self._outside, 0)):
            matches = list(re.finditer(_ASSIGNMENT.format(re.escape(name)), area))
            for match in reversed(matches[-_MOST_ASSIGNMENTS:]):
                written = _listed(match, next(part for part in match.groups() if part is not None))
                if re.search(rf"\b{re.escape(name)}\b", written) or _is_declared_call(area, match.start()):
                    continue
                if _is_changed(name, area[match.end() - 1 :]):
                    return self.assume(name)
                place = offset + match.start() if area is not self._outside else position
                if (found := self.value(written, place, depth)) is not None:
                    return found
        if name in self.defines and self.defines[name][0] is None:
            return self.value(self.defines[name][1], position, depth)
        if (extents := self._extents(name, position, depth)) is not None:
            return extents
        if function and name in function.parameters:
            found = self._passed(function, name, depth)
            return self.assume(name) if found is None else found
        if "::" in name:
            return self._named(name.rpartition("::")[2], position, depth)
        return self.assume(name)

    def _extents(self, name: str, position: int, depth: int) -> Value | None:
        """A `dim3` whose members are assigned: `dim3 grid; grid.x = 4;`."""
        if not re.search(rf"{re.escape(name)}\s*\.\s*x\s*=(?!=)", self.plain):
            return None
        written = self.assigned_members(name, "xyz", position)
        values = [self.value(each, position, depth) if each else 1 for each in written]
        return tuple(values) if written[0] and None not in values else None

    @cached_property
    def _outside(self) -> str:
        """The source without the bodies and the parameters of functions."""
        parts, end = [], 0
        for function in sorted(self.functions, key=lambda each: each.head):
            parts.append(self.plain[end : max(function.head, end)])
            end = max(function.end, end)
        return " ".join(" ".join([*parts, self.plain[end:]]).split())

    def _passed(self, function: Function, name: str, depth: int) -> Value | None:
        """What a caller passes for a parameter, or what it is where none does."""
        for written, position in self.passed(function, name):
            if (found := self.value(written, position, depth)) is not None:
                return found
        default = function.defaults[function.parameters.index(name)]
        return self.value(default, function.begin, depth) if default else None

    def passed(self, function: Function, name: str) -> list[tuple[str, int]]:
        """(Argument, place) of every call of a function for one of its parameters."""
        index = function.parameters.index(name)
        found = []
        # Patterns begin with the name itself: others search a long text slowly.
        for match in re.finditer(rf"{re.escape(function.name)}\s*(?:(?:<[^<>;(){{}}]*>)?\s*\(|,)", self.plain):
            before = self.plain[max(0, match.start() - _MOST_SPACES) : match.start()]
            caller = self.function_at(match.start())
            if caller is None or caller == function or re.search(r"\w$", before):
                continue
            arguments = split_arguments(self.plain[match.end() : _list_end(self.plain, match.end())])
            if match[0].endswith(","):  # `benchmark(repeats, function, 1024, x)` calls it with what follows
                needed = len(function.parameters) - sum(map(bool, function.defaults))
                if not re.search(r"[(,][\s&]*$", before) or len(arguments) < needed:
                    continue
            if index < len(arguments):
                found.append((arguments[index], match.start()))
        return found

    def _called(self, name: str, written: Sequence[str], position: int, depth: int) -> Value | None:
        """A macro with arguments, or a function that returns one plain expression."""
        parameters, body = self.defines.get(name, (None, ""))
        if parameters is None:
            function = next((each for each in self.functions if each.name == name.rpartition("::")[2]), None)
            match = re.match(r"\s*return\s+([^;]+);\s*\}", self.plain[function.begin :]) if function else None
            if function is None or match is None:
                if len(written) == 2 and _ROUNDED_UP.fullmatch(name.rpartition("::")[2]):
                    return self.value(f"(({written[0]}) + ({written[1]}) - 1) / ({written[1]})", position, depth)
                return None
            parameters, body = function.parameters, match[1]
        values = dict(zip(parameters, (f"({each})" for each in written), strict=False))
        return self.value(substituted(body, values), position, depth)

    def conditions(self, position: int) -> list[str]:
        """What must hold for a statement of a function to be reached, from the `if` and `case` around it."""
        function = self.function_at(position)
        open_braces: list[int] = []
        for match in re.finditer(r"[{}]", self.plain[function.begin : position] if function else ""):
            open_braces = [*open_braces, match.start()] if match[0] == "{" else open_braces[:-1]
        starts = [function.begin + each for each in open_braces] if function else []
        found = []
        for start, end in zip(starts, [*starts, position][1:], strict=True):
            before = self.plain[max(0, start - _MOST_CHARACTERS) : start]
            if switch := re.search(rf"\bswitch\s*\(({_NESTED})\)\s*$", before):
                labels = re.findall(r"\bcase\b([^:;]+):", self.plain[start:end])
                found += [f"({switch[1]}) == ({labels[-1]})"] if labels else []
        for end in (*starts, position):
            statement = re.split(r"[;{}]", self.plain[max(0, end - _MOST_CHARACTERS) : end])[-1]
            found += [each[1] for each in re.finditer(rf"\bif\s*(?:constexpr\s*)?\(({_NESTED})\)", statement)]
        return found

    def function_at(self, position: int) -> Function | None:
        """The function whose body holds a place."""
        return next((each for each in self.functions if each.begin <= position < each.end), None)

    # -- arrays and types --------------------------------------------------------------------------

    def allocated_bytes(self, expression: str, position: int, depth: int = 0) -> int | None:
        """Bytes of the array that an argument points to, from the call that allocates it."""
        base = _base(expression)
        if not base or depth > _MOST_DEPTH:
            return None
        for match in _ALLOCATION.finditer(self.plain):
            arguments = split_arguments(self.plain[match.end() : closing(self.plain, match.end() - 1) - 1])
            if len(arguments) >= 2 and _base(arguments[0]) == base:
                size = self.value(arguments[1], match.start())
                return size if isinstance(size, int) and size > 0 else None
        function = self.function_at(position)
        if function and base in function.parameters:
            for written, place in self.passed(function, base):
                if (found := self.allocated_bytes(written, place, depth + 1)) is not None:
                    return found
        return None

    def is_enumerator(self, name: str) -> bool:
        """Whether a name, with or without its scope, is a value of an enumeration of the source."""
        last = name.rpartition("::")[2].strip()
        return bool(re.fullmatch(r"[A-Za-z_]\w*", last)) and bool(
            re.search(rf"\benum\b[^;{{}}()]*\{{[^{{}}]*\b{last}\b[^{{}}]*\}}", self.plain)
        )

    def assigned_members(self, variable: str, names: Sequence[str], position: int) -> list[str]:
        """What the members of a struct get before a place: `name.member = …;`, or `Type name{…};`."""
        function = self.function_at(position)
        begin = function.begin if function else 0
        area = self.text[begin:position]
        found = [""] * len(names)
        initial = rf"\b{re.escape(variable)}\s*(?:=\s*\w*\s*)?\{{"
        for match in list(re.finditer(initial, self.plain[begin:position]))[-1:]:
            end = closing(self.plain, begin + match.end() - 1)
            listed = split_arguments(self.text[begin + match.end() : end - 1])
            named = dict(part.lstrip(".").split("=", 1) for part in listed if re.match(r"\.\w+\s*=", part))
            named = {key.strip(): value.strip() for key, value in named.items()}
            found = [named.get(name, "") for name in names] if named else [*listed, *found][: len(names)]
        for index, name in enumerate(names):
            assigned = re.findall(
                rf"(?<![\w.]){re.escape(variable)}\s*\.\s*{re.escape(name)}\s*=(?!=)\s*([^;]+);", area
            )
            found[index] = assigned[-1].strip() if assigned else found[index]
        return found

    def array_extents(self) -> tuple[Value | None, ...]:
        """Width, height and depth of the first array that the source allocates for textures."""
        for match in re.finditer(r"\bcudaMalloc(3D)?Array\s*\(", self.plain):
            arguments = split_arguments(self.plain[match.end() : closing(self.plain, match.end() - 1) - 1])
            written = arguments[2:5]
            if match[1] and (extent := re.search(r"\bmake_cudaExtent\s*\(", self.plain)):
                written = split_arguments(self.plain[extent.end() : closing(self.plain, extent.end() - 1) - 1])
            kept = [each for each in written if not each.startswith("cudaArray")]
            return tuple(self.value(each, match.start()) for each in kept)
        return ()

    def texture_settings(self) -> dict[str, str | bool]:
        """How textures are read, as the fields of `cudaTextureDesc` say, where that differs from the default."""
        found: dict[str, str | bool] = {}
        if re.search(r"\bcudaFilterModeLinear\b", self.plain):
            found["filter"] = "linear"
        if match := re.search(r"\bcudaAddressMode(Border|Wrap|Mirror)\b", self.plain):
            found["address"] = match[1].lower()
        if re.search(r"\bnormalizedCoords\s*=\s*(1|true)\b", self.plain):
            found["normalised_coordinates"] = True
        return found

    def element_type(self, expression: str, position: int, depth: int = 0) -> str:
        """The type that an argument points to, by its declaration or that of what a caller passes for it."""
        base = _base(expression)
        found = self.pointed_type(base, position) if re.fullmatch(r"\w+", base) else ""
        function = self.function_at(position)
        if function and base in function.parameters and depth < _MOST_ALIASES and found not in SIZES:
            for written, place in self.passed(function, base):
                if passed := self.element_type(written, place, depth + 1):
                    return passed
        return found

    def pointed_type(self, name: str, position: int) -> str:
        """The type that a pointer of this name points to; empty if the text does not show its declaration."""
        function = self.function_at(position)
        before = self.plain[function.begin : position] if function else ""
        heads = "".join(self.plain[max(0, each.begin - 600) : each.begin] for each in [function] if each)
        for text in (before, heads, self.plain):
            pattern = rf"([\w:]+(?:\s+[\w:]+)*)\s*\*+\s*(?:__restrict__\s*)?(?:\w+\s*,\s*\*\s*)*{re.escape(name)}\b"
            if match := re.search(pattern, text):
                return self.type_of(match[1])
        return ""

    def type_of(self, written: str) -> str:
        """A type without qualifiers and under its own name."""
        name = " ".join(_QUALIFIERS.sub(" ", written).split())
        for _ in range(_MOST_DEPTH):
            if name in self.defines and self.defines[name][0] is None and self.defines[name][1]:
                name = self.defines[name][1]
            elif name in self.aliases and self.aliases[name] != name:
                name = " ".join(_QUALIFIERS.sub(" ", self.aliases[name]).split())
            else:
                break
        return name


def parameter_name(text: str) -> str:
    """The name that a parameter's declaration gives it; empty for an unnamed one."""
    words = re.findall(r"\w+", re.sub(r"=.*|\[.*", "", text, flags=re.S))
    return words[-1] if len(words) > 1 or (words and re.search(r"[*&]\s*\w+\s*$", text)) else ""


def _base(expression: str) -> str:
    """The array that an argument starts from: `d_x` of `(void **)&d_x`, `d_x + 4` and `d_x.data().get()`."""
    plain = _CASTS.sub(" ", expression)
    names: list[str] = re.findall(r"[A-Za-z_][\w.]*(?:->\w+)*", plain.replace("thrust::raw_pointer_cast", " "))
    return names[0].removesuffix(".data") if names else ""


def _is_changed(name: str, text: str) -> bool:
    """Whether `name *= …;` or `name += …;` follows, except in the head of a loop, whose first round is meant."""
    return bool(re.search(rf"{re.escape(name)}\s*[*+]=[^;()]*(?:\([^;]*\)[^;()]*)?;", text)) and bool(
        re.search(rf"[;{{}})]\s*{re.escape(name)}\s*[*+]=[^;()]*(?:\([^;]*\)[^;()]*)?;", text)
    )


def _list_end(text: str, start: int) -> int:
    """Where the list of arguments ends that a place is in."""
    depth = 0
    for match in re.compile(r"[()\[\]{};]").finditer(text, start):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth < 0 or (depth == 0 and match[0] == ";"):
            return match.start()
    return len(text)


def _kernel_in(text: str) -> tuple[str, list[str]] | None:
    """(Name, arguments of the template) of a kernel that is a value: `k`, `&ns::k<4, float>`, `(void *)k`."""
    match = _KERNEL.fullmatch(_CASTS.sub(" ", text).strip(" \n&()"))
    return (match[1], split_arguments(match[2] or "")) if match else None


def _is_declared_call(area: str, start: int) -> bool:
    """Whether `name(…);` is a call rather than the declaration `dim3 name(…);`, or one of several that it names.

    Host vectors are declared so too.
    """
    statement = re.split(r"[;{}]", area[max(0, start - _MOST_CHARACTERS) : start])[-1]
    if not re.match(r"\w+\s*\(", area[start:]) or _DECLARATION.match(statement):
        return False
    return not re.search(r"[\w>]\s+$", area[max(0, start - 40) : start]) or bool(
        re.search(r"\b(return|else)\s+$", area[max(0, start - 40) : start])
    )


def _listed(match: re.Match[str], written: str) -> str:
    """`dim3 block(16, 16)` and `int x{4}` give their arguments, `= value` its value."""
    if match[1] is not None:
        return split_arguments(written)[0]  # before the next name of `int x = 4, y = 5`
    return f"dim3({written})" if "," in written else written
