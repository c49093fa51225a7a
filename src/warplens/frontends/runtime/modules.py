"""Modules that a program loads: PTX out of its fat binaries, variables in device memory, kernels ready to run."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from ...errors import PtxError, WarplensError
from ..cuda.cubin import KernelResources, read_cubin
from ..cuda.machine_code import MachineCode
from ..ptx.execute import MOST_THREADS_PER_BLOCK, CompiledKernel, compile_kernel
from ..ptx.flatten import function_addresses, variable_addresses
from ..ptx.memory import initial_bytes
from ..ptx.parser import parse_ptx
from ..ptx.program import PtxModule
from .arena import Arena
from .fatbin import FatEntry, read_images
from .machine_code import assembled_machine_code, held_machine_code

#: Dynamic shared memory that a kernel may use without asking for more.
DEFAULT_SHARED_BYTES = 48 * 1024
#: Blocks of a cluster by axis, and what a launch without any says.
Cluster = tuple[int, int, int]
NO_CLUSTER: Cluster = (0, 0, 0)


class NoPtxError(PtxError):
    """A program holds machine code only."""


@dataclass(eq=False)
class DeviceFunction:
    """One kernel of a module, compiled when it is first launched."""

    module: DeviceModule
    name: str
    resources: KernelResources | None
    compiled: dict[tuple[bool, Cluster], CompiledKernel] = field(default_factory=dict)

    def code(self, *, recording: bool, cluster: Cluster = NO_CLUSTER) -> CompiledKernel:
        """Native code; that which records, or runs in clusters that the launch asks for, is another one."""
        key = recording, cluster
        if key not in self.compiled:
            self.compiled[key] = compile_kernel(
                self.module.ptx, self.name, recording=recording, cluster=None if cluster == NO_CLUSTER else cluster
            )
        return self.compiled[key]

    @cached_property
    def any_code(self) -> CompiledKernel:
        return next(iter(self.compiled.values()), None) or self.code(recording=False)

    @property
    def registers_per_thread(self) -> int:
        return (
            self.any_code.registers.registers_per_thread
            if self.resources is None
            else self.resources.registers_per_thread
        )

    @cached_property
    def machine_code(self) -> MachineCode | None:
        """Machine code for the GPU; modules that were compiled apart are linked, and have none."""
        module = self.module
        found = held_machine_code(module.images, module.gpu_architecture).get(self.name)
        if found is None and len(module.texts) == 1:
            found = assembled_machine_code(module.texts[0], self.name, module.target)
        return found

    @cached_property
    def parameters(self) -> list[tuple[int, int]]:
        """(Offset, bytes) of each parameter."""
        found, position = [], 0
        for each in self.module.ptx.functions[self.name].parameters:
            position = -(-position // max(each.alignment, 1)) * max(each.alignment, 1)
            found.append((position, each.size_bytes))
            position += each.size_bytes
        return found

    @cached_property
    def readable(self) -> str:
        return demangled(self.name)

    @property
    def most_threads(self) -> int:
        limit = self.module.ptx.functions[self.name].most_threads
        total = 1
        for each in limit:
            total *= each
        return min(total, MOST_THREADS_PER_BLOCK) if limit else MOST_THREADS_PER_BLOCK

    def described(self) -> bytes:
        """What the program may ask about it, see `Function::Attributes` in `shim/objects.h`."""
        resources = self.resources or KernelResources(0)
        if self.resources is None:
            code = self.any_code
            resources = KernelResources(
                code.registers.registers_per_thread, code.kernel.shared_bytes, code.kernel.local_bytes
            )
        version = self.module.architecture
        head = struct.pack(
            "<8q",
            resources.shared_memory_bytes,
            self.module.constant_bytes,
            resources.stack_bytes,
            self.most_threads,
            resources.registers_per_thread,
            version,
            version,
            DEFAULT_SHARED_BYTES - resources.shared_memory_bytes,
        )
        return head + b"".join(struct.pack("<II", *each) for each in self.parameters)


@dataclass(eq=False)
class DeviceModule:
    """A loaded module. Its variables are placed when it is loaded."""

    ptx: PtxModule
    architecture: int
    resources: dict[str, KernelResources]
    variables: dict[str, tuple[int, int]]
    texts: tuple[str, ...] = ()
    images: tuple[FatEntry, ...] = ()
    #: Of the GPU that runs it: 90 for compute capability 9.0.
    gpu_architecture: int = 0
    functions: dict[str, DeviceFunction] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """What machine code is made for: the GPU, or the one architecture that its PTX is for."""
        return self.ptx.target if self.ptx.target.endswith("a") else f"sm_{self.gpu_architecture}"

    @property
    def constant_bytes(self) -> int:
        return sum(each.size_bytes for each in self.ptx.variables.values() if each.space == "const")

    def function(self, name: str) -> DeviceFunction | None:
        if name not in self.ptx.entries:
            return None
        if name not in self.functions:
            self.functions[name] = DeviceFunction(self, name, self.resources.get(name))
        return self.functions[name]


def load_module(data: bytes, architecture: int, arena: Arena, number: int) -> DeviceModule:
    """A module of a fat binary, a cubin or a PTX text, for the architecture (90: 9.0) that fits best."""
    images = read_images(data)
    chosen, found = _best_ptx(images, architecture)
    if not chosen:
        held = ", ".join(sorted({f"sm_{each.architecture}" for each in images if each.architecture})) or "none"
        raise NoPtxError(
            f"the program holds machine code only (for {held}), and kernels run here from PTX; build it with PTX: "
            "nvcc -gencode arch=compute_90,code=[sm_90,compute_90], or -arch=sm_90, which adds it"
        )
    texts = tuple(each.data.decode("utf-8", "replace") for each in chosen)
    module = _linked([parse_ptx(text, name=f"module {number}") for text in texts])
    module = replace(module, variables_address=arena.own_position)
    addresses, _ = variable_addresses(module)
    known = {**function_addresses(module), **addresses}
    for name, address in addresses.items():
        variable = module.variables[name]
        placed = arena.place(variable.size_bytes, f"variable {name}", read_only=variable.space == "const")
        assert placed == address
        arena.write(address, initial_bytes(module, variable, known))
    sizes = {name: (address, module.variables[name].size_bytes) for name, address in addresses.items()}
    return DeviceModule(
        module, found or architecture, _resources(images, architecture), sizes, texts, tuple(images), architecture
    )


def _best_ptx(images: Sequence[FatEntry], architecture: int) -> tuple[list[FatEntry], int]:
    """The PTX texts of the newest architecture that the GPU has, else of the oldest; with it.

    nvcc puts PTX for sm_90 beside that for sm_90a, in which alone code for such GPUs is compiled.
    """

    def runs(number: int, features: str) -> bool:
        if features == "f":
            return number // 10 == architecture // 10 and number <= architecture
        return number == architecture if features else number <= architecture

    kinds = {(each.architecture, each.features) for each in images if each.is_ptx}
    known = sorted(kinds, key=lambda each: (each[0], ("", "f", "a").index(each[1])))
    if not known:
        return [], 0
    best = next((each for each in reversed(known) if runs(*each)), known[0])
    return [each for each in images if each.is_ptx and (each.architecture, each.features) == best], best[0]


def _linked(modules: Sequence[PtxModule]) -> PtxModule:
    """Modules that were compiled apart as one: what one only declares, another defines."""
    first, *others = modules
    if not others:
        return first
    functions, variables = dict(first.functions), dict(first.variables)
    names: dict[int, set[str]] = {}
    for module in modules:
        for number, name in module.files.items():
            names.setdefault(number, set()).add(name)
    files = {number: name for number, (name, *more) in names.items() if not more}  # others number other files so
    for module in others:
        for name, function in module.functions.items():
            if name not in functions or functions[name].body is None:
                functions[name] = function
        for name, variable in module.variables.items():
            if name not in variables or (variables[name].external and not variable.external):
                variables[name] = variable
    return replace(first, functions=functions, variables=variables, files=files, digest="")


def _resources(images: Sequence[FatEntry], architecture: int) -> dict[str, KernelResources]:
    """Registers and memory of kernels from the machine code nearest to the architecture; none without any."""
    found: dict[str, KernelResources] = {}
    cubins = [each for each in images if not each.is_ptx]
    for each in sorted(cubins, key=lambda each: -abs(each.architecture - architecture)):
        try:
            found |= read_cubin(each.data)
        except (ValueError, WarplensError):
            continue
    return found


@cache
def _demangler() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    return library


def demangled(name: str) -> str:
    """A kernel's name as the source has it, without its parameters; the name itself where that is unknown."""
    library, status = _demangler(), ctypes.c_int()
    if library is None or not name.startswith("_Z"):
        return name
    found = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not found:
        return name
    text = ctypes.string_at(found).decode("utf-8", "replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text
