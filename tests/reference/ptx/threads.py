"""Instructions that every lane runs for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warplens.frontends.ptx.program import (
    TYPES,
    Address,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Sink,
    Symbol,
    Type,
    Vector,
)

from . import arithmetic
from .integers import NotCoveredError, atomic, ones, signed, with_carry
from .memory import window_of
from .state import Copy, Record

if TYPE_CHECKING:
    from .machine import _Warp

WORD, FLAG = TYPES["u32"], TYPES["pred"]
_SPACES = ("global", "shared", "local", "const", "param")
_ATOMIC = ("add", "and", "or", "xor", "min", "max", "exch", "cas", "inc", "dec")
_NOTHING = ("membar", "fence", "prefetch", "prefetchu", "nanosleep", "bar", "barrier", "discard", "pmevent")
_NOTHING += ("applypriority", "stackrestore")  # what alloca takes, it takes until the function ends
#: Types of the sources where they are not all the instruction's own.
_SOURCES = {
    "shl": (None, WORD),
    "shr": (None, WORD),
    "bfe": (None, WORD, WORD),
    "bfi": (None, None, WORD, WORD),
    "lop3": (None, None, None, WORD),
    "fns": (WORD, WORD, WORD),
    "dp4a": (WORD, WORD, WORD),
    "dp2a": (WORD, WORD, WORD),
}


def space_of(item: Instruction) -> str:
    found = next(
        (each.partition("::")[0] for each in item.modifiers if each.partition("::")[0] in _SPACES), "generic"
    )
    return "global" if found == "const" else found


def execute(warp: _Warp, item: Instruction, on: list[int]) -> dict[int, int] | None:
    """All lanes of an instruction in order; the addresses of a memory instruction."""
    if item.opcode in ("ld", "ldu"):
        found = {lane: _load(warp, item, lane) for lane in on}
        return None if _is_parameter(item) else found
    if item.opcode == "st" and item.has("bulk"):
        return None  # see `cleared`
    if item.opcode == "st":
        found = {lane: _store(warp, item, lane) for lane in on}
        return None if _is_parameter(item) else found
    if item.opcode in ("atom", "red"):
        return {lane: _atomic(warp, item, lane) for lane in on}
    if item.opcode == "cp":
        if item.has("commit_group", "wait_group", "wait_all"):
            for lane in on:
                _end_or_await_copies(warp, item, lane)
            return None
        return _copies(warp, item, on)
    if item.opcode in _NOTHING:
        return None
    for lane in on:
        _compute(warp, item, lane)
    return None


# -- memory -----------------------------------------------------------------------------------------


def _vector(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _place(warp: _Warp, item: Instruction, lane: int, operand: Operand, space: str, size: int) -> tuple:
    """The memory, the address there, and the address that is recorded."""
    found, address = warp.place(lane, operand, space)
    found.find(address, size)
    if found.name == "local":
        return found, address, warp.recorded_local(lane, address)
    others = (
        rank + 1 for rank, block in enumerate(warp.block.cluster) if block.shared is found is not warp.block.shared
    )
    return found, address, address + warp.window(found.name) + (next(others, 0) << 24)


def _is_parameter(item: Instruction) -> bool:
    """A named parameter: no access that a trace has."""
    return item.has("param") and any(
        isinstance(each, Address) and isinstance(each.base, Symbol) for each in item.operands
    )


def _load(warp: _Warp, item: Instruction, lane: int) -> int:
    kind = item.types[-1]
    targets = _vector(item.operands[0])
    space = space_of(item)
    found, address, recorded = _place(warp, item, lane, item.operands[1], space, kind.bytes * len(targets))
    for position, target in enumerate(targets):
        bits = found.read(address + position * kind.bytes, kind.bytes)
        warp.write(lane, target, signed(bits, kind.bits) if kind.is_signed else bits)
    return recorded


def _store(warp: _Warp, item: Instruction, lane: int) -> int:
    kind = item.types[-1]
    sources = _vector(item.operands[1])
    space = space_of(item)
    found, address, recorded = _place(warp, item, lane, item.operands[0], space, kind.bytes * len(sources))
    for position, source in enumerate(sources):
        found.write(address + position * kind.bytes, kind.bytes, warp.value(lane, source, kind))
    return recorded


def cleared(warp: _Warp, item: Instruction, on: list[int]) -> list[Record]:
    """st.bulk: lanes one after the other; each has stores of 32 × 16 bytes that cover what it clears."""
    found = []
    for lane in on:
        space, address = warp.place(lane, item.operands[0], space_of(item))
        size = warp.value(lane, item.operands[1], Type("b", 64))
        for place in range(address, address + size, 8):
            space.write(place, 8, 0)
        whole = range(address // 16 * 16, address + size, 16)
        for start in range(0, len(whole), 32):
            part = whole[start : start + 32]
            listed = tuple(each + warp.window("shared") for each in part)
            found.append(Record(item.line, (1 << len(part)) - 1, listed))
    return found


def _atomic(warp: _Warp, item: Instruction, lane: int) -> int:
    kind = item.types[-1]
    returns = item.opcode == "atom"
    place = item.operands[1 if returns else 0]
    given = item.operands[2 if returns else 1 :]
    if isinstance(given[0], Vector):
        targets = _vector(item.operands[0]) if returns else ()
        return _vector_update(warp, item, lane, place, given[0].items, targets)
    values = [warp.value(lane, each, kind) for each in given]
    found, address, recorded = _place(warp, item, lane, place, space_of(item), kind.bytes)
    name = next(
        each
        for each in item.modifiers
        if each in ["add", "and", "or", "xor", "min", "max", "exch", "cas", "inc", "dec"]
    )
    old = found.read(address, kind.bytes)
    if kind.is_float and (name == "add" or kind.bits == 16):
        new = arithmetic.float_atomic(item, kind, old, values[0], shared=found.name == "shared")
    elif kind.is_float:
        raise NotCoveredError(item.name)
    else:
        new = atomic(name, kind, old, values)
    found.write(address, kind.bytes, new)
    if returns:
        warp.write(lane, item.operands[0], old)
    return recorded


def _vector_update(
    warp: _Warp,
    item: Instruction,
    lane: int,
    place: Operand,
    given: tuple[Operand, ...],
    targets: tuple[Operand, ...],
) -> int:
    """Several floats side by side; `targets` get what was there."""
    kind = item.types[-1]
    found, address, recorded = _place(warp, item, lane, place, space_of(item), kind.bytes * len(given))
    before = [found.read(address + position * kind.bytes, kind.bytes) for position in range(len(given))]
    values = [warp.value(lane, each, kind) for each in given]
    for position, (old, value) in enumerate(zip(before, values, strict=True)):
        found.write(address + position * kind.bytes, kind.bytes, arithmetic.float_atomic(item, kind, old, value))
    for target, old in zip(targets, before, strict=bool(targets)):
        warp.write(lane, target, old)
    return recorded


def _copies(warp: _Warp, item: Instruction, on: list[int]) -> dict[int, int]:
    """Lanes that read nothing are recorded where the first one reads that does."""
    found = {lane: _copy(warp, item, lane) for lane in on}
    reading = [address for address, count in found.values() if count]
    return {lane: address if count or not reading else reading[0] for lane, (address, count) in found.items()}


def _copy(warp: _Warp, item: Instruction, lane: int) -> tuple[int, int]:
    """cp.async: later; bytes past the source's size are zero. Where it reads, and how much."""
    size = warp.value(lane, item.operands[2], WORD)
    given = size
    if len(item.operands) > 3:
        last = item.operands[3]
        ignores = isinstance(last, Register) and warp.threads[lane].functions[-1].registers[last.name] == FLAG
        given = warp.value(lane, last, WORD)
        if ignores:
            given = 0 if given else size
    target, to, _ = _place(warp, item, lane, item.operands[0], "shared", size)
    source, start, recorded = _place(warp, item, lane, item.operands[1], "global", size)

    def arrive() -> None:
        for position in range(size):
            target.write(to + position, 1, source.read(start + position, 1) if position < given else 0)

    mine = range(to, to + size)
    threads = (thread for each in warp.block.warps for thread in each.threads.values())
    for other in (copy for thread in threads for group in thread.copies for copy in group):
        if other.target is target and max(mine.start, other.bytes.start) < min(mine.stop, other.bytes.stop):
            raise NotCoveredError("asynchronous copies to the same bytes: which one comes last is open")
    warp.threads[lane].copies[-1].append(Copy(target, mine, arrive))
    return recorded, given


