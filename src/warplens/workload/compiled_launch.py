"""What the compiler made of a launch."""

from __future__ import annotations

from dataclasses import dataclass

from ..frontends.cuda.machine_code import MachineCode


@dataclass(frozen=True)
class CompiledLaunch:
    """The PTX of a launch and, if known, the resources of its machine code."""

    ptx: str
    name: str
    entry: str
    registers_per_thread: int | None
    registers_from: str
    """Who gave the registers: `workload file` or the compiler; empty if they must be estimated."""
    shared_memory_bytes: int | None
    log: str = ""
    local_memory_bytes: int | None = None
    """Of a thread: spilled registers, and arrays that are indexed at run time."""
    machine_code: MachineCode | None = None
