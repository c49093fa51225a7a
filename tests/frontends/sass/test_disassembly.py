"""Reading what nvdisasm prints."""

from __future__ import annotations

import struct

import pytest

from warplens.errors import TraceError
from warplens.frontends.sass.disassembly import parse_kernel, symbol_index

from .making import sample_sass

TEXT = """
\t.section\t.text.k,"ax",@progbits
\t.sectionflags\t@"SHF_BARRIERS=3"
\t.sectioninfo\t@"SHI_REGISTERS=168"
k:
.text.k:
\t//## File "a.cu", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;  /* 0x00000a00ff017b82 */
                                                           /* 0x000ff00000000800 */
\t//## File "math.h", line 77 inlined at "a.cu", line 4
        /*0010*/              @!P0 BRA `(.L_x_1) ;          /* 0x0000000000140947 */
                                                           /* 0x000fea0003800000 */
        /*0020*/                   BRX R2 -0x30 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;  /* 0x0000000000140949 */
                                                           /* 0x000fea0003800000 */
.L_x_2:
\t//## File "other.h", line 9
        /*0030*/                   LDG.E.64 R2, desc[UR4][R2.64+0x8] ;  /* 0x0000000000140949 */
                                                           /* 0x001fea0003800000 */
.L_x_1:
        /*0040*/                   EXIT ;  /* 0x000000000000794d */
                                                           /* 0x000fea0003800000 */
\t.section\t.text.other,"ax",@progbits
        /*0000*/                   NOP ;  /* 0x0000000000007918 */
                                                           /* 0x000fea0003800000 */
"""


def test_instructions_of_one_kernel():
    kernel = parse_kernel(TEXT, "k")
    assert [item.opcode for item in kernel.instructions] == ["LDC", "BRA", "BRX", "LDG.E.64", "EXIT"]
    branch, jump, load = kernel.instructions[1:4]
    assert (branch.guard, branch.targets) == ("!P0", (0x40,))
    assert jump.targets == (0x40, 0x30)
    assert load.operands == ("R2", "desc[UR4][R2.64+0x8]")
    # The line of the user's file: where a header's code was inlined, and none for other files.
    assert [item.line for item in kernel.instructions] == [3, 4, 4, 0, 0]
    assert kernel.source_file == "a.cu"
    assert [item.inlined for item in kernel.instructions[:3]] == [(), (("math.h", 77),), (("math.h", 77),)]
    # 0x000fea…: stall 5, yield 1, no barriers (7, 7), no waits; 0x001f…: waits for barrier 0.
    assert branch.control & 15 == 5 and branch.control >> 5 & 63 == 63
    assert load.control >> 11 & 63 == 1 and branch.control >> 11 & 63 == 0


def test_lines_of_calls_within_calls():
    """Several lines before an instruction go from the innermost outwards, to the kernel's own line."""
    text = TEXT.replace(
        '\t//## File "math.h", line 77 inlined at "a.cu", line 4\n',
        '\t//## File "/x/inner.h", line 3 inlined at "/x/outer.h", line 6\n'
        '\t//## File "/x/outer.h", line 6 inlined at "a.cu", line 2\n'
        '\t//## File "a.cu", line 2 inlined at "a.cu", line 4\n'
        '\t//## File "a.cu", line 4\n',
    )
    kernel = parse_kernel(text, "k")
    assert [item.line for item in kernel.instructions] == [3, 2, 2, 0, 0]
    assert kernel.instructions[1].inlined == (("inner.h", 3), ("outer.h", 6))
    assert kernel.instructions[0].inlined == kernel.instructions[3].inlined == ()


def test_recorded_kernels_can_be_read():
    kernel = parse_kernel(sample_sass(), "_Z6dividePKdS0_PdPKi")
    calls = [item for item in kernel.instructions if item.mnemonic == "CALL"]
    assert len(calls) == 8 and len({item.targets for item in calls}) == 1
    assert kernel.instructions[kernel.index_of(0x2A0)].opcode == "CALL.REL.NOINC"
    assert kernel.index_of(8) == -1 and kernel.index_of(1 << 20) == -1


def test_what_is_no_disassembly():
    with pytest.raises(TraceError, match="no instructions of kernel absent"):
        parse_kernel(TEXT, "absent")
    with pytest.raises(TraceError, match="has gaps"):
        parse_kernel(TEXT.replace("/*0030*/", "/*0038*/"), "k")


def _elf(names: list[str]) -> bytes:
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    symbols = bytes(24)
    offset = 1
    for name in names:
        symbols += struct.pack("<IBBHQQ", offset, 0x12, 0x10, 1, 0, 0)
        offset += len(name) + 1
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 40, 64)
    struct.pack_into("<HHH", header, 58, 64, 3, 0)
    start = 64 + 3 * 64
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, start, len(symbols), 2, 0, 0, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, start + len(symbols), len(strings), 0, 0, 0, 0)
    return bytes(header) + sections + symbols + strings


def test_symbol_of_a_kernel():
    cubin = _elf(["first", "second", "second_too"])
    assert symbol_index(cubin, "second") == 2
    with pytest.raises(TraceError, match="has no kernel third"):
        symbol_index(cubin, "third")
    for size in (0, 30, 100, 250):
        with pytest.raises(TraceError, match=r"not a cubin|no kernel"):
            symbol_index(cubin[:size], "second")
