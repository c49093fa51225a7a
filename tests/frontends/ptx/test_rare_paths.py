"""Executions of divisions and roots whose operands take the rare path of machine code are counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warplens.frontends.ptx import parse_ptx
from warplens.frontends.ptx.execute import Launch, compile_kernel
from warplens.frontends.ptx.memory import lay_out_memory

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out)
{{
  .reg .b64 %rd<8>;
  .reg .b32 %r<4>;
  .reg .{register} %x<4>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, {size};
  add.u64 %rd5, %rd1, %rd4;
  add.u64 %rd6, %rd2, %rd4;
  add.u64 %rd7, %rd3, %rd4;
  ld.global.{register} %x1, [%rd5];
  ld.global.{register} %x2, [%rd6];
  setp.lt.u32 %p1, %r1, 33;
  {instruction};
  st.global.{register} [%rd7], %x1;
  ret;
}}
"""


def counted(instruction: str, kind: type, a: np.ndarray, b: np.ndarray) -> tuple[int, int]:
    """(Warps that execute an instruction, those of them that take its rare path)."""
    size = np.dtype(kind).itemsize
    register = f"{'f' if np.dtype(kind).kind == 'f' else 'b'}{8 * size}"
    module = parse_ptx(KERNEL.format(instruction=instruction, register=register, size=size))
    compiled = compile_kernel(module, "k", recording=True)
    memory = lay_out_memory(compiled.kernel, [a, b, np.zeros_like(a)], None)
    memory.copy_in()
    launch = Launch(compiled, (1, 1, 1), (len(a), 1, 1), memory, 0, 2**40, math.inf, None, "k")
    launch.execute(None, None, None, None)
    (executed,) = np.flatnonzero(launch.rare_paths[:, 0]) if launch.rare_paths[:, 0].any() else (0,)
    return tuple(map(int, launch.rare_paths[executed]))


def of_warps(kind: type, *values: float) -> np.ndarray:
    """One number for each warp, in its fifth lane; ordinary ones elsewhere."""
    found = np.full(32 * len(values), 3.0).astype(kind)
    found[5::32] = values
    return found


TINY, HUGE = 2.0**-1000, 2.0**1023


@pytest.mark.parametrize(
    ("instruction", "kind", "a", "b"),
    [
        # The last warp of each has ordinary operands.
        ("div.rn.f32 %x1, %x1, %x2", np.float32, (0.0, 1e-40, np.inf, np.nan, 1.0, 1.0, 1e30, 1e-36, 5.0),
         (2.0, 2.0, 2.0, 2.0, 0.0, 2.0**127, 1e-30, 7.0, 7.0)),
        ("div.rn.f64 %x1, %x1, %x2", np.float64, (0.0, -0.0, TINY, 1e-250, 1.0, np.nan, 5.0),
         (2.0, 2.0, 2.0, 1e200, np.inf, 1.0, 7.0)),
        ("rcp.rn.f32 %x1, %x1", np.float32, (0.0, 1e-40, np.inf, 2.0**126, 9.0), (0.0,) * 5),
        ("rcp.rn.f64 %x1, %x1", np.float64, (0.0, np.inf, HUGE, 9.0), (0.0,) * 4),
        ("sqrt.rn.f32 %x1, %x1", np.float32, (0.0, -1.0, np.inf, 1e-31, 9.0), (0.0,) * 5),
        ("sqrt.rn.f64 %x1, %x1", np.float64, (0.0, -1.0, np.nan, TINY, 9.0), (0.0,) * 5),
        ("div.u64 %x1, %x1, %x2", np.uint64, (2**32, 8, 2**32 - 1), (1, 2**33, 3)),
        ("rem.s64 %x1, %x1, %x2", np.int64, (2**32, -8, 2**32 - 1), (1, 3, 3)),
    ],
)  # fmt: skip
def test_one_lane_with_a_rare_operand_sends_its_warp_there(instruction, kind, a, b) -> None:
    warps = len(a)
    divisors = of_warps(kind, *b) if instruction.startswith(("div", "rem")) else of_warps(kind, *[1] * warps)
    assert counted(instruction, kind, of_warps(kind, *a), divisors) == (warps, warps - 1)


@pytest.mark.parametrize("value", [1e-28, 0.001, 1.0, -3.5, 1e10, 1e30])
def test_ordinary_operands_do_not(value: float) -> None:
    single, double = (of_warps(kind, value) for kind in (np.float32, np.float64))
    assert counted("div.rn.f32 %x1, %x1, %x2", np.float32, single, single) == (1, 0)
    assert counted("div.rn.f64 %x1, %x1, %x2", np.float64, double, double) == (1, 0)
    assert counted("rcp.rn.f64 %x1, %x1", np.float64, double, double) == (1, 0)


def test_lanes_that_a_guard_keeps_out_do_not_count() -> None:
    a, b = of_warps(np.float32, 0.0, 0.0), of_warps(np.float32, 1.0, 1.0)
    assert counted("@%p1 div.rn.f32 %x1, %x1, %x2", np.float32, a, b) == (2, 1)


@pytest.mark.parametrize("instruction", ["div.approx.f32", "div.full.f32"])
def test_approximations_have_no_rare_path(instruction: str) -> None:
    zeros = np.zeros(32, np.float32)
    assert counted(f"{instruction} %x1, %x1, %x2", np.float32, zeros, zeros) == (0, 0)
