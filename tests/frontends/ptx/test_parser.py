"""PTX text to data: directives, scopes, operands, literals, places in the source, and errors with their line."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from warplens.errors import PtxError
from warplens.frontends.ptx import execute
from warplens.frontends.ptx.parser import parse_ptx
from warplens.frontends.ptx.program import (
    TYPES,
    Address,
    BranchTargets,
    Function,
    Immediate,
    Instruction,
    Label,
    Pair,
    Register,
    Sink,
    SourcePlace,
    Special,
    Symbol,
    Vector,
)

DATA = Path(__file__).parent / "data"
HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"


def function(body: str, declarations: str = "") -> Function:
    """A kernel `k` with some statements; its first line is line 5 of the text."""
    return parse_ptx(f"{HEAD}.visible .entry k(.param .u64 a) {{{declarations}\n{body}\n}}\n").functions["k"]


def instructions(body: str, declarations: str = ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;") -> list:
    return list(function(body, declarations).instructions())


def one(body: str, **kwargs: str) -> Instruction:
    (found,) = instructions(body, **kwargs)
    return found


# -- modules ------------------------------------------------------------------------------------------


def test_head() -> None:
    module = parse_ptx(".version 7.8\n.target sm_90a, debug\n.address_size 64\n", "file.ptx")
    assert (module.name, module.version, module.target) == ("file.ptx", (7, 8), "sm_90a")
    assert not module.functions


def test_compiled_files() -> None:
    module = parse_ptx((DATA / "more.ptx").read_text())
    assert set(module.entries) == {"dispatch", "halves", "histogram"}
    assert module.files[1] == "more.cu"
    dispatch = module.functions["dispatch"]
    assert [each.size_bytes for each in dispatch.parameters] == [8, 8, 8, 24]
    assert dispatch.parameters[3].alignment == 8
    assert dispatch.variables["__local_depot1"].space == "local"
    assert dispatch.variables["__local_depot1"].alignment == 16
    called = next(each for each in dispatch.instructions() if each.opcode == "call")
    assert called.operands[1] == Symbol("_Z4pickiii")
    table = module.variables["table"]
    assert table.initial == struct.pack("<8f", *(2.0**each for each in range(8)))
    assert module.variables["counter"].initial == struct.pack("<i", 7)
    assert module.variables["dynamic"].size_bytes == 0 and module.variables["dynamic"].external
    assert module.functions["_Z4pickiii"].results[0].name == "func_retval0"


def test_initial_values() -> None:
    module = parse_ptx(
        HEAD + ".global .align 8 .f64 pair[4] = {1.5, 0d4000000000000000};\n"
        ".const .u16 small[3] = {1, -1, 0x10};\n"
        ".global .v2 .f32 twice[2] = {{1.0, 0f40000000}, {3.0, 4.0}};\n"
        ".global .u64 where[2] = {generic(pair)+8, small};\n"
        ".global .b8 text[] = {72, 105, 0};\n"
        ".global .s32 first = 3, second;\n"
    )
    variables = module.variables
    assert variables["pair"].initial == struct.pack("<4d", 1.5, 2.0, 0.0, 0.0)
    assert variables["small"].initial == struct.pack("<HhH", 1, -1, 16)
    assert variables["twice"].initial == struct.pack("<4f", 1, 2, 3, 4)
    assert variables["twice"].size_bytes == 16 and variables["twice"].alignment == 8
    assert variables["where"].pointers == ((0, "pair", 8), (8, "small", 0))
    assert variables["text"].count == 3 and variables["text"].initial == b"Hi\0"
    assert variables["first"].initial == struct.pack("<i", 3)
    assert variables["second"].initial is None


def test_linkage_and_declarations() -> None:
    module = parse_ptx(
        HEAD + ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 g);\n"
        ".func helper();\n"
        ".weak .func helper() .noreturn { ret; }\n"
        ".visible .entry k(.param .u64 .ptr .global .align 4 a, .param .align 4 .b8 s[12])\n"
        ".maxntid 128, 2, 1 .minnctapersm 2 { ret; }\n"
        ".visible .entry fixed() .reqntid 64 { ret; }\n"
    )
    assert module.functions["vprintf"].body is None
    assert module.functions["helper"].body is not None
    assert set(module.entries) == {"k", "fixed"}
    assert module.functions["k"].most_threads == (128, 2, 1)
    assert module.functions["fixed"].required_threads == (64,)
    assert [each.size_bytes for each in module.functions["k"].parameters] == [8, 12]


def test_sections_and_pragmas_are_skipped() -> None:
    text = HEAD + '.pragma "nounroll";\n.section .debug_info\n{\n.b8 1, 2\n{ .b64 x }\n}\n.entry k() { ret; }\n'
    assert "k" in parse_ptx(text).functions


def test_comments_and_lines() -> None:
    body = "/* two\nlines */ add.u32 %r1, %r2, %r3; // rest\n\n  ret;"
    found = instructions(body)
    assert [each.line for each in found] == [6, 8]


# -- functions ----------------------------------------------------------------------------------------


def test_registers() -> None:
    found = function("ret;", ".reg .b32 %r<3>, %x; .reg .pred p; .reg .f64 %fd<2>;").registers
    assert list(found) == ["%r0", "%r1", "%r2", "%x", "p", "%fd0", "%fd1"]
    assert found["%r2"] == TYPES["b32"] and found["p"] == TYPES["pred"] and found["%fd1"] == TYPES["f64"]


def test_scopes_hide_names() -> None:
    found = function(
        "mov.u32 x, 1;\n{ .reg .u64 x; mov.u64 x, 2; { .reg .f32 x; mov.f32 x, 0f3F800000; } }\nmov.u32 x, 3;",
        ".reg .u32 x;",
    )
    names = [each.operands[0].name for each in found.instructions()]
    assert names[0] == names[3] == "x"
    assert len(set(names)) == 3
    assert [found.registers[each].bits for each in names] == [32, 64, 32, 32]
    assert found.registers[names[2]].is_float


def test_call_parameters_are_scoped() -> None:
    found = function(
        "{ .param .b32 one; st.param.b32 [one], 1; }\n{ .param .b64 one; st.param.b64 [one], 2; }", ".reg .b32 %r;"
    )
    bases = [each.operands[0].base.name for each in found.instructions()]
    assert len(set(bases)) == 2
    assert [found.variables[each].type.bits for each in bases] == [32, 64]


def test_labels_and_branch_tables() -> None:
    body = function(
        "A: bra B;\nB: T: .branchtargets A, B;\n@!%p brx.idx %r, T;\nret;", ".reg .b32 %r; .reg .pred %p;"
    ).body
    assert body is not None
    assert [type(each) for each in body] == [Label, Instruction, Label, BranchTargets, Instruction, Instruction]
    assert body[3].labels == ("A", "B")
    assert body[4].guard == Register("%p", negated=True)
    assert body[1].operands == (Symbol("B"),)


# -- operands -----------------------------------------------------------------------------------------


def test_modifiers_and_types() -> None:
    item = one("@%p1 mad.lo.cc.u32 %r1, %r2, -3, 0x10;")
    assert (item.opcode, item.modifiers, item.name) == ("mad", ("lo", "cc", "u32"), "mad.lo.cc.u32")
    assert item.types == (TYPES["u32"],) and item.has("cc") and not item.has("hi")
    assert item.guard == Register("%p1")
    assert item.operands == (Register("%r1"), Register("%r2"), Immediate(-3), Immediate(16))
    assert one("ld.global.L2::128B.u32 %r1, [%d1];").modifiers == ("global", "L2::128B", "u32")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42U", 42),
        ("0x1fU", 31),
        ("0b101", 5),
        ("017", 15),
        ("-7", -7),
        ("0xFFFFFFFFFFFFFFFF", 2**64 - 1),
        ("1.5", 1.5),
        ("-2.5e3", -2500.0),
        ("1e3", 1000.0),
        ("0f3FC00000", 1.5),
        ("0F7f800000", float("inf")),
        ("0d3FF8000000000000", 1.5),
    ],
)
def test_literals(text: str, value: float) -> None:
    operand = one(f"mov.b64 %d1, {text};").operands[1]
    assert isinstance(operand, Immediate)
    assert operand.value == value and type(operand.value) is type(value)


def test_addresses() -> None:
    def address(text: str) -> Address:
        found = one(f"ld.u32 %r1, {text};").operands[1]
        assert isinstance(found, Address)
        return found

    assert address("[%d1]") == Address(Register("%d1"))
    assert address("[%d1+8]") == Address(Register("%d1"), 8)
    assert address("[%d1+-8]") == Address(Register("%d1"), -8)
    assert address("[a]") == Address(Symbol("a"))
    assert address("[a+4]") == Address(Symbol("a"), 4)
    assert address("[16]") == Address(Immediate(16))


def test_vectors_pairs_and_sinks() -> None:
    assert one("ld.global.v2.u32 {%r1, _}, [%d1];").operands[0] == Vector((Register("%r1"), Sink()))
    assert one("mov.b64 %d1, {%r1, 7};").operands[1] == Vector((Register("%r1"), Immediate(7)))
    pair = one("setp.lt.and.s32 %p1|_, %r1, %r2, !%p2;").operands
    assert pair[0] == Pair(Register("%p1"), Sink())
    assert pair[3] == Register("%p2", negated=True)
    assert one("mov.u64 %d1, a+16;").operands[1] == Symbol("a", 16)


def test_special_registers() -> None:
    assert one("mov.u32 %r1, %ntid.z;").operands[1] == Special("%ntid.z")
    assert one("mov.u32 %r1, %laneid;").operands[1] == Special("%laneid")
    assert one("mov.u32 %r1, WARP_SZ;").operands[1] == Immediate(32)
    with pytest.raises(PtxError, match="line 5: the register %nosuch"):
        one("mov.u32 %r1, %nosuch;")


def test_calls() -> None:
    results, target, arguments = one("call.uni (out), f, (a, %r1);").operands
    assert (results, target) == (Vector((Symbol("out"),)), Symbol("f"))
    assert arguments == Vector((Symbol("a"), Register("%r1")))
    assert one("call f;").operands == (Vector(()), Symbol("f"), Vector(()))


# -- places in the source -----------------------------------------------------------------------------


def test_loc() -> None:
    found = instructions(
        ".loc 1 10 3\nadd.u32 %r1, %r1, 1;\nadd.u32 %r1, %r1, 2;\n"
        ".loc 2 20 5, function_name $L__info_string0, inlined_at 1 11 7\nadd.u32 %r1, %r1, 3;\n"
        ".loc 1 12 0\nret;"
    )
    places = [each.place for each in found]
    assert places == [
        SourcePlace(1, 10),
        SourcePlace(1, 10),
        SourcePlace(2, 20, SourcePlace(1, 11)),
        SourcePlace(1, 12),
    ]


def test_calls_within_calls_have_a_chain() -> None:
    """A place of a call is the last .loc that names it."""
    found = instructions(
        ".loc 1 7 3\n.loc 2 6 5, function_name $a, inlined_at 1 7 3\n"
        ".loc 3 3 1, function_name $b, inlined_at 2 6 5\nadd.u32 %r1, %r1, 1;\n"
        ".loc 2 6 5\n.loc 3 3 1, function_name $b, inlined_at 2 6 5\nret;"
    )
    assert found[0].place == SourcePlace(3, 3, SourcePlace(2, 6, SourcePlace(1, 7)))
    assert found[1].place == SourcePlace(3, 3, SourcePlace(2, 6))


def test_a_place_that_is_inlined_in_itself_ends_somewhere() -> None:
    loc = ".loc 1 7 3, function_name $a, inlined_at 1 7 3\n"
    (found,) = instructions(f"{loc * 1000}ret;")
    assert len(list(found.place.chain)) <= 64


def test_loc_of_compiled_code() -> None:
    module = parse_ptx((DATA / "kernels.ptx").read_text())
    source = (DATA / "kernels.cu").read_text().splitlines()
    items = list(module.functions["saxpy"].instructions())
    inlined = [each for each in items if each.place.caller]
    assert inlined and all("weight" in source[each.place.line - 1] for each in inlined)
    assert all("weight(x[i]" in source[each.place.caller.line - 1] for each in inlined)
    stores = [each for each in items if each.opcode == "st"]
    assert [source[each.place.line - 1].strip()[:4] for each in stores] == ["y[i]"]


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no .version"),
        ("hello", "line 1: 'hello' is not known"),
        (".version x.y", "line 1: 'x' is not a PTX version"),
        (".version 8.0\n.address_size 32", "line 2: only 64-bit PTX"),
        (HEAD + ".global .align 3 .b8 x;", "line 4: x: 3 is not a valid alignment"),
        (HEAD + ".global .nothing x;", "line 4: expected a type, found"),
        (HEAD + ".global .u32 x = {1, 2};", "line 4: x has more initial values"),
        (HEAD + ".entry k() {\nadd.u32 %r1, 1, 2;\n}", "line 5: the register %r1"),
        (HEAD + ".entry k() {\n.reg .b32 x;\nadd.u32 x, 1\n}", "line 7: expected ';', found '}'"),
        (HEAD + ".entry k() {\n@p bra X;\n}", "line 5: the predicate p is not declared"),
        (HEAD + ".entry k() {\n.reg .b32 x<99999999>;\n}", "line 5: 99999999 registers"),
        (HEAD + ".entry k() {\n.reg .b32 x;\nld.u32 x, [x;\n}", "line 6: expected ']', found"),
        (HEAD + ".entry k() {\n ret;", "ends in the middle"),
        (HEAD + ".entry k() { ret; }\n.entry k() { ret; }", "line 5: k is defined twice"),
        (HEAD + ".entry k() {\n .unknown 3;\n}", "line 5: the directive .unknown"),
        (HEAD + ".entry k() { ret; } \x01", "line 4: '\\x01' is not valid PTX"),
        (HEAD + ".func f(.reg .b32 x) { ret; }", "line 4: parameters in registers"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PtxError) as raised:
        parse_ptx(text, "bad.ptx")
    assert str(raised.value).startswith("bad.ptx: ")
    assert message in str(raised.value)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(PtxError, match="nested too deeply"):
        function("{" * 5000 + "}" * 5000)
    with pytest.raises(PtxError, match="nested too deeply"):
        parse_ptx(HEAD + ".global .u32 x[1] = " + "{" * 5000 + "1" + "}" * 5000 + ";")


@pytest.mark.parametrize(
    "declaration",
    [
        ".global .f32 x = 1e300;",
        ".global .f16 x = 70000.0;",
        ".global .u32 x = 0f7F800000;",
        ".global .u32 x = 0f7FC00000;",
        f".global .u64 x = {'9' * 5000};",
        ".global .f32 x = 1e999999;",
        ".global .bf16 x = 1.5;",
        ".global .pred x = 1;",
    ],
)
def test_odd_initial_values(declaration: str) -> None:
    """A value or an error of ours, never another exception."""
    try:
        module = parse_ptx(HEAD + declaration)
    except PtxError as error:
        assert "line 4" in str(error)
    else:
        assert len(module.variables["x"].initial or b"") == module.variables["x"].size_bytes


def test_labels_between_braces_are_their_own() -> None:
    """Inline assembly of CUTLASS waits in such loops."""
    text = """.version 8.0
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 x) { .reg .b64 %d; .reg .b32 %r<3>; .reg .pred %p; ld.param.u64 %d, [x];
    mov.u32 %r0, %tid.x; mov.u32 %r1, 0;
    { .reg .pred %p; AGAIN: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra AGAIN; }
    { .reg .pred %p; setp.lt.u32 %p, %r0, 3; @%p bra DONE; AGAIN: add.u32 %r1, %r1, 2; setp.lt.u32 %p, %r1, 9;
    @%p bra AGAIN; DONE: }
    mad.wide.u32 %d, %r0, 4, %d; st.global.u32 [%d], %r1; ret; }"""
    x = np.zeros(32, np.uint32)
    execute(parse_ptx(text), "k", 1, 32, [x])

    def expected(thread: int) -> int:
        found = max(thread, 1)
        while thread >= 3:
            found += 2
            if found >= 9:
                break
        return found

    assert x.tolist() == [expected(thread) for thread in range(32)]
