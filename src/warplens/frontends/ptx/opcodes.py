"""PTX opcodes: the instruction class and memory use of each."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.classes import product_class, warp_product_class
from .products import ELEMENT_BITS, product_of, warpgroup_product_of
from .program import Address, Instruction
from .wmma import fragment_of

_SPACES = {"global": "global", "shared": "shared", "local": "local", "const": "constant", "param": "param"}
_LOADS, _STORES = ("ld", "ldu", "ldmatrix", "tex", "tld4", "suld"), ("st", "stmatrix", "sust")
_ATOMICS = ("atom", "red")
#: Bytes of a texel, until a launch tells.
TEXEL_BYTES = 4
_SFU = ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
_CONTROL = (
    *("bra", "brx", "call", "ret", "exit", "trap", "brkpt", "membar", "fence", "nanosleep"),
    *("prefetch", "prefetchu", "discard", "griddepcontrol", "pmevent", "tensormap", "setmaxnreg", "applypriority"),
)
#: Of integers: what the multipliers do.
_MULTIPLIED = ("mul", "mad", "madc", "mul24", "mad24", "dp2a", "dp4a")
_MOVES = (
    *("mov", "selp", "slct", "cvta", "shfl", "vote", "match", "activemask", "elect", "isspacep"),
    *("getctarank", "mapa", "createpolicy", "movmatrix", "txq", "suq"),
)


@dataclass(frozen=True)
class MemoryUse:
    """Space (global, shared, local, constant, param or generic) and bytes per lane of an access."""

    space: str
    access_bytes: int


def _space(item: Instruction) -> str:
    names = [each.partition("::")[0] for each in item.modifiers]
    return next((_SPACES[each] for each in reversed(names) if each in _SPACES), "generic")


def texture_shape(item: Instruction) -> str | None:
    """Dimensions of the texture or surface that an instruction reads; `a` stands for layers."""
    return next((each for each in item.modifiers if each in ("1d", "2d", "3d", "a1d", "a2d")), None)


def memory_use(item: Instruction) -> MemoryUse | None:
    """What memory an instruction uses, or None."""
    if item.opcode == "mbarrier" and any(isinstance(each, Address) for each in item.operands):
        inside = any(each.startswith("shared") for each in item.modifiers)
        return MemoryUse("shared" if inside else "generic", 8)
    if item.opcode == "cp" and item.modifiers[:1] == ("async",) and len(item.operands) >= 3 and not item.has("bulk"):
        size = getattr(item.operands[2], "value", None)
        return MemoryUse("global", int(size)) if isinstance(size, int) and 0 < size <= 16 else None
    if item.opcode == "wmma":
        fragment = fragment_of(item)
        return None if fragment is None else MemoryUse(_space(item), fragment.lane_bytes)
    if item.opcode not in (*_LOADS, *_STORES, *_ATOMICS):
        return None
    space = _space(item)
    if item.opcode in ("tex", "tld4", "suld", "sust"):
        return MemoryUse("global", TEXEL_BYTES)
    if item.opcode in ("ldmatrix", "stmatrix"):
        return MemoryUse("shared" if space == "generic" else space, 16)
    if not item.types:
        return None
    count = next((int(each[1:]) for each in item.modifiers if each in ("v2", "v4", "v8")), 1)
    return MemoryUse(space, count * item.types[-1].bytes)


def instruction_class(item: Instruction) -> str:
    """The class (see `warplens.machine.INSTRUCTION_CLASSES`) that gives an instruction's cost."""
    opcode = item.opcode
    use = memory_use(item)
    if use is not None:
        if opcode == "mbarrier":
            return "atomic_shared"
        if opcode == "cp":
            return "async_copy"
        what = (
            "load"
            if opcode in _LOADS or item.modifiers[0] == "load"
            else "store"
            if opcode in (*_STORES, "wmma")
            else "atomic"
        )
        if use.space in ("constant", "param"):
            return "load_constant"
        if use.space == "local" and what == "atomic":
            return "atomic_global"
        return f"{what}_{'global' if use.space == 'generic' else use.space}"
    if opcode in ("bar", "barrier"):
        if item.has("cluster"):  # who arrives goes on
            return "barrier_cluster" if item.has("wait") else "control"
        return "barrier"
    if opcode == "mma":
        product = product_of(item)
        if product is None:
            return "tensor"
        # Tensor cores take a sparse product in the time of a dense one with as many stored elements (NVIDIA,
        # A100 white paper: twice the rate).
        shape = product.rows, product.columns, product.stored_depth
        return warp_product_class(*shape, ELEMENT_BITS[product.a], product.result_type)
    if opcode == "wgmma":
        form = warpgroup_product_of(item)
        return "control" if form is None else product_class(form.product.columns)
    if opcode in _CONTROL or opcode in ("cp", "st"):  # what bulk copies access follows them in the trace
        return "control"
    if opcode in _MOVES:
        return "move"
    kind = item.types[-1] if item.types else None
    if opcode in _SFU and not (kind is not None and kind.bits == 64):
        return "sfu"
    if opcode == "cvt":
        wide = any(each.is_float for each in item.types) and any(each.bits == 64 for each in item.types)
        return "conversion_fp64" if wide else "conversion"
    if kind is not None and kind.is_float:
        if opcode in ("div", "sqrt", "rcp", "rsqrt"):
            return "fp64_div" if kind.bits == 64 else "fp32_div"
        return {16: "fp16", 32: "fp32", 64: "fp64"}[kind.bits]
    if opcode in ("div", "rem"):
        return "int32_div"
    return "int32_mad" if opcode in _MULTIPLIED else "int32"