def _end_or_await_copies(warp: _Warp, item: Instruction, lane: int) -> None:
    groups = warp.threads[lane].copies
    if item.has("commit_group"):
        groups.append([])
        return
    staying = 1 + warp.value(lane, item.operands[0], WORD) if item.has("wait_group") else 0
    for group in groups[: max(len(groups) - staying, 0)]:
        for copy in group:
            copy.arrive()
        group.clear()


# -- computing --------------------------------------------------------------------------------------


def _compute(warp: _Warp, item: Instruction, lane: int) -> None:
    name = item.opcode
    if name in _SPECIAL:
        _SPECIAL[name](warp, item, lane)
        return
    kind = item.types[-1] if name not in ("dp4a", "dp2a") else WORD
    given = item.operands[1:]
    if name == "lop3" and isinstance(item.operands[0], Pair):
        *sources, other = given
        result = arithmetic.integer_result(item, kind, [warp.value(lane, each, WORD) for each in sources])
        flag = bool(warp.value(lane, other, FLAG))
        warp.write(lane, item.operands[0].first, result)
        warp.write(lane, item.operands[0].second, int(arithmetic.combined(item, result != 0, flag)))
        return
    wanted = _SOURCES.get(name, (None,) * len(given))
    kinds = [each or kind for each in wanted]
    if name == "mad" and item.has("wide"):
        kinds[2] = Type(kind.kind, 2 * kind.bits)
    values = [warp.value(lane, operand, each) for operand, each in zip(given, kinds, strict=True)]
    width = 2 * kind.bits if item.has("wide") else kind.total_bits
    if name in ("popc", "clz", "bfind"):
        width = 32
    if item.has("cc") or name in ("addc", "subc", "madc"):
        registers = warp.threads[lane].registers
        result, carry = with_carry(item, kind, values, registers.get("carry", 0))
        if item.has("cc"):
            registers["carry"] = carry
    elif kind.is_float:
        result = arithmetic.float_result(item, kind, values)
    else:
        result = arithmetic.integer_result(item, kind, values)
    warp.write(lane, item.operands[0], result & ones(width))


