"""Kernel Tuner's files: spaces (T1), results (T4 and caches), and a strategy that measures the predicted best first.

T1 and T4 are formats of the auto-tuning community
(https://github.com/odgaard/TuningSchema); caches are Kernel Tuner's own.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from ..errors import FileError, InputError
from ..tomlfile import TomlFile
from .expressions import Expression
from .space import Configuration, Value

#: Element types of T1 by our names; a number after it is the length of a vector.
_TYPES = {
    "bool": "bool", "int": "int32", "uint": "uint32", "half": "float16", "float": "float32", "double": "float64",
    **{name: name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
}  # fmt: skip
#: Options of nvcc that say what warplens says itself.
_OWN_OPTIONS = re.compile(r"-O\d|-lineinfo|-G|--?(gpu-architecture|arch|gencode|generate-code)\b.*")
_DIMENSIONS = ("X", "Y", "Z")
#: A name, unless it is a field already.
_WORD = re.compile(r"(?<![{\w])[A-Za-z_]\w*(?![\w}])")
#: What stands in place of the time of a configuration that cannot run.
_FAILURES = ("InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig", "ErrorConfig")


def read_json(path: Path) -> Any:
    """A JSON file, perhaps compressed. A cache that a tuner has not closed yet is closed here."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read ({reason})") from None
    try:
        return json.loads(text)
    except RecursionError:
        raise FileError(f"{path}: is nested too deeply for a file of a tuner") from None
    except ValueError as error:
        try:
            return json.loads(text.strip().removesuffix(",") + "}}")
        except ValueError:
            raise FileError(f"{path}: not valid JSON: {error}") from None


# -- spaces --------------------------------------------------------------------------------------


