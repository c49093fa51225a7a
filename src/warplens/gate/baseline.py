"""The file of predicted times that a project commits: one table per kernel and GPU, sorted, one line per fact.

Nothing in it depends on when or where it was written, so two branches that change different kernels merge. Of a
kernel whose numbers did not change, `--update` keeps the old table as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import FileError
from ..explanation import Line
from ..explanation.paired import Timing
from ..machine import Gpu
from ..result_cache import code_digest, content_hash
from ..tomlfile import read_toml
from ..traces import CLASS_NAMES
from .snapshot import BANK_CYCLES, Identity, Snapshot
from .verdicts import LEAST_TIME

SCHEMA = 1
#: Lines with a smaller part of the time are not worth a row.
LEAST_SHARE = 0.02
_MARKER = re.compile(r"^(<{7}|>{7}|={7}|\|{7})( |$)", re.M)
#: Groups of counts, a line each.
_TRAFFIC = ("sectors asked of the L1", "sectors asked of the L2", "DRAM bytes", BANK_CYCLES)
_INSTRUCTIONS = ("warp instructions", *CLASS_NAMES)
_HEAD = """\
# Predicted times of this project's kernels. `warplens check` compares with them, `warplens check --update` renews
# them. After a merge conflict, take either side and run `warplens check --update`.
"""

Key = tuple[Identity, str]


@dataclass(frozen=True)
class Baseline:
    """Snapshots, and what they were made with."""

    snapshots: tuple[Snapshot, ...]
    version: str
    #: A digest of the code of warplens, which may change under one version.
    code: str
    compiler: str
    #: A digest of the values of each machine.
    machines: Mapping[str, str]

    def by_key(self) -> dict[Key, Snapshot]:
        return {(each.identity, each.gpu): each for each in self.snapshots}


def machine_digest(gpu: Gpu) -> str:
    """A short hash of a machine's values, without their sources and descriptions."""
    plain = replace(gpu, description="", sources={}, original=None)
    return content_hash([repr(plain)])[:12]


def baseline_of(snapshots: Iterable[Snapshot], gpus: Iterable[Gpu], compiler: str) -> Baseline:
    machines = {gpu.name: machine_digest(gpu) for gpu in gpus}
    return Baseline(tuple(snapshots), __version__, code_digest()[:12], compiler, machines)


# -- reading --------------------------------------------------------------------------------


