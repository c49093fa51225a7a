"""LLVM IR to native code in this process, kept in the user's cache folder."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...errors import PtxError
from ...result_cache import content_hash, open_results
from .codegen.kernel import GeneratedCode

#: Bytes of IR above which code is less optimised, because compile time grows faster than code.
LARGE_IR_BYTES = 6_000_000
#: Unrolled code of which few warps run is not optimised at all: it records nearly as fast, and compiles in a third
#: of the time.
UNROLLED_IR_BYTES, FEW_WARPS = 500_000, 8192
#: Basic blocks, or pairs of live registers, above which registers of lanes stay in memory: LLVM allocates others in
#: quadratic time. The code is as fast, since lanes rarely fit the machine's registers anyway.
MANY_VALUES = 150
#: Likewise, above which code is not optimised at all.
TOO_MANY_VALUES = 600


@dataclass(frozen=True, eq=False)
class NativeCode:
    """A compiled kernel. `run_blocks(context, first block, blocks)` releases the interpreter lock."""

    run_blocks: Any
    engine: Any
    from_cache: bool


@cache
def _initialised() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@dataclass(frozen=True, eq=False)
class KeptCode:
    """The IR of a kernel: generated when it is needed, but a hash of it and two numbers are kept on disk."""

    digest: str
    ir_bytes: int
    frame_bytes: int
    generate: Callable[[], str]


def generated_once(key: str | None, generate: Callable[[], GeneratedCode]) -> KeptCode:
    """The code that `key` stands for; None is never kept."""
    results = open_results("generated")
    entry = None if key is None else results.get(key)
    if entry is not None:
        return KeptCode(entry["digest"], entry["ir_bytes"], entry["frame_bytes"], lambda: generate().ir)
    made = generate()
    found = KeptCode(content_hash([made.ir]), len(made.ir), made.frame_bytes, lambda: made.ir)
    if key is not None:
        kept = {"digest": found.digest, "ir_bytes": found.ir_bytes, "frame_bytes": found.frame_bytes}
        results.put(key, kept)
    return found


def compile_ir(generated: KeptCode, name: str, warps: float = math.inf, values: int = 0) -> NativeCode:
    """Native code for a module with a function `run_blocks`, which so many warps will run; errors call it `name`.

    `values` says how hard registers are to allocate, see `MANY_VALUES`.
    """
    import llvmlite

    binding = _initialised()
    cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    level = 1 if generated.ir_bytes > LARGE_IR_BYTES else 2
    if values > TOO_MANY_VALUES or (generated.ir_bytes > UNROLLED_IR_BYTES and warps <= FEW_WARPS):
        level = 0
    key = content_hash([generated.digest, cpu, features, llvmlite.__version__, str(level)])
    entry = open_results("native").get(key)
    code = None if entry is None else entry["object"].tobytes()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", jit=True)
    from_cache = code is not None
    if code is None:
        try:
            module = binding.parse_assembly(generated.generate())
            module.verify()
        except RuntimeError as error:
            raise PtxError(f"{name}: mixes types in an unsupported way ({str(error).splitlines()[0]})") from None
        if values <= TOO_MANY_VALUES:
            _optimise(binding, module, machine, promote=values <= MANY_VALUES)
        code = machine.emit_object(module)
        open_results("native").put(key, {"object": np.frombuffer(code, dtype=np.uint8)})
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return NativeCode(signature(engine.get_function_address("run_blocks")), engine, from_cache)


def _optimise(binding: Any, module: Any, machine: Any, *, promote: bool) -> None:
    """Promote memory to registers, then run cheap passes only: the code is already vectorised."""
    options = binding.create_pipeline_tuning_options(speed_level=1)
    builder = binding.create_pass_builder(machine, options)
    passes = binding.create_new_module_pass_manager()
    if promote:
        passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