def read_t1(path: Path) -> TomlFile:
    """A T1 file as the workload file with a `[tune]` table that says the same."""
    given = read_json(path)
    for key in ("ConfigurationSpace", "KernelSpecification"):
        if not isinstance(given, dict) or not isinstance(given.get(key), dict):
            raise InputError(
                f"{path}: has no {key}; give a T1 file of Kernel Tuner, or a workload file (TOML) with [tune]"
            )
    try:
        space, kernel = given["ConfigurationSpace"], given["KernelSpecification"]
        if kernel.get("Language", "CUDA") not in ("CUDA", "NVCUDA", "CuPy"):
            raise InputError(
                f"{path}: KernelSpecification.Language is {kernel['Language']!r}; only CUDA is predicted"
            )
        parameters = {each["Name"]: each["Values"] for each in space["TuningParameters"]}
        restrictions = [each if isinstance(each, str) else each["Expression"] for each in space.get("Conditions", ())]
        problem = kernel.get("ProblemSize")
        sizes = {} if problem is None else {"ProblemSize": problem if isinstance(problem, list) else [problem]}
        lists = {name: _listed(values, f"{path}: {name}") for name, values in parameters.items()}
        cuda: dict[str, Any] = {
            "source": kernel["KernelFile"].removesuffix(".hip"),  # the CUDA source lies beside that of HIP
            "kernel": _filled_template(kernel["KernelName"], lists),
            "options": ["-Dkernel_tuner=1", *_options(kernel), *_template_macros(kernel["KernelName"], lists)],
            "block": _block(kernel, lists),
            "grid": _grid(kernel, lists),
        }
        if kernel.get("SharedMemory"):
            cuda["dynamic_shared_memory_bytes"] = kernel["SharedMemory"]
        cuda |= _arguments(kernel.get("Arguments", ()), {**sizes, **lists}, f"{path}: KernelSpecification.Arguments")
    except KeyError as error:
        raise InputError(f"{path}: is not a T1 file of a tuner: {error} is missing") from None
    except (TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: is not a T1 file of a tuner: a value has another type ({error})") from None
    tune = {"parameters": lists, "restrictions": restrictions, "constants": sizes}
    # Kernel Tuner takes a cache only if it has this name, template arguments and all.
    return TomlFile(str(path), "", {"name": kernel["KernelName"], "cuda": cuda, "tune": tune})


def _listed(values: Any, where: str) -> list[Any]:
    found = Expression(values, where).value({}) if isinstance(values, str) else values
    return list(found) if isinstance(found, list | tuple | range) else [found]


def _options(kernel: Mapping[str, Any]) -> list[str]:
    given = kernel.get("CompilerOptions") or ()
    return [each for each in (given.split() if isinstance(given, str) else given) if not _OWN_OPTIONS.fullmatch(each)]


def _filled_template(name: str, parameters: Mapping[str, Any]) -> str:
    """A kernel's name with `{NAME}` where Kernel Tuner has macros among its template arguments."""
    plain, bracket, arguments = name.partition("<")
    return plain + bracket + _WORD.sub(lambda m: f"{{{m[0]}}}" if m[0] in parameters else m[0], arguments)


def _template_macros(name: str, parameters: Mapping[str, Any]) -> list[str]:
    """Such parameters stay macros of the source."""
    words = dict.fromkeys(_WORD.findall(name.partition("<")[2]))
    return [f"-D{word}={{{word}}}" for word in words if word in parameters]


def _block(kernel: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Any]:
    """`LocalSize`, else parameters with Kernel Tuner's usual names."""
    local = kernel.get("LocalSize") or {}
    usual = (f"block_size_{axis.lower()}" for axis in _DIMENSIONS)
    return [
        local.get(axis) or (name if name in parameters else 1) for axis, name in zip(_DIMENSIONS, usual, strict=True)
    ]


def _grid(kernel: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Any]:
    """The problem's size over the divisors of each dimension, or `GlobalSize` where no size is given."""
    block = _block(kernel, parameters)
    if kernel.get("ProblemSize") is None:
        sizes = kernel["GlobalSize"]
        if kernel.get("GlobalSizeType", "CUDA") == "OpenCL":  # threads in all, not blocks
            return [
                f"ceil(({sizes.get(axis) or 1}) / ({each}))" for axis, each in zip(_DIMENSIONS, block, strict=True)
            ]
        return [sizes.get(axis) or 1 for axis in _DIMENSIONS]
    problem = kernel["ProblemSize"]
    found: list[Any] = []
    for index, size in enumerate(problem if isinstance(problem, list) else [problem]):
        axis = _DIMENSIONS[index]
        divisors = kernel.get(f"GridDiv{axis}") or []
        divisors = divisors if isinstance(divisors, list) else [divisors]
        usual = f"block_size_{axis.lower()}"
        below = " * ".join(f"({each})" for each in divisors) or (usual if usual in parameters else "1")
        found.append(f"ceil(({size}) / ({below}))")
    return found


def _arguments(rows: Sequence[Mapping[str, Any]], known: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`arguments` and `constants` of the `[cuda]` table. A constant is an argument too, as Kernel Tuner has it."""
    arguments, constants = [], {}
    for index, row in enumerate(rows):
        place = f"{where}[{index}]"
        made = _argument(row, known, place)
        kind = row["MemoryType"]
        if kind != "Symbol":
            arguments.append(made)
        if kind == "Symbol" or row.get("MemType") == "Constant":
            constants[row["Name"]] = made
    return {"arguments": arguments, **({"constants": constants} if constants else {})}


def _argument(row: Mapping[str, Any], known: Mapping[str, Any], where: str) -> dict[str, Any]:
    match = re.fullmatch(r"(int8|uint8|int16|uint16|int32|uint32|int64|uint64|[a-z]+)(\d*)", row["Type"])
    if match is None or match[1] not in _TYPES:
        raise InputError(
            f"{where}: Type {row['Type']!r} is unknown; write the space as TOML to give the array yourself"
        )
    dtype, lanes = _TYPES[match[1]], int(match[2] or 1)
    value = row.get("FillValue", 0)
    if row["MemoryType"] == "Scalar":
        return {"dtype": dtype, "value": _typed(value, dtype)}
    if row["MemoryType"] not in ("Vector", "Symbol"):
        raise InputError(f"{where}: MemoryType {row['MemoryType']!r} is unknown; there are Scalar, Vector and Symbol")
    size = row["Size"]
    count = Expression(size, where).value(known) if isinstance(size, str) else size
    made: dict[str, Any] = {"dtype": dtype, "shape": [int(count) * lanes]}
    fill = row.get("FillType", "Constant")
    if fill == "Constant":
        return made | {"fill": "constant", "value": _typed(value, dtype)}
    if fill == "Random":
        ends: dict[str, Any] = {"high": max(int(value), 1) + 1} if dtype.startswith(("int", "uint")) else {}
        if dtype.startswith("float"):  # Kernel Tuner's are normal: mean 0, variance 1
            ends = {"low": -math.sqrt(3.0), "high": math.sqrt(3.0)}
        return made | {"fill": "random", **ends}
    raise InputError(
        f"{where}: FillType {fill!r} is not supported; write the space as TOML to give the array yourself"
    )


def _typed(value: Any, dtype: str) -> Any:
    """A number of the argument's type; an expression stays as it is."""
    if isinstance(value, str):
        return value
    return float(value) if dtype.startswith("float") else bool(value) if dtype == "bool" else int(value)


# -- results ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What a tuner measured: seconds of each configuration, or why it has none."""

    device: str
    kernel: str
    keys: tuple[str, ...]
    seconds: Mapping[tuple[Value, ...], float] = field(repr=False)
    failures: Mapping[tuple[Value, ...], str] = field(default_factory=dict, repr=False)

    def of(self, configuration: Configuration) -> float | None:
        """The time of a configuration, which may have more parameters."""
        return self.seconds.get(tuple(configuration.get(key, "") for key in self.keys))

    def require_any(self, configurations: Sequence[Configuration], where: object) -> None:
        """Refuse times of another space before any work."""
        if not any(self.of(each) is not None for each in configurations):
            raise InputError(
                f"{where}: has no time of a configuration of this space, whose parameters are "
                f"{', '.join(configurations[0])}; those of the file are {', '.join(self.keys)}"
            )


def read_results(path: str | Path) -> Measured:
    """A cache file of Kernel Tuner or a T4 file, perhaps compressed."""
    path = Path(path)
    given = read_json(path)
    try:
        if "results" in given:
            rows = [(dict(each["configuration"]), *_t4_time(each)) for each in given["results"]]
            keys = list(rows[0][0]) if rows else []
            device, kernel = str(given.get("device_name", "")), str(given.get("kernel_name", ""))
        else:
            keys = list(given["tune_params_keys"])
            rows = [({key: each[key] for key in keys}, *_cache_time(each)) for each in given["cache"].values()]
            device, kernel = str(given.get("device_name", "")), str(given.get("kernel_name", ""))
        seconds, failures = {}, {}
        for configuration, milliseconds, failure in rows:
            key = tuple(configuration[name] for name in keys)
            if milliseconds is None:
                failures[key] = failure
            else:
                seconds[key] = milliseconds / 1e3
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: is neither a cache file of Kernel Tuner nor a T4 file: {error}") from None
    return Measured(device, kernel, tuple(keys), seconds, failures)


def _cache_time(row: Mapping[str, Any]) -> tuple[float | None, str]:
    time = row.get("time")
    failure = next((str(each) for each in (row.get("__error__"), time) if str(each) in _FAILURES), "")
    return (None, failure) if failure or not _is_time(time) else (float(time), "")


def _t4_time(row: Mapping[str, Any]) -> tuple[float | None, str]:
    if row.get("invalidity", "correct") != "correct":
        return None, str(row["invalidity"])
    for each in row.get("measurements", ()):
        if each["name"] == "time" and _is_time(each["value"]):
            return float(each["value"]), ""
    return None, "no time"


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def write_cache(
    path: str | Path,
    rows: Iterable[tuple[Configuration, float | None]],
    parameters: Mapping[str, Sequence[Value]],
    *,
    device: str,
    kernel: str,
    problem: Any = None,
) -> None:
    """Seconds as a cache file, with which Kernel Tuner's simulation mode and its plots work."""
    entries = {}
    for configuration, seconds in rows:
        values = [configuration[name] for name in parameters]
        entry: dict[str, Any] = {**configuration, "time": "InvalidConfig"}
        if seconds is not None:
            entry |= {"time": 1e3 * seconds, "times": [1e3 * seconds]}
        entry |= dict.fromkeys(
            ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"), 0.0
        )
        entries[",".join(map(str, values))] = entry
    document = {
        "device_name": device,
        "kernel_name": kernel,
        "problem_size": problem,
        "tune_params_keys": list(parameters),
        "tune_params": {name: list(values) for name, values in parameters.items()},
        "objective": "time",
        "cache": entries,
    }
    text = json.dumps(document, indent="")  # its reader looks for brackets on lines of their own
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None


# -- strategy ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PredictedFirst:
    """A strategy of Kernel Tuner: measure configurations in the order of their predicted time.

    `tune_kernel(…, strategy=PredictedFirst(seconds), strategy_options={"max_fevals": 20})`
    measures the twenty best. Configurations without a time come last.
    """

    #: Predicted seconds by the values of the parameters.
    seconds: Mapping[tuple[Value, ...], float] = field(repr=False)
    keys: tuple[str, ...]

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[Any]:
        """Called by Kernel Tuner."""
        names = list(searchspace.tune_params)

        def predicted(element: Sequence[Value]) -> float:
            values = dict(zip(names, element, strict=True))
            return self.seconds.get(tuple(values.get(key, "") for key in self.keys), float("inf"))

        ordered = sorted(searchspace.list, key=predicted)
        most = (tuning_options.get("strategy_options") or {}).get("max_fevals")
        results = runner.run(ordered if most is None else ordered[: int(most)], tuning_options)
        return [each for each in results if each is not None]
