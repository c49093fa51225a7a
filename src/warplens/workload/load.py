"""Workloads written by hand: TOML files to `Workload`."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..analysis import (
    NODE_KINDS,
    STALL_CAUSES,
    DependenceGraph,
    FlowNode,
    Instruction,
    InstructionMix,
    IntervalProfile,
    MixEntry,
    WorkFlowGraph,
    default_causes,
)
from ..errors import FileError, WorkloadError, nearest
from ..machine import INSTRUCTION_CLASSES
from ..tomlfile import TomlFile, exists
from ..units import LARGEST
from .launch import Launch
from .measured import MeasuredRun
from .workload import Workload

#: Folders of bundled workloads.
EXAMPLES = ("papers", "cuda")
#: Most intervals of a hand-written profile, repeats included.
MOST_INTERVALS = 1_000_000


def example_folder(kind: str = "papers") -> Path:
    """Bundled workloads: inside the installed package, or beside the sources of a checkout."""
    installed = Path(__file__).parent / kind
    return installed if installed.is_dir() else Path(__file__).parents[3] / "examples" / kind


def example_names(kind: str | None = None) -> list[str]:
    """Names of the bundled workloads: `papers` (numbers by hand), `cuda` (kernels with their source), or all."""
    kinds = EXAMPLES if kind is None else (kind,)
    return sorted(path.stem for each in kinds for path in example_folder(each).glob("*.toml"))


def find_workload(path: str | Path) -> Path:
    """A workload file, or the bundled one of that name (`mdm-baseline`)."""
    path = Path(path)
    if exists(path):
        if path.suffix in (".cu", ".cuh"):
            from ..frontends.cuda.draft import draft_of

            raise FileError(
                f"{path}: is a CUDA source; a workload file says how it is launched. `warplens init {path}` writes "
                f"one that is tried out. Untried, as {path.with_suffix('.toml')}:\n\n{draft_of(path).toml()}"
            )
        return path
    for kind in EXAMPLES:
        bundled = example_folder(kind) / f"{path.name.removesuffix('.toml')}.toml"
        if str(path.parent) in (".", str(Path("examples") / kind)) and exists(bundled):
            return bundled
    if path.suffix != ".toml":
        raise FileError(f"{path}: no such file, and no bundled example; {nearest(path.name, example_names())}")
    return path


def workload_of_file(file: TomlFile) -> Workload:
    """The workload that a file of numbers describes."""
    return _Reader.of_file(file).workload()


class _Reader:
    """One table of the file. Each value is taken out as it is read; a key left over is an error."""

    def __init__(self, file: TomlFile, table: Any, prefix: str) -> None:
        self.file, self.prefix = file, prefix
        if not isinstance(table, dict):
            raise WorkloadError(f"{file.where(prefix)}: {prefix}: must be a table")
        self.table = dict(table)
        self.known: list[str] = []

    @classmethod
    def of_file(cls, file: TomlFile) -> _Reader:
        return cls(file, file.data, "")

    def key(self, name: str) -> str:
        return f"{self.prefix}.{name}" if self.prefix else name

    def fail(self, name: str, why: str) -> WorkloadError:
        key = self.key(name) if name else self.prefix
        return WorkloadError(f"{self.file.where(key)}: {key}: {why}")

    def take(self, name: str, default: Any = None) -> Any:
        self.known.append(name)
        return self.table.pop(name, default)

    def text(self, name: str, default: str = "", choices: Any = None) -> str:
        value = self.take(name, default)
        if not isinstance(value, str):
            raise self.fail(name, "must be text")
        if choices is not None and value not in choices:
            raise self.fail(name, f"{value!r} is unknown; {nearest(value, choices)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, "must be true or false")
        return value

    def number(
        self,
        name: str,
        default: float | None = None,
        *,
        minimum: float = 0.0,
        most: float = LARGEST,
        above: bool = False,
    ) -> Any:
        value = self.take(name, default)
        return value if value is None else self.check(name, value, minimum, most, above)

    def check(self, name: str, value: Any, minimum: float = 0.0, most: float = LARGEST, above: bool = False) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(name, f"{value!r} is not a number")
        if not (minimum <= value <= most) or (above and value == minimum):  # NaN fails this too
            word = "above" if above else "at least"
            upper = "" if most == LARGEST and value == value and value < most else f" and at most {most:g}"
            raise self.fail(name, f"{value!r} must be {word} {minimum:g}{upper}")
        return float(value)

    def whole(self, name: str, *, minimum: float = 1.0) -> int | None:
        value = self.number(name, minimum=minimum)
        if value is not None and value != int(value):
            raise self.fail(name, f"{value!r} is not a whole number")
        return None if value is None else int(value)

    def rows(self, name: str) -> list[_Reader]:
        value = self.take(name, [])
        if not isinstance(value, list):
            raise self.fail(name, f"must be a list of tables, written [[{self.key(name)}]]")
        return [_Reader(self.file, row, f"{self.key(name)}[{index}]") for index, row in enumerate(value)]

    def table_of(self, name: str) -> _Reader | None:
        value = self.take(name)
        return None if value is None else _Reader(self.file, value, self.key(name))

    def done(self) -> None:
        for name in self.table:
            raise WorkloadError(
                f"{self.file.where(self.key(name))}: unknown key {self.key(name)!r}; {nearest(name, self.known)}"
            )

    # -- the parts of a workload ----------------------------------------------------

    def workload(self) -> Workload:
        name = self.text("name", Path(self.file.path).stem)
        description = self.text("description")
        machine = self.table_of("machine")
        launch = self.table_of("launch")
        mix = self.table_of("instruction_mix")
        graph = self.rows("dependence_graph")
        flow = self.rows("work_flow_graph")
        profile = self.table_of("interval_profile")
        run = self.table_of("measured_run")
        machine_name, overrides = machine.machine() if machine else (None, {})
        result = Workload(
            name=name,
            description=description,
            launch=launch.launch() if launch else Launch(),
            mix=mix.instruction_mix() if mix else None,
            graph=_dependence_graph(graph) if graph else None,
            flow=_work_flow_graph(flow) if flow else None,
            profile=profile.interval_profile() if profile else None,
            run=run.measured_run() if run else None,
            machine=machine_name,
            machine_overrides=MappingProxyType(overrides),
            path=self.file.path,
        )
        self.done()
        if not any((mix, graph, flow, profile, run)):
            raise WorkloadError(
                f"{self.file.path}: says nothing about the kernel; add [cuda] with its source and launch "
                "(`warplens init FILE.cu` writes it), or numbers: [instruction_mix], [[dependence_graph]], "
                "[[work_flow_graph]], [interval_profile] or [measured_run]"
            )
        return result

    def machine(self) -> tuple[str, dict[str, Any]]:
        name = self.text("name")
        if not name:
            raise self.fail("name", 'names the machine, for example "mdm2020"')
        overrides = self.take("set", {})
        if not isinstance(overrides, dict):
            raise self.fail("set", 'must be a table of overrides, for example { "l1.mshrs" = 64 }')
        self.done()
        return name, overrides

    def launch(self) -> Launch:
        blocks = self.whole("blocks")
        result = Launch(
            blocks=None if blocks is None else float(blocks),
            threads_per_block=self.whole("threads_per_block"),
            registers_per_thread=self.whole("registers_per_thread"),
            shared_memory_per_block_bytes=self.whole("shared_memory_per_block_bytes", minimum=0.0),
            blocks_per_sm=self.number("blocks_per_sm", minimum=0.0, above=True),
            warps_per_sm=self.number("warps_per_sm", minimum=0.0, above=True),
        )
        self.done()
        if result.blocks is not None and result.threads_per_block is None:
            raise self.fail("blocks", "needs threads_per_block beside it")
        return result

    def instruction_mix(self) -> InstructionMix:
        synchronizations = self.number("synchronizations", 0.0)
        transactions = self.number("uncoalesced_transactions", minimum=1.0)
        request_bytes = self.number("bytes_per_request", minimum=0.0, above=True)
        entries = {name: self.mix_entry(name) for name in INSTRUCTION_CLASSES if name in self.table}
        self.known += INSTRUCTION_CLASSES
        self.done()
        result = InstructionMix(entries, synchronizations, transactions, request_bytes)
        if not result.total > 0:
            raise self.fail("", "has no instructions; give a count per class, for example comp = 4")
        return result

    def mix_entry(self, name: str) -> MixEntry:
        raw = self.take(name)
        if not isinstance(raw, dict):
            return MixEntry(self.check(name, raw))
        row = _Reader(self.file, raw, self.key(name))
        count = row.number("count")
        if count is None:
            raise row.fail("count", "is missing")
        entry = MixEntry(
            count, row.number("independent", 0.0, most=count), row.number("uncoalesced", 0.0, most=count)
        )
        if entry.uncoalesced and INSTRUCTION_CLASSES[name].kind != "memory":
            raise row.fail("uncoalesced", "applies to memory classes only")
        row.done()
        return entry

    def interval_profile(self) -> IntervalProfile:
        latency = self.number("average_miss_latency_cycles")
        rows = self.rows("intervals")
        self.done()
        if not rows:
            raise self.fail("intervals", "is missing or empty; add [[interval_profile.intervals]]")
        matrix: list[list[float]] = []
        causes: list[list[float]] = []
        for row in rows:
            repeat, values, cause = row.interval()
            if len(matrix) + repeat > MOST_INTERVALS:
                raise row.fail("repeat", f"the profile would exceed {MOST_INTERVALS:,} intervals")
            matrix += [values] * repeat
            causes += [cause] * repeat
        return IntervalProfile(np.array(matrix), np.array(causes), latency)

    def measured_run(self) -> MeasuredRun:
        needed = {name: self.number(name, minimum=0.0, above=True) for name in ("clock_hz", "instructions_per_warp")}
        for name, value in needed.items():
            if value is None:
                raise self.fail(name, "is missing")
        load = self.number("load_seconds", 0.0)
        found = MeasuredRun(
            load_seconds=load,
            overlapped_seconds=self.number("overlapped_seconds", 0.0, most=load),
            outside_seconds=self.number("outside_seconds", 0.0),
            store_seconds=self.number("store_seconds", 0.0),
            **needed,
        )
        self.done()
        if not max(found.load_seconds, found.outside_seconds, found.store_seconds) > 0:
            raise self.fail("", "has no time in it; give load_seconds, outside_seconds or store_seconds")
        return found

    def interval(self) -> tuple[int, list[float], list[float]]:
        repeat = self.whole("repeat") or 1
        instructions = self.number("instructions", minimum=0.0, above=True)
        stall = self.number("stall_cycles", 0.0)
        reads = self.number("read_misses", 0.0)
        writes = self.number("write_requests", 0.0)
        memory = self.number("memory_instructions", 1.0 if reads else 0.0)
        ratio = self.number("llc_miss_ratio", 1.0 if reads or writes else 0.0, most=1.0)
        given = self.table_of("stall_causes")
        self.done()
        if instructions is None:
            raise self.fail("instructions", "is missing")
        if reads and not memory:
            raise self.fail("memory_instructions", "must be above 0 where there are read_misses")
        causes = default_causes(memory, ratio)
        if given is not None:
            causes = [given.number(cause, 0.0, most=1.0) for cause in STALL_CAUSES]
            given.done()
            if abs(sum(causes) - 1.0) > 1e-9:
                raise self.fail("stall_causes", f"must sum to 1, not {sum(causes):g}")
        return repeat, [instructions, stall, memory, reads, writes, ratio], causes


def _dependence_graph(rows: list[_Reader]) -> DependenceGraph:
    positions: dict[str, int] = {}
    classes: list[str] = []
    wanted: list[list[str]] = []
    for index, row in enumerate(rows):
        identity = row.text("id", f"i{index + 1}")
        classes.append(row.text("class", choices=INSTRUCTION_CLASSES))
        depends = row.take("depends", [])
        if not isinstance(depends, list) or not all(isinstance(name, str) for name in depends):
            raise row.fail("depends", "must be a list of ids")
        if identity in positions:
            raise row.fail("id", f"{identity!r} is used twice")
        positions[identity] = index
        wanted.append(depends)
        row.done()
    for row, depends in zip(rows, wanted, strict=True):
        for name in depends:
            if name not in positions:
                raise row.fail("depends", f"no instruction has the id {name!r}; {nearest(name, positions)}")
    order = _program_order(rows, [[positions[name] for name in depends] for depends in wanted], list(positions))
    new_position = {old: new for new, old in enumerate(order)}
    return DependenceGraph(
        tuple(
            Instruction(classes[old], tuple(sorted({new_position[positions[name]] for name in wanted[old]})))
            for old in order
        )
    )


def _program_order(rows: list[_Reader], depends: list[list[int]], names: list[str]) -> list[int]:
    """The written order, but with every instruction after those it waits for. A cycle is an error."""
    order: list[int] = []
    state = [0] * len(rows)  # 0 = not seen, 1 = being placed, 2 = placed
    for root in range(len(rows)):
        stack = [root]
        while stack:
            current = stack[-1]
            if state[current] == 0:
                state[current] = 1
                for other in depends[current]:
                    if state[other] == 1:
                        circle = " → ".join(names[i] for i in (*stack[stack.index(other) :], other) if state[i] == 1)
                        raise rows[current].fail("depends", f"the dependences form a cycle: {circle}")
                stack += [other for other in reversed(depends[current]) if state[other] == 0]
            else:
                if state[current] == 1:
                    state[current] = 2
                    order.append(current)
                stack.pop()
    return order


def _work_flow_graph(rows: list[_Reader]) -> WorkFlowGraph:
    nodes = []
    for row in rows:
        kind = row.text("kind", choices=NODE_KINDS)
        default_class = {"compute": "comp", "memory": "mem", "barrier": "barrier"}[kind]
        share = row.number("share", 1.0, minimum=0.0, above=True, most=1.0)
        node = FlowNode(
            kind=kind,
            instruction_class=row.text("class", default_class, choices=INSTRUCTION_CLASSES),
            count=row.number("count", 1.0, minimum=0.0, above=True) * share,
            ilp=row.number("ilp", 1.0, minimum=1.0),
            dependent=row.flag("dependent", True),
        )
        if kind == "memory" and INSTRUCTION_CLASSES[node.instruction_class].kind != "memory":
            raise row.fail("class", f"{node.instruction_class!r} is not a memory class")
        row.done()
        nodes.append(node)
    return WorkFlowGraph(tuple(nodes))