def _move(warp: _Warp, item: Instruction, lane: int) -> None:
    kind = item.types[-1]
    target, source = item.operands
    bits = warp.value(lane, source, kind)
    if isinstance(target, Vector):
        width = kind.total_bits // len(target.items)
        for position, each in enumerate(target.items):
            warp.write(lane, each, bits >> width * position & ones(width))
    else:
        warp.write(lane, target, bits)


def _to_generic(warp: _Warp, item: Instruction, lane: int) -> None:
    target, source = item.operands
    bits = warp.value(lane, source, TYPES["u64"])
    start = warp.window(space_of(item))
    warp.write(lane, target, (bits - start if item.has("to") else bits + start) & ones(64))


def _is_space(warp: _Warp, item: Instruction, lane: int) -> None:
    target, source = item.operands
    found, _ = window_of(warp.value(lane, source, TYPES["u64"]))
    warp.write(lane, target, int(found == space_of(item)))


def _convert(warp: _Warp, item: Instruction, lane: int) -> None:
    to, source = item.types[-2:] if len(item.types) > 1 else (WORD, item.types[0])
    values = [warp.value(lane, each, source) for each in item.operands[1:]]
    result = arithmetic.converted(item, values)
    extends = to.is_signed and not item.has("pack")
    warp.write(lane, item.operands[0], signed(result, to.bits) if extends else result)


