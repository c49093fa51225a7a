"""Tuning spaces: parameters of a kernel, the configurations they allow, and the launch of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError, nearest
from ..frontends.cuda.headers import included_files
from ..result_cache import content_hash
from ..tomlfile import TomlFile, read_toml
from ..workload.source import CudaLaunch, cuda_launch_of
from .expressions import Expression, names_in, whole_value

Value = int | float | str | bool
Configuration = Mapping[str, Value]

#: Most configurations of a space, and most that restrictions may have to look at.
MOST_CONFIGURATIONS, MOST_LOOKS = 1_000_000, 50_000_000
#: Keys of `[tune]`.
_KEYS = ("parameters", "restrictions", "constants")
_FIELD = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class TuningSpace:
    """A kernel whose source, name or launch depends on parameters.

    A parameter that the source mentions becomes a macro. In `{NAME}` of the
    kernel's name (template arguments) and of compiler options its value is
    filled in. Grid, block, shared memory, and shapes and values of arguments
    are whole numbers or expressions of parameters.
    """

    name: str
    parameters: Mapping[str, tuple[Value, ...]]
    restrictions: tuple[Expression, ...]
    #: The workload file without its `[tune]` table.
    file: TomlFile = field(repr=False)
    #: What expressions may use besides parameters, such as the size of the problem.
    constants: Mapping[str, Any] = field(default_factory=dict)
    #: Of CUDA C++ in a file of its own.
    source_name: str = ""
    source_text: str = field(default="", repr=False)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """All that the restrictions allow; the last parameter changes fastest."""
        found = tuple(_allowed(self.parameters, self.restrictions, self.constants, self.file.path))
        if not found:
            raise InputError(self._why_empty())
        return found

    def __len__(self) -> int:
        return len(self.configurations)

    def _why_empty(self) -> str:
        """Names the restriction that leaves nothing of what those before it allow."""
        for count, each in enumerate(self.restrictions, 1):
            allowed = _allowed(self.parameters, self.restrictions[:count], self.constants, self.file.path)
            if next(allowed, None) is None:
                beside = " beside those before it" if count > 1 else ""
                return f"{each.where}: {each.text!r} allows no configuration{beside}; give other values, or loosen it"
        return f"{self.file.path}: has no configuration; give each parameter a value"

    @cached_property
    def used(self) -> frozenset[str]:
        """Parameters that a launch depends on. Others are in the file, but change nothing."""
        cuda = self.file.data["cuda"]
        found = set(self._macros) | set(_FIELD.findall(" ".join([cuda.get("kernel", ""), *cuda.get("options", ())])))
        for key in ("grid", "block", "dynamic_shared_memory_bytes"):
            found.update(names_in(cuda.get(key, 0), self._where(key)))
        for row in (*cuda.get("arguments", ()), *cuda.get("constants", {}).values()):
            for key in ("shape", "value"):
                found.update(names_in(row.get(key, 0), self._where("arguments")))
        return frozenset(found & self.parameters.keys())

    @cached_property
    def twins(self) -> tuple[tuple[int, ...], ...]:
        """Configurations in groups of those with the same launch: they differ in unused parameters only."""
        used = [name for name in self.parameters if name in self.used]
        groups: dict[tuple[Value, ...], list[int]] = {}
        for index, configuration in enumerate(self.configurations):
            groups.setdefault(tuple(configuration[name] for name in used), []).append(index)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def _macros(self) -> tuple[str, ...]:
        """Parameters that the source or its headers mention, and that do not fill a field."""
        filled = set(_FIELD.findall(self.file.data["cuda"].get("kernel", "")))
        if self._headers is None:
            return tuple(name for name in self.parameters if name not in filled)
        texts = [self.source_text, *(raw.decode("utf-8", "replace") for raw in self._headers.values())]
        mentioned = {name for text in texts for name in _NAME.findall(text)}
        return tuple(name for name in self.parameters if name in mentioned and name not in filled)

    @cached_property
    def _headers(self) -> dict[str, bytes] | None:
        """The headers that the source includes; None where not all of them can be told."""
        beside, include = Path(self.file.path).parent, self.file.data["cuda"].get("include", [])
        named = [beside / each for each in ([include] if isinstance(include, str) else include)]
        folder = Path(self.source_name).parent if self.source_name else beside
        return included_files(self.source_text, folder, named)

    def with_fixed(self, values: Mapping[str, str]) -> TuningSpace:
        """The part of the space where parameters have these of their values, given as text."""
        parameters = dict(self.parameters)
        for name, text in values.items():
            if name not in parameters:
                raise InputError(f"{self.file.path}: {name!r} is no parameter; {nearest(name, parameters)}")
            parameters[name] = tuple(each for each in parameters[name] if str(each) == text)
            if not parameters[name]:
                known = ", ".join(map(str, self.parameters[name]))
                raise InputError(f"{self.file.path}: {name} is never {text}; its values are {known}")
        return replace(self, parameters=parameters)

    def _where(self, key: str) -> str:
        return f"{self.file.where(f'cuda.{key}')}: cuda.{key}"

    def known(self, configuration: Configuration) -> dict[str, Any]:
        """What expressions may use."""
        return {**self.constants, **configuration}

    def extents(self, key: str, configuration: Configuration) -> list[int]:
        """The numbers of `grid` or `block`."""
        given = self.file.data["cuda"].get(key)
        if given is None:
            raise InputError(f"{self._where(key)}: is missing; write numbers, or expressions of parameters")
        known = self.known(configuration)
        return [
            whole_value(each, known, self._where(key)) for each in (given if isinstance(given, list) else [given])
        ]

    def launch(self, configuration: Configuration) -> CudaLaunch:
        """The launch of one configuration."""
        cuda = dict(self.file.data["cuda"])
        known = self.known(configuration)
        for key in ("grid", "block"):
            cuda[key] = self.extents(key, configuration)
        if "dynamic_shared_memory_bytes" in cuda:
            given = cuda["dynamic_shared_memory_bytes"]
            cuda["dynamic_shared_memory_bytes"] = whole_value(
                given, known, self._where("dynamic_shared_memory_bytes")
            )
        if "kernel" in cuda:
            cuda["kernel"] = self._filled(cuda["kernel"], configuration, "kernel")
        macros = [f"-D{name}={_text(configuration[name])}" for name in self._macros]
        cuda["options"] = [
            *(self._filled(each, configuration, "options") for each in cuda.get("options", ())),
            *macros,
        ]
        cuda["arguments"] = [self._argument(row, known) for row in cuda.get("arguments", ())]
        if "constants" in cuda:
            cuda["constants"] = {name: self._argument(row, known) for name, row in cuda["constants"].items()}
        if self.source_name:  # it may lie on another machine
            del cuda["source"]
            cuda["code"] = self.source_text
        launch = cuda_launch_of(replace(self.file, data={**self.file.data, "cuda": cuda}))
        return replace(launch, text=self.source_text, source_name=self.source_name) if self.source_name else launch

    def _filled(self, text: str, configuration: Configuration, key: str) -> str:
        for name in _FIELD.findall(text):
            if name not in configuration:
                known = nearest(name, configuration)
                raise InputError(f"{self._where(key)}: {text!r}: {name!r} is no parameter; {known}")
        return _FIELD.sub(lambda match: _text(configuration[match[1]]), text)

    def _argument(self, row: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        made, where = dict(row), self._where("arguments")
        if "shape" in made:
            shape = made["shape"] if isinstance(made["shape"], list) else [made["shape"]]
            made["shape"] = [whole_value(each, known, where) for each in shape]
        if isinstance(made.get("value"), str):
            made["value"] = Expression(made["value"], where).value(known)
        return made

    @property
    def digest(self) -> str:
        """Of everything that rows depend on."""
        given = [repr(self.file.data), repr(dict(self.parameters)), repr(dict(self.constants)), self.source_text]
        headers = (part for item in sorted((self._headers or {}).items()) for part in item)
        return content_hash([*given, *(each.text for each in self.restrictions), *headers])


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _allowed(
    parameters: Mapping[str, tuple[Value, ...]],
    restrictions: tuple[Expression, ...],
    constants: Mapping[str, Any],
    path: str,
) -> Iterator[Configuration]:
    """Configurations that meet all restrictions. Each is checked as soon as its parameters have values."""
    names = list(parameters)
    for each in restrictions:
        each.require({**constants, **parameters})
    due: list[list[Expression]] = [[] for _ in names]
    for each in restrictions:
        due[max((names.index(name) for name in each.names & parameters.keys()), default=0)].append(each)
    looks, found = itertools.count(), itertools.count(1)
    chosen: dict[str, Any] = dict(constants)

    def extend(depth: int) -> Iterator[Configuration]:
        if depth == len(names):
            if next(found) > MOST_CONFIGURATIONS:
                raise InputError(f"{path}: more than {MOST_CONFIGURATIONS} configurations; restrict the space")
            yield {name: chosen[name] for name in names}
            return
        for value in parameters[names[depth]]:
            if next(looks) > MOST_LOOKS:
                raise InputError(f"{path}: the restrictions leave too much to look at; give fewer values")
            chosen[names[depth]] = value
            if all(_holds(each, chosen) for each in due[depth]):
                yield from extend(depth + 1)

    yield from extend(0)


def _holds(restriction: Expression, chosen: Mapping[str, Any]) -> bool:
    """Whether a restriction allows these values. One that divides by zero restricts nothing, as in Kernel Tuner."""
    try:
        return bool(restriction.value(chosen))
    except ZeroDivisionError:
        return True


# -- files -------------------------------------------------------------------------------------


def read_space(path: str | Path, *, sources: str | Path | None = None) -> TuningSpace:
    """A tuning space: a workload file with a `[tune]` table, or a T1 file of Kernel Tuner.

    `sources` is a folder that has the kernel's source, where the file does not lie beside it.
    """
    path = Path(path)
    if path.suffix == ".json":
        from .kernel_tuner import read_t1

        file = read_t1(path)
    else:
        file = read_toml(path)
    data = dict(file.data)
    tune = data.pop("tune", None)
    if not isinstance(tune, dict):
        raise InputError(
            f"{path}: is no tuning space; add a [tune.parameters] table with the values of each parameter"
        )
    for key in tune:
        if key not in _KEYS:
            raise InputError(f"{file.where(f'tune.{key}')}: tune.{key} is unknown; {nearest(key, _KEYS)}")
    if not isinstance(data.get("cuda"), dict):
        raise InputError(f"{path}: names no source; add a [cuda] table with source, kernel, grid and block")
    parameters = _parameters(file, tune.get("parameters", {}))
    where = file.where("tune.restrictions")
    restrictions = tune.get("restrictions", [])
    if not isinstance(restrictions, list) or not all(isinstance(each, str) for each in restrictions):
        raise InputError(f'{where}: tune.restrictions: must be a list of texts, for example ["a * b <= 1024"]')
    name, text = _source(file, data["cuda"], sources)
    if name:
        data["cuda"] = {**data["cuda"], "source": name}
    return TuningSpace(
        name=str(data.get("name", path.stem)),
        parameters=parameters,
        restrictions=tuple(Expression(each, where) for each in restrictions),
        file=TomlFile(file.path, file.text, data),
        constants=dict(tune.get("constants", {})),
        source_name=name,
        source_text=text,
    )


def _parameters(file: TomlFile, given: Any) -> dict[str, tuple[Value, ...]]:
    if not isinstance(given, dict) or not given:
        raise InputError(
            f"{file.where('tune')}: tune.parameters: is missing; write NAME = [values] for each parameter"
        )
    found: dict[str, tuple[Value, ...]] = {}
    for name, values in given.items():
        where = f"{file.where(f'tune.parameters.{name}')}: tune.parameters.{name}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(f"{where}: is not a name that C++ could have")
        values = Expression(values, where).value({}) if isinstance(values, str) else values
        values = list(values) if isinstance(values, list | tuple | range) else [values]
        if not values or not all(isinstance(each, int | float | str) for each in values):
            raise InputError(f"{where}: must be a list of numbers or texts, or an expression that gives one")
        found[name] = tuple(dict.fromkeys(values))
    return found


def _source(file: TomlFile, cuda: Mapping[str, Any], sources: str | Path | None) -> tuple[str, str]:
    """(Path, text) of a CUDA source. Code inside the file has no path; PTX and Python have no macros."""
    name = cuda.get("source")
    if not isinstance(name, str):
        return "", str(cuda.get("code", ""))
    beside = Path(file.path).parent
    folders = [beside, beside.parent]  # Kernel Tuner looks in both
    if sources is not None:
        folders += [Path(sources), *sorted(Path(sources).rglob("*/"))]
    for folder in folders:
        for place in (folder / name, folder / Path(name).name):
            if place.is_file():
                try:
                    return str(place), place.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    reason = getattr(error, "strerror", None) or "not UTF-8 text"
                    raise FileError(f"{place}: cannot be read ({reason})") from None
    remedy = "" if sources is not None else "; name its folder with --sources"
    looked = sources if sources is not None else beside
    raise FileError(f"{file.where('cuda.source')}: no source {name!r} in {looked}{remedy}")
