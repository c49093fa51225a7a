"""A workload whose mix was counted from PTX, without running the kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..analysis import DependenceGraph, Instruction, InstructionMix, MixEntry
from ..frontends.cuda.arguments import Argument, ScalarArgument, StructArgument
from ..frontends.ptx import parse_ptx
from ..frontends.ptx.static_mix import Buffer, StaticMix, static_mix
from ..machine import INSTRUCTION_CLASSES, Gpu, InstructionTiming
from .facts import Facts, batch_shape
from .launch import Launch, resident
from .source import CudaLaunch, compile_launch, launch_parameters
from .workload import Workload


def analyse_counts(workload: Workload, gpu: Gpu, needed_by: str) -> Facts:
    """Facts with an instruction mix only; an access takes the machine's interval for each line that it touches."""
    assert workload.counted is not None
    counted = workload.counted
    facts = Facts(
        workload,
        gpu,
        batch_shape(workload.launch, gpu),
        resident(workload.launch, gpu),
        timings={name: _timing(counted, gpu, name, needed_by) for name in counted.counts if _is_memory(name)},
        notes=_notes(counted),
    )
    mix = mix_of(counted, lambda name: facts.timing(name, needed_by).latency_cycles)
    return dataclasses.replace(facts, views={"instruction_mix": mix})


def _is_memory(instruction_class: str) -> bool:
    return INSTRUCTION_CLASSES[instruction_class].kind == "memory"


def _timing(counted: StaticMix, gpu: Gpu, instruction_class: str, needed_by: str) -> InstructionTiming:
    timing = gpu.timing(instruction_class, needed_by)
    lines = lines_of_class(counted, instruction_class)
    return dataclasses.replace(timing, interval_cycles=np.multiply(timing.interval_cycles, lines))


def _notes(counted: StaticMix) -> tuple[str, ...]:
    found = ["counted from the PTX without running it: cache hits are unknown, so all accesses go to DRAM"]
    given = [loop for loop in counted.loops if loop.origin == "given"]
    if given:
        said = ", ".join(f"line {loop.source_line}: {loop.trips:g}" for loop in given)
        found.append(f"iterations of loops as given ({said})")
    if upper := [str(loop.source_line) for loop in counted.loops if loop.at_most]:
        found.append(f"loops with an early exit are assumed to run to their end (line {', '.join(upper)})")
    if counted.branches:
        lines = dict.fromkeys(str(each.source_line) for each in counted.branches)
        found.append(f"data-dependent branches count with their weight (line {', '.join(lines)})")
    return tuple(found)


def lines_of_class(mix: StaticMix, instruction_class: str) -> float:
    """128-byte lines per execution of an access of a class; 1 where there are none."""
    chosen = [each for each in mix.accesses if each.instruction_class == instruction_class]
    executions = sum(each.executions for each in chosen)
    return sum(each.lines * each.executions for each in chosen) / executions if executions else 1.0


def mix_of(mix: StaticMix, latency: Callable[[str], Any]) -> InstructionMix:
    """The mix with its dependent set: the longest chain of each basic block, added up over the blocks."""
    independent: dict[str, Any] = {}
    for block in mix.blocks:
        if not block.instructions or not block.executions:
            continue
        graph = DependenceGraph(tuple(Instruction(name, depends) for name, depends in block.instructions))
        for name, entry in graph.instruction_mix(latency).entries.items():
            independent[name] = independent.get(name, 0.0) + np.multiply(entry.independent, block.executions)
    uncoalesced: dict[str, float] = {}
    for access in mix.accesses:
        several = access.uncoalesced * access.executions
        uncoalesced[access.instruction_class] = uncoalesced.get(access.instruction_class, 0.0) + several
    entries = {
        name: MixEntry(count, _plain(np.minimum(independent.get(name, 0.0), count)), uncoalesced.get(name, 0.0))
        for name, count in mix.counts.items()
    }
    return InstructionMix(entries, mix.barriers, _transactions(mix))


def _transactions(mix: StaticMix) -> float | None:
    """Average cache lines of an uncoalesced access (#Uncoal_per_mw)."""
    several = [(each.uncoalesced * each.executions, each) for each in mix.accesses]
    total = sum(count for count, _ in several)
    if not total:
        return None
    # An access may be uncoalesced only at times; its other executions touch one line.
    lines = sum((each.lines - (1.0 - each.uncoalesced)) * each.executions for count, each in several if count)
    return max(lines / total, 1.0)


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def workload_of_static_mix(mix: StaticMix, launch: Launch, name: str | None = None, **known: Any) -> Workload:
    """A workload for Roofline, Volkov, Transit and MWP-CWP; `known` are other fields of a workload."""
    return Workload(name=name or mix.kernel, launch=launch, counted=mix, **known)


def static_mix_of(launch: CudaLaunch) -> StaticMix:
    """Static counts of a workload file's launch, with the hints of its `[static]` table."""
    return _count(launch)[0]


def static_workload(launch: CudaLaunch) -> Workload:
    """The launch of a `[cuda]` workload file, counted without running it; no array is filled."""
    mix, registers, shared = _count(launch)
    return workload_of_static_mix(
        mix,
        Launch(
            blocks=float(launch.blocks),
            threads_per_block=launch.threads_per_block,
            registers_per_thread=registers or mix.estimated_registers,
            shared_memory_per_block_bytes=(shared or mix.shared_memory_bytes) + launch.dynamic_shared_memory_bytes,
        ),
        launch.name,
        description=launch.description,
        machine=launch.machine,
        machine_overrides=launch.machine_overrides,
        path=launch.path,
    )


def _known(argument: Argument) -> Any:
    """What counting knows of an argument: a number, or the size of an array; of a struct nothing."""
    if isinstance(argument, StructArgument):
        return None
    return argument.value if isinstance(argument, ScalarArgument) else Buffer(argument.nbytes)


def _count(launch: CudaLaunch) -> tuple[StaticMix, int | None, int | None]:
    compiled = compile_launch(launch)
    arguments: list[Any] = (
        list(launch_parameters(launch))  # a Python kernel gets more than a pointer for each array
        if launch.language == "python"
        else [_known(each) for each in launch.arguments]
    )
    mix = static_mix(
        parse_ptx(compiled.ptx, name=compiled.name),
        compiled.entry,
        launch.grid,
        launch.block,
        arguments,
        trip_counts=launch.static.trip_counts,
        branch_weight=launch.static.branch_weight,
    )
    return mix, compiled.registers_per_thread, compiled.shared_memory_bytes
