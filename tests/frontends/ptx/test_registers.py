"""Virtual registers as numbers: what is live at once never shares one, as long as there are enough."""

from __future__ import annotations

from collections import Counter

import pytest

from warplens.frontends.ptx import parse_ptx
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.flow import Flow
from warplens.frontends.ptx.registers import DATA_REGISTERS, allocate_registers


def sum_of(count: int) -> str:
    """Loads, all of which are live until the last is there."""
    loads = [f"ld.global.f32 %f{i}, [%rd1+{4 * i}];" for i in range(count)]
    adds = [f"add.f32 %s{i + 1}, %s{i}, %f{i};" for i in range(count)]
    body = ["ld.param.u64 %rd1, [p];", "mov.f32 %s0, 0f00000000;", *loads, *adds, f"st.global.f32 [%rd1], %s{count};"]
    declared = f".reg .b64 %rd<2>; .reg .f32 %f<{count}>; .reg .f32 %s<{count + 1}>;"
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {"
    return "\n".join([head, declared, *body, "ret;", "}"])


@pytest.mark.parametrize("count", [100, 600])
def test_no_register_is_shared_by_many(count):
    kernel = flatten(parse_ptx(sum_of(count)), "k")
    found = allocate_registers(kernel, Flow(kernel))
    assert found.most_live >= count
    loaded = Counter(found.number[name] for name in kernel.registers if name.startswith("%f"))
    assert max(loaded.values()) <= -(-count // DATA_REGISTERS) + 1
    if count < DATA_REGISTERS:
        assert max(loaded.values()) == 1
