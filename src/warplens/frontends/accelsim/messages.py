"""The parser's error numbers as messages with remedies."""

from __future__ import annotations

from typing import Any

from . import _parser_state as k

_AGAIN = "trace or copy the kernel again"
_TEXTS = {
    k.E_NOT_BEGIN: ("text outside a thread block", "expected #BEGIN_TB"),
    k.E_NESTED_BEGIN: ("a thread block begins inside another", f"#END_TB is missing before it; {_AGAIN}"),
    k.E_NO_COORDINATES: ("no thread block coordinates", "expected 'thread block = x,y,z' after #BEGIN_TB"),
    k.E_BAD_COORDINATES: ("unreadable thread block coordinates", "expected 'thread block = x,y,z'"),
    k.E_OUTSIDE_GRID: ("the thread block lies outside the grid", "check 'grid dim' in the header"),
    k.E_NO_WARPS: ("the thread block has no warps", f"expected 'warp = w' before #END_TB; {_AGAIN}"),
    k.E_NOT_WARP: (
        "neither a warp nor the end of the block",
        "expected 'warp = w' or #END_TB (is 'insts' of the warp before too small?)",
    ),
    k.E_BAD_WARP: ("unreadable warp number", "expected 'warp = w'"),
    k.E_NO_SUCH_WARP: ("the block has no such warp", "check 'block dim' in the header"),
    k.E_BAD_INSTS: ("no instruction count", "expected 'insts = n' after 'warp = w'"),
    k.E_TOO_FEW: (
        "the warp has {found} instructions, but 'insts = {promised}' announces more",
        f"the trace is damaged; {_AGAIN}",
    ),
    k.E_BAD_PREFIX: (
        "thread block and warp are missing before the instruction",
        "lines of tracer version {version} start with block x, y, z and the warp",
    ),
    k.E_OTHER_WARP: (
        "the instruction belongs to another block or warp",
        "lines of tracer version {version} start with block x, y, z and the warp they are listed under",
    ),
    k.E_BAD_LINE_NUMBER: ("unreadable source line", "with 'enable lineinfo = 1' a decimal line number comes first"),
    k.E_BAD_PC: ("unreadable PC", "expected a hexadecimal number"),
    k.E_BAD_MASK: ("unreadable active mask", "expected 8 hexadecimal digits"),
    k.E_ABSENT_LANES: ("the active mask has lanes that the block does not have", "check 'block dim' in the header"),
    k.E_BAD_COUNT: ("unreadable number of registers", "expected a count, then as many registers"),
    k.E_BAD_REGISTER: ("unreadable register", "expected R and a number, as often as the count says"),
    k.E_NO_OPCODE: ("the opcode is missing", "expected it after the destination registers"),
    k.E_BAD_WIDTH: (
        "unreadable memory width",
        "expected bytes after the source registers, 0 if there is no access",
    ),
    k.E_BAD_MODE: ("unknown address mode", "expected 0, 1 or 2"),
    k.E_BAD_ADDRESS: (
        "an address is missing or unreadable",
        "the mask has {detail} active lanes; expected hexadecimal addresses",
    ),
    k.E_BAD_STRIDE: (
        "a stride or delta is missing or unreadable",
        "the mask has {detail} active lanes; expected decimal numbers after the base address",
    ),
    k.E_GAPS: ("address mode 1 with gaps in the active mask", "mode 1 needs contiguous active lanes"),
    k.E_WRAPS: ("addresses leave the 64-bit address space", f"the base or a distance is damaged; {_AGAIN}"),
    k.E_BAD_IMMEDIATE: (
        "the immediate is missing or unreadable",
        "lines of tracer version {version} end with one (are there too few addresses for the mask?)",
    ),
    k.E_TRAILING: (
        "more on the line than the instruction needs",
        "check the number of addresses for the mask, and the tracer version in the header",
    ),
    k.E_TOO_LONG: ("the instruction is too long", f"no instruction needs {k.KEY_LIMIT} characters; {_AGAIN}"),
}


def explain(state: Any, version: int, line: bytes) -> str:
    """The message for the error in `state`, with the offending line."""
    what, remedy = _TEXTS[int(state["error"])]
    values = {
        "found": int(state["promised"] - state["left"]),
        "promised": int(state["promised"]),
        "detail": int(state["detail"]),
        "version": version,
    }
    shown = line.decode("ascii", "replace").strip()
    shown = shown if len(shown) <= 70 else shown[:67] + "..."
    return f"{what.format(**values)} in {shown!r}; {remedy.format(**values)}"