def _set_predicate(warp: _Warp, item: Instruction, lane: int) -> None:
    kind = item.types[-1]
    target, a, b, *other = item.operands
    flag = bool(warp.value(lane, other[0], FLAG)) if other else None
    first, second = warp.value(lane, a, kind), warp.value(lane, b, kind)
    one, two = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    if kind.packed == 2:
        half = Type(kind.kind, kind.bits)
        low = arithmetic.comparison(item, half, first & ones(16), second & ones(16))
        high = arithmetic.comparison(item, half, first >> 16, second >> 16)
        warp.write(lane, one, int(arithmetic.combined(item, low, flag)))
        warp.write(lane, two, int(arithmetic.combined(item, high, flag)))
        return
    result = arithmetic.comparison(item, kind, first, second)
    warp.write(lane, one, int(arithmetic.combined(item, result, flag)))
    warp.write(lane, two, int(arithmetic.combined(item, not result, flag)))


def _set(warp: _Warp, item: Instruction, lane: int) -> None:
    to, kind = item.types[-2], item.types[-1]
    target, a, b, *other = item.operands
    flag = bool(warp.value(lane, other[0], FLAG)) if other else None
    first, second = warp.value(lane, a, kind), warp.value(lane, b, kind)
    true = {("f", 32): 0x3F800000, ("f", 16): 0x3C00, ("bf", 16): 0x3F80}.get((to.kind, to.bits), ones(to.bits))
    if kind.packed == 2:
        half = Type(kind.kind, kind.bits)
        halves = [(first >> shift & ones(16), second >> shift & ones(16)) for shift in (0, 16)]
        flags = [arithmetic.combined(item, arithmetic.comparison(item, half, *each), flag) for each in halves]
        true = true if to.packed == 2 else ones(16)
        warp.write(lane, target, (true if flags[0] else 0) | (true if flags[1] else 0) << 16)
        return
    result = arithmetic.combined(item, arithmetic.comparison(item, kind, first, second), flag)
    warp.write(lane, target, true if result else 0)


def _select(warp: _Warp, item: Instruction, lane: int) -> None:
    kind = item.types[-1]
    target, a, b, flag = item.operands
    warp.write(lane, target, warp.value(lane, a if warp.value(lane, flag, FLAG) else b, kind))


def _select_by_sign(warp: _Warp, item: Instruction, lane: int) -> None:
    kind, by = item.types
    target, a, b, c = item.operands
    bits = warp.value(lane, c, by)
    if by.is_float:
        value = arithmetic._inputs(item, by, [bits])[0]
        chosen = value.kind != "nan" and (not value.sign or value.is_zero)
    else:
        chosen = signed(bits, 32) >= 0
    warp.write(lane, target, warp.value(lane, a if chosen else b, kind))


def _test(warp: _Warp, item: Instruction, lane: int) -> None:
    kind = item.types[-1]
    warp.write(lane, item.operands[0], int(arithmetic.tested(item, kind, warp.value(lane, item.operands[1], kind))))


def _policy(warp: _Warp, item: Instruction, lane: int) -> None:
    warp.write(lane, item.operands[0], 0)


def _allocate(warp: _Warp, item: Instruction, lane: int) -> None:
    target, size, *rest = item.operands
    alignment = int(rest[0].value) if rest and isinstance(rest[0], Immediate) else 8
    warp.write(lane, target, warp.allocate(lane, warp.value(lane, size, TYPES["u64"]), alignment))


def _in_other_block(warp: _Warp, item: Instruction, lane: int) -> None:
    target, source, rank = item.operands
    address = warp.value(lane, source, item.types[-1]) & ~(ones(5) << 24)
    warp.write(lane, target, address | (warp.value(lane, rank, TYPES["u32"]) + 1) << 24)


_SPECIAL = {
    "mapa": _in_other_block,
    "alloca": _allocate,
    "createpolicy": _policy,
    "stacksave": _policy,
    "mov": _move,
    "cvta": _to_generic,
    "isspacep": _is_space,
    "cvt": _convert,
    "setp": _set_predicate,
    "set": _set,
    "selp": _select,
    "slct": _select_by_sign,
    "testp": _test,
}
