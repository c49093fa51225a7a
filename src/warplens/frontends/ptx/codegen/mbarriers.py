"""Barriers in shared memory (`mbarrier`): arrivals, bytes of asynchronous copies, phases, waits.

A wait for a phase that is not complete first lets the copies that this barrier
counts finish, so data come as late as a correct kernel allows. If that does not
complete the phase, the warp lets others run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..mbarriers import BYTES_SHIFT, EXPECTED_SHIFT, FIELD_BITS, FIELD_MASK, MOST_ARRIVALS, PARITY_SHIFT
from ..opcodes import memory_use
from ..program import TYPES, Address, Immediate, Operand, Sink
from . import runtime
from .accesses import address_of, gathered, record_addresses, translated
from .bulk import finish_copies
from .lanes import I1, I32, Value, integers
from .layout import Fault, Frame, Status
from .lowering import lowers
from .runtime import Fields, i32, i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("mbarrier")
def _mbarrier(g: KernelBuilder, item: FlatInstruction) -> None:
    action = item.instruction.modifiers[0]
    if action in ("test_wait", "try_wait"):
        return _wait(g, item, blocks=action == "try_wait")
    if action == "pending_count":
        state = g.read(g.operand(item, 1), TYPES["b64"])
        return g.write(item, g.resize(g.builder.and_(state, g.integer(64, FIELD_MASK)), 32))
    return _change(g, item, action)


def _change(g: KernelBuilder, item: FlatInstruction, action: str) -> None:
    """init, inval, arrive, arrive_drop, expect_tx, complete_tx, and arrivals that expect bytes."""
    operands = list(item.instruction.operands)
    target: Operand = Sink() if isinstance(operands[0], Address) else operands.pop(0)
    expects = item.instruction.has("expect_tx") and action != "expect_tx"
    given = g.read(operands[1], TYPES["b32"]) if len(operands) > 1 else g.integer(32, 1)
    counts = {"init", "arrive", "arrive_drop", "expect_tx", "complete_tx", "inval"}
    if action not in counts or len(operands) > 2 or (len(operands) > 1 and action == "inval"):
        raise g.not_covered(item)
    hosts = _hosts(g, item, operands[0])
    value = g.resize(given, 64)
    places = [g.buffer(each, integers(64)) for each in ("values", "seconds", "results")]
    g.builder.store(value, places[0])
    g.builder.store(value, places[1])
    name = f"{action}_with_bytes" if expects else action
    mask = g.mask(item)
    function = runtime.atomic(g.module, f"mbarrier_{name}", 64, _UPDATES[name])
    g.builder.call(function, [g.context, g.frame, hosts, mask, *places])
    old = g.builder.load(places[2], typ=integers(64))
    _check(g, item, name, old, value)
    if not isinstance(target, Sink):
        g.write_operand(item, target, old)


def _hosts(g: KernelBuilder, item: FlatInstruction, operand: Operand) -> Value:
    use = memory_use(item.instruction)
    assert use is not None
    return translated(g, item, address_of(g, item, operand), g.mask(item), 8, use.space)


def _check(g: KernelBuilder, item: FlatInstruction, name: str, old: Value, value: Value) -> None:
    """Arrivals that nobody awaits, counts beyond what a barrier can hold, and barriers that were never set up."""
    builder = g.builder
    if name == "init":
        low = builder.icmp_unsigned("==", value, g.integer(64, 0))
        wrong = builder.or_(low, builder.icmp_unsigned(">", value, g.integer(64, MOST_ARRIVALS)))
    else:
        expected = builder.and_(builder.lshr(old, g.integer(64, EXPECTED_SHIFT)), g.integer(64, FIELD_MASK))
        wrong = builder.icmp_unsigned("==", expected, g.integer(64, 0))
        if name in ("arrive", "arrive_drop"):
            pending = builder.and_(old, g.integer(64, FIELD_MASK))
            wrong = builder.or_(wrong, builder.icmp_unsigned("<", pending, value))
    lanes = builder.and_(g.bits_of(wrong), g.mask(item))
    g.fail_if(builder.icmp_unsigned("!=", lanes, i32(0)), Fault.BAD_MBARRIER, item, lanes)


# -- a barrier's word ---------------------------------------------------------------------------------------


def _init(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return self.builder.or_(count, self.builder.shl(count, i64(EXPECTED_SHIFT)))


def _inval(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return i64(0)


def _settled(self: Fields, word: Value) -> Value:
    """The next phase if this one awaits neither arrivals nor bytes."""
    builder = self.builder
    awaited = i64(FIELD_MASK | FIELD_MASK << BYTES_SHIFT)
    over = builder.icmp_unsigned("==", builder.and_(word, awaited), i64(0))
    expected = builder.and_(builder.lshr(word, i64(EXPECTED_SHIFT)), i64(FIELD_MASK))
    following = builder.xor(builder.or_(word, expected), builder.shl(i64(1), i64(PARITY_SHIFT)))
    return builder.select(over, following, word)


def _with_bytes(self: Fields, word: Value, count: Value) -> Value:
    """A word that awaits `count` more bytes (or fewer, if negative)."""
    builder = self.builder
    field = i64(FIELD_MASK << BYTES_SHIFT)
    due = builder.and_(builder.add(word, builder.shl(count, i64(BYTES_SHIFT))), field)
    return builder.or_(builder.and_(word, builder.not_(field)), due)


def _arrive(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return _settled(self, self.builder.sub(old, count))


def _arrive_drop(self: Fields, old: Value, count: Value, _: Value) -> Value:
    fewer = self.builder.sub(old, self.builder.shl(count, i64(EXPECTED_SHIFT)))
    return _settled(self, self.builder.sub(fewer, count))


def _expect(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return _with_bytes(self, old, count)


def _complete(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return _settled(self, _with_bytes(self, old, self.builder.neg(count)))


def _arrive_with_bytes(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return _settled(self, self.builder.sub(_with_bytes(self, old, count), i64(1)))


def _arrive_drop_with_bytes(self: Fields, old: Value, count: Value, _: Value) -> Value:
    return _arrive_drop(self, _with_bytes(self, old, count), i64(1), i64(0))


_UPDATES = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive_drop": _arrive_drop,
    "expect_tx": _expect,
    "complete_tx": _complete,
    "arrive_with_bytes": _arrive_with_bytes,
    "arrive_drop_with_bytes": _arrive_drop_with_bytes,
}
assert 3 * FIELD_BITS == PARITY_SHIFT


# -- waits ----------------------------------------------------------------------------------------------------


def _wait(g: KernelBuilder, item: FlatInstruction, *, blocks: bool) -> None:
    """test_wait looks once more after others have run; try_wait returns when the phase is complete."""
    builder = g.builder
    found_at = g.buffer("mbarrier_flags", I32)
    late, retry, done = (builder.append_basic_block(name) for name in ("late", "retry", "done"))
    missing = _look(g, item, found_at, record=True)
    builder.cbranch(builder.icmp_unsigned("==", missing, i32(0)), done, late)
    builder.position_at_end(late)
    finish_copies(g, item, g.operand(item, 1))
    missing = _look(g, item, found_at)
    builder.cbranch(builder.icmp_unsigned("==", missing, i32(0)), done, retry)
    builder.position_at_end(retry)
    live = g.live_after(item) | set(item.sources) | g.flow.must_keep[g.current.number]
    g.suspend(Status.POLLING, live, item)
    g.begin(item)
    if blocks:
        finish_copies(g, item, g.operand(item, 1))
    missing = _look(g, item, found_at)
    again = builder.icmp_unsigned("!=", missing, i32(0)) if blocks else builder.icmp_unsigned("!=", i32(0), i32(0))
    builder.cbranch(again, retry, done)
    builder.position_at_end(done)
    g.active_flags = None
    g.begin(item)
    g.write(item, g.flags_of(builder.load(found_at, typ=I32)))


def _look(g: KernelBuilder, item: FlatInstruction, found_at: Value, *, record: bool = False) -> Value:
    """Note for which lanes the phase is complete; returns the active lanes for which it is not.

    What is recorded has, in its lowest bit, the parity that lanes wait for: it tells one phase from the next.
    """
    builder = g.builder
    mask = g.mask(item)
    use = memory_use(item.instruction)
    assert use is not None
    address = address_of(g, item, g.operand(item, 1))
    word = gathered(g, translated(g, item, address, mask, 8, use.space, record=False), 0, 64)
    parity = builder.lshr(word, g.integer(64, PARITY_SHIFT))
    awaited = g.operand(item, 2)
    if item.instruction.has("parity"):
        old = g.resize(builder.and_(g.read(awaited, TYPES["b32"]), g.integer(32, 1)), 64)
    elif isinstance(awaited, Immediate):
        raise g.not_covered(item)
    else:
        old = builder.lshr(g.read(awaited, TYPES["b64"]), g.integer(64, PARITY_SHIFT))
    if record and g.recording:
        place = g.buffer("addresses", integers(64))
        marked = builder.or_(address, old)
        builder.store(marked, place)
        record_addresses(g, marked, place, mask, use.space)
    complete = g.bits_of(builder.icmp_unsigned("!=", parity, old))
    builder.store(complete, found_at)
    missing = builder.and_(mask, builder.not_(complete))
    first = builder.and_(builder.cttz(missing, ir.Constant(I1, 0)), i32(31))
    g.put(Frame.BARRIER, builder.extract_element(address, first))
    return missing
