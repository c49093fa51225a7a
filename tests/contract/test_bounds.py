"""Numbers and files far beyond any GPU are refused with a clear error, before memory runs out."""

from __future__ import annotations

from pathlib import Path

import pytest

import warplens
from warplens.errors import FileError, InputError, KernelFault, WorkloadError
from warplens.frontends.ptx import execute, parse_ptx
from warplens.machine import load_gpu
from warplens.machine.load import with_overrides
from warplens.workload.source import load_cuda_launch

PTX = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b8 big[SIZE];
.global .u64 pointer[1] = { big + ADDEND };
.visible .entry k()
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    mov.u64 %rd1, big;
    ld.global.u32 %r1, [%rd1+OFFSET];
    ret;
}
"""


@pytest.mark.parametrize("key", ["sms", "schedulers", "max_warps", "llc.banks", "llc.mshrs", "dram.channels"])
def test_machines_have_at_most_so_much(key: str) -> None:
    with pytest.raises(InputError, match=f"{key}: 1000000000 must be at most"):
        with_overrides(load_gpu("h200"), {key: 10**9})


def test_a_source_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.toml"
    path.write_text('[cuda]\nsource = "/dev/zero"\nkernel = "k"\ngrid = 1\nblock = 32\n')
    with pytest.raises(WorkloadError, match=r"k\.toml:2: .*larger than .* so not a source"):
        load_cuda_launch(path)
    with pytest.raises(FileError, match="larger than"):
        warplens.cuda(Path("/dev/zero"))


@pytest.mark.parametrize("size", [10**12, 10**11])
def test_variables_larger_than_memory_are_refused(size: int) -> None:
    text = PTX.replace("SIZE", str(size)).replace("ADDEND", "0").replace("OFFSET", "0")
    with pytest.raises(KernelFault, match="there is room for"):
        execute(parse_ptx(text), "k", 1, 32, [])


def test_addresses_wrap_as_on_a_gpu() -> None:
    for addend, offset in ((-(10**15), 0), (0, -(10**15)), (10**30, 0)):
        text = PTX.replace("SIZE", "64").replace("ADDEND", str(addend)).replace("OFFSET", str(offset))
        if offset:
            with pytest.raises(KernelFault, match="out of bounds"):
                execute(parse_ptx(text), "k", 1, 32, [], record=False)
        else:
            execute(parse_ptx(text), "k", 1, 32, [], record=False)