def read_baseline(path: Path) -> Baseline:
    """A baseline; every failure names the remedy."""
    if not path.exists():
        raise FileError(
            f"{path}: there is no baseline yet; write one with `warplens check --update` and commit it, or compare "
            "with a revision: `warplens check --against origin/main`"
        )
    if path.is_file() and (found := _MARKER.search(path.read_text("utf-8", "replace"))):
        line = path.read_text("utf-8", "replace")[: found.start()].count("\n") + 1
        raise FileError(
            f"{path}:{line}: a merge left conflict markers; take either side (`git checkout --ours {path.name}`) and "
            "run `warplens check --update`"
        )
    remedy = "restore it with git, or delete it and write a new one: `warplens check --update`"
    try:
        data = dict(read_toml(path).data)
    except FileError as error:
        raise FileError(f"{error}; {remedy}") from None
    if (schema := data.pop("schema", None)) != SCHEMA:
        given = "says no schema" if schema is None else f"has schema {schema}"
        raise FileError(f"{path}: {given}, and this version of warplens reads schema {SCHEMA}; {remedy}")
    try:
        version, code = str(data.pop("warplens")), str(data.pop("code", "unknown"))
        compiler, machines = str(data.pop("compiler")), data.pop("machines")
        snapshots = tuple(_snapshots(data))
        return Baseline(snapshots, version, code, compiler, {str(name): str(each) for name, each in machines.items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{path}: is no baseline ({type(error).__name__}: {error}); {remedy}") from None


def _snapshots(data: Mapping[str, Any]) -> Iterator[Snapshot]:
    for path, kernels in data.items():
        for name, machines in kernels.items():
            kernel, _, launch = name.partition("#")
            for gpu, values in machines.items():
                low, high = values.get("range", (None, None))
                counts = {**values.get("launch", {}), **values.get("traffic", {}), **values.get("instructions", {})}
                yield Snapshot(
                    Identity(path, kernel, int(launch or 0)),
                    gpu,
                    Timing(
                        *(float(values["seconds"]), low, high, values["stalls"]),
                        tuple(values.get("nearby", ())),
                        float(values.get("crowded", 1.0)),
                    ),
                    {count: float(value) for count, value in counts.items()},
                    tuple(Line("", 0, float(share), str(text)) for share, text in values.get("lines", ())),
                    values.get("model", "warplens"),
                    arguments=str(values.get("arguments", "")),
                )


def mismatches(kept: Baseline, gpus: Sequence[Gpu], compiler: str, path: Path) -> list[str]:
    """What makes comparing meaningless raises; what only may explain differences is returned."""
    made_by, this = (kept.version, kept.code), (__version__, code_digest()[:12])
    if made_by != this:
        parts = 1 if kept.version != __version__ else 2
        then, now = (" with code ".join(each[:parts]) for each in (made_by, this))
        raise FileError(
            f"{path}: was written by warplens {then}, and this is {now}: a difference could come "
            "from the model. Write it anew (`warplens check --update`), or compare revisions: `--against REF`"
        )
    for gpu in gpus:
        digest = kept.machines.get(gpu.name)
        if digest is not None and digest != machine_digest(gpu):
            raise FileError(
                f"{path}: the description of {gpu.name} has changed since: a difference could come from it. Write "
                "the baseline anew (`warplens check --update`), or compare revisions: `--against REF`"
            )
    if kept.compiler != compiler:
        return [f"the baseline was compiled by {kept.compiler}, this is {compiler}: changes may be the compiler's"]
    return []


# -- writing --------------------------------------------------------------------------------


def updated(old: Baseline | None, new: Baseline, *, whole: bool) -> Baseline:
    """The new baseline. Unless all of the project was predicted (`whole`), the old rest stays.

    Tables whose numbers are the same stay too, with the text of their lines.
    """
    if old is None:
        return new
    kept = old.by_key()
    found = {} if whole else dict(kept)
    for each in new.snapshots:
        key = each.identity, each.gpu
        same = key in kept and _facts(kept[key]) == _facts(each)
        found[key] = kept[key] if same else each
    machines = new.machines if whole else {**old.machines, **new.machines}
    return replace(new, snapshots=tuple(found.values()), machines=machines)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline whole, or not at all."""
    lines = [_HEAD, f"schema = {SCHEMA}", f"warplens = {_text(baseline.version)}", f"code = {_text(baseline.code)}"]
    lines += [f"compiler = {_text(baseline.compiler)}", "", "[machines]"]
    lines += [f"{_key(name)} = {_text(digest)}" for name, digest in sorted(baseline.machines.items())]
    for snapshot in sorted(baseline.snapshots, key=lambda each: (each.identity, each.gpu)):
        place = (snapshot.identity.path, str(snapshot.identity), snapshot.gpu)
        lines += ["", f"[{'.'.join(map(_key, place))}]", *_facts(snapshot)]
        shown = [line for line in snapshot.lines if line.text and line.share >= LEAST_SHARE]
        lines += ["lines = [", *(f"  [{line.share:.3f}, {_text(line.text)}]," for line in shown), "]"]
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None


def _facts(snapshot: Snapshot) -> list[str]:
    """A snapshot without its lines of source, as lines of TOML."""
    timing, counts = snapshot.timing, snapshot.counts
    found = [f"seconds = {timing.seconds:.5g}"]
    if timing.seconds_low is not None and timing.seconds_high is not None:
        found.append(f"range = [{timing.seconds_low:.4g}, {timing.seconds_high:.4g}]")
    if timing.nearby:
        found.append(f"nearby = [{', '.join(f'{each:.4g}' for each in timing.nearby)}]")
    if timing.crowded != 1.0:
        found.append(f"crowded = {timing.crowded:.4g}")
    if snapshot.model != "warplens":
        found.append(f"model = {_text(snapshot.model)}")
    if snapshot.arguments:
        found.append(f"arguments = {_text(snapshot.arguments)}")
    launch = [name for name in counts if name not in (*_TRAFFIC, *_INSTRUCTIONS)]
    parts = {name: value for name, value in timing.causes.items() if value >= LEAST_TIME * timing.seconds}
    found.append(f"stalls = {_table(parts)}")
    for name, keys in (("launch", launch), ("traffic", _TRAFFIC), ("instructions", _INSTRUCTIONS)):
        chosen = {key: counts[key] for key in keys if counts.get(key)}
        if chosen:
            found.append(f"{name} = {_table(chosen)}")
    return found


def _table(values: Mapping[str, float]) -> str:
    return f"{{ {', '.join(f'{_key(name)} = {value:.4g}' for name, value in values.items())} }}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    """A name or a text in quotes; JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
