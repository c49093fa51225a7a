"""Launches that find in the L2 what others have left there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warplens.api import load_workloads
from warplens.frontends.ptx.memory import lay_out_memory
from warplens.frontends.ptx.placement import Placement
from warplens.machine import load_gpu
from warplens.workload.traced import cache_misses

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from) { .reg .b64 %d<3>; .reg .b32 %r<3>;
ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
mad.lo.u32 %r0, %r0, 256, %r1; mad.wide.u32 %d0, %r0, 4, %d0; mad.wide.u32 %d1, %r0, 4, %d1;
ld.global.u32 %r2, [%d1]; st.global.u32 [%d0], %r2; ret; }
"""
WORDS = 256 * 64
BUFFERS = "".join(f'[buffers.{name}]\ndtype = "uint32"\nshape = [{WORDS}]\n' for name in "xyz")


def misses(folder: Path, keys: str, *pairs: tuple[str, str, str]) -> list[int]:
    """Sectors that launches of `copy` (to, from, own keys) miss in the L2."""
    (folder / "k.ptx").write_text(PTX)
    launches = "".join(
        f'[[launch]]\n{own}\narguments = [{{ buffer = "{to}" }}, {{ buffer = "{source}" }}]\n'
        for to, source, own in pairs
    )
    path = folder / "w.toml"
    path.write_text(f'[cuda]\nptx = "k.ptx"\ngrid = [64]\nblock = [256]\n{keys}\n{BUFFERS}{launches}')
    gpu = load_gpu("h200")
    return [cache_misses(workload, gpu).dram_read_bytes for workload in load_workloads(path, gpu=gpu)]


def test_lines_stay_in_the_l2(tmp_path: Path) -> None:
    whole = 4 * WORDS
    cold, warm = "", 'caches = "warm"'
    steps = (("y", "x", ""), ("z", "y", ""), ("x", "z", ""))
    assert misses(tmp_path, cold, *steps) == [whole, whole, whole]
    assert misses(tmp_path, warm, *steps) == [whole, 0, 0]
    assert misses(tmp_path, cold, ("y", "x", ""), ("y", "x", ""), ("y", "x", warm)) == [whole, whole, 0]
    assert misses(tmp_path, warm, ("y", "x", ""), ("y", "z", ""), ("z", "x", "")) == [whole, whole, 0]


def test_arrays_keep_their_addresses() -> None:
    from warplens.frontends.ptx import parse_ptx
    from warplens.frontends.ptx.flatten import flatten

    kernel = flatten(parse_ptx(PTX), "copy")
    x, y, z = (np.zeros(100, np.uint32) for _ in range(3))
    placement = Placement()
    places = [lay_out_memory(kernel, pair, placement=placement).arrays for pair in ((x, y), (z, y), (y, x))]
    addresses = [[address for _, address in each] for each in places]
    assert addresses[0] == addresses[2][::-1] and addresses[1][1] == addresses[0][1]
    assert len({address for each in addresses for address in each}) == 3
