"""Floating-point operations of a traced launch by precision, and how many of each a machine can do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ..machine import Gpu
from ..machine.classes import PRODUCT_COLUMNS, product_class
from ..traces import CLASS_NAMES
from .instructions import executions_of
from .workload import Workload

#: Instruction class -> precision.
PRECISIONS = {"fp16": "fp16", "fp32": "fp32", "fp32_div": "fp32", "fp64": "fp64", "fp64_div": "fp64"}
TENSOR = "tensor"

#: Operations of an instruction, in PTX and in SASS; comparisons, minima and moves count none.
_TWO = ("fma", "mad", "ffma", "dfma", "hfma")
_ONE = ("add", "sub", "mul", "div", "sqrt", "rcp", "rsqrt", "fadd", "fmul", "dadd", "dmul", "hadd", "hmul")
_PTX_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SASS_SHAPE = re.compile(r"\b(16|8)x?(8|16)x?(4|8|16|32|64|128|256)\b")
#: Of one m16n8k16 product, where an opcode does not tell its shape.
_PRODUCT = 2 * 16 * 8 * 16


def flops_of(workload: Workload) -> dict[str, float]:
    """FLOPs of the recorded thread blocks by precision; a multiply-add counts as two."""
    static = workload.require_trace("a count of FLOPs").static
    executions, lanes = executions_of(workload)
    found: dict[str, float] = {}
    for index, name in enumerate(np.array(CLASS_NAMES)[static.class_id].tolist()):
        if name.startswith(TENSOR):
            precision, count = TENSOR, float(executions[index]) * product_flops(str(static.opcode[index]), name)
        elif name in PRECISIONS:
            precision, count = PRECISIONS[name], float(lanes[index]) * lane_flops(str(static.opcode[index]))
        else:
            continue
        if count:
            found[precision] = found.get(precision, 0.0) + count
    return found


def lane_flops(opcode: str) -> int:
    """FLOPs of one lane. Packed instructions (`f16x2`, `HFMA2`) do two at once."""
    first = opcode.partition(".")[0].lower()
    packed = 2 if "x2" in opcode or first.endswith("2") else 1
    name = first.removesuffix("2")
    return packed * (2 if name in _TWO else 1 if name in _ONE else 0)


def product_flops(opcode: str, instruction_class: str) -> int:
    """FLOPs of a warp's matrix product; a warp does a quarter of what a warpgroup does together."""
    if instruction_class.startswith("tensor_n"):
        return _PRODUCT * int(instruction_class.removeprefix("tensor_n")) // 8
    shape = _PTX_SHAPE.search(opcode) or _SASS_SHAPE.search(opcode)
    if shape is None:
        return _PRODUCT
    rows, columns, depth = map(int, shape.groups())
    return 2 * rows * columns * depth


def peak_flops(gpu: Gpu) -> Mapping[str, float]:
    """FLOP/s of a whole machine by precision, from its instruction throughputs; none where it does not tell them."""
    found = {"fp64": 64 * _rate(gpu, "fp64"), "fp32": 64 * (_rate(gpu, "fp32") or _rate(gpu, "comp"))}
    found["fp16"] = 128 * _rate(gpu, "fp16")  # packed: two a lane
    products = [_rate(gpu, product_class(each)) * _PRODUCT * each // 8 for each in PRODUCT_COLUMNS]
    found[TENSOR] = max(_rate(gpu, TENSOR) * _PRODUCT, *products)
    return {name: peak for name, peak in found.items() if peak}


def _rate(gpu: Gpu, instruction_class: str) -> float:
    """Warp instructions of a class per second on all SMs; 0 where the machine does not tell."""
    interval = gpu.get(f"instructions.{instruction_class}.interval_cycles")
    return 0.0 if interval is None else float(gpu.sms) * float(gpu.clock_hz) / float(interval)
