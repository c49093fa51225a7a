"""Registers and operands of a warp in LLVM IR: how instructions read and write them."""

from __future__ import annotations

import struct
from collections.abc import Callable

from llvmlite import ir

from ....errors import PtxError
from ..flat import BasicBlock, FlatInstruction, FlatKernel
from ..flow import Flow
from ..program import TYPES, Immediate, Operand, Register, Sink, Special, Symbol, Type
from ..remedies import remedy_of
from ..spaces import LOCAL_WINDOW, RESERVED_SHARED_BYTES, SHARED_WINDOW, WINDOW_BYTES
from . import runtime
from .lanes import I32, LANES, Value, integers
from .layout import Context, Frame
from .runtime import Fields, i32, i64

#: Instructions whose registers may be wider than their types.
_ANY_WIDTH = ("cvt", "ld", "ldu", "st")
_AXES = {"x": 0, "y": 1, "z": 2}


class WarpValues(Fields):
    """Values that lowerings use: registers as vectors of 32 lanes, and the active mask."""

    item: FlatInstruction
    active_at: Value
    guarded: Value

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, kernel: FlatKernel, flow: Flow) -> None:
        super().__init__(module, builder)
        self.kernel, self.flow = kernel, flow
        self.registers: dict[str, Value] = {}
        self.buffers: dict[str, Value] = {}
        self.current: BasicBlock = kernel.blocks[0]
        self.active_flags: Value | None = None

    def active(self) -> Value:
        """Active lanes, as bits."""
        return self.builder.load(self.active_at, typ=I32)

    # -- errors -------------------------------------------------------------------------------------

    def error(self, item: FlatInstruction, why: str) -> PtxError:
        name = item.instruction.name
        return PtxError(f"{self.kernel.module.name}: line {item.instruction.line}: {name}: {why}")

    def not_covered(self, item: FlatInstruction) -> PtxError:
        remedy = remedy_of(item.instruction)
        return self.error(item, f"this form of the instruction is not supported{remedy}")

    # -- operands -----------------------------------------------------------------------------------

    def operand(self, item: FlatInstruction, position: int) -> Operand:
        if position >= len(item.instruction.operands):
            raise self.error(item, f"operand {position + 1} is missing")
        return item.instruction.operands[position]

    def register_type(self, register: Register | Symbol | Immediate) -> Type:
        assert isinstance(register, Register)
        return self.kernel.registers[register.name]

    def read_register(self, name: str) -> Value:
        place = self.registers[name]
        return self.builder.load(place, typ=integers(self.kernel.registers[name].total_bits))

    def read(self, operand: Operand, kind: Type) -> Value:
        """A source as bits of a type's width, in all lanes."""
        bits = kind.total_bits
        if isinstance(operand, Register):
            value = self.read_register(operand.name)
            width = value.type.element.width
            if (width == 1) != (bits == 1) or (width != bits and self.item.opcode not in _ANY_WIDTH):
                raise self._mismatch(f"the register {operand.name} cannot be used as {kind}")
            if operand.negated:
                value = self.builder.not_(value)
            return self.resize(value, bits)
        if isinstance(operand, Immediate):
            is_float = bool(operand.float_bits)
            no_float = kind.kind in ("u", "s", "bf") or kind.packed != 1
            if (no_float and is_float) or (kind.is_float and kind.bits > 16 and not is_float):
                raise self._mismatch(f"the number {operand.value} cannot be used as {kind}")
            return self.integer(bits, _immediate_bits(operand, kind))
        if isinstance(operand, Special):
            return self.resize(self._special(operand.name), bits)
        raise self._mismatch("an operand of another form is expected")

    def _mismatch(self, why: str) -> PtxError:
        return self.error(self.item, why)

    def write(self, item: FlatInstruction, value: Value) -> None:
        """Write to the first operand."""
        self.write_operand(item, self.operand(item, 0), value)

    def write_operand(self, item: FlatInstruction, operand: Operand, value: Value, *, signed: bool = False) -> None:
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise self.error(item, "a register is expected as destination")
        bits = self.kernel.registers[operand.name].total_bits
        width = value.type.element.width
        fits = bits >= width if item.opcode in _ANY_WIDTH else bits == width
        if (width == 1) != (bits == 1) or not fits:
            raise self.error(item, f"the register {operand.name} does not fit the result")
        self.write_register(item, operand.name, self.resize(value, bits, signed=signed))

    def write_register(self, item: FlatInstruction, name: str, value: Value) -> None:
        """Write a register; inactive lanes keep their value wherever that can matter."""
        if item.guard is not None:
            value = self.builder.select(self.flags_of(self.mask(item)), value, self.read_register(name))
        elif name in self.flow.must_keep[self.current.number]:
            if self.active_flags is None:
                self.active_flags = self.flags_of(self.active())
            value = self.builder.select(self.active_flags, value, self.read_register(name))
        self.builder.store(value, self.registers[name])

    def packed(self, kind: Type, compute: Callable[..., Value], *values: Value) -> Value:
        """Apply a function to each half of packed types, or to the whole of others."""
        if kind.packed == 1:
            return compute(*values)
        bits, whole = kind.bits, kind.total_bits
        by = self.integer(whole, bits)
        low = compute(*(self.resize(each, bits) for each in values))
        high = compute(*(self.resize(self.builder.lshr(each, by), bits) for each in values))
        return self.builder.or_(self.resize(low, whole), self.builder.shl(self.resize(high, whole), by))

    def mask(self, item: FlatInstruction) -> Value:
        """Lanes that execute an instruction. `begin` reads the guard, because the instruction may overwrite it."""
        return self.active() if item.guard is None else self.guarded

    def begin(self, item: FlatInstruction) -> None:
        """Start the code of an instruction."""
        self.item = item
        if item.guard is not None:
            self.guarded = self.builder.and_(self.active(), self.bits_of(self.read(item.guard, TYPES["pred"])))

    def buffer(self, name: str, kind: ir.Type) -> Value:
        """A memory buffer for lanes' values, one per name and type."""
        key = f"{name}_{kind}"
        if key not in self.buffers:
            self.buffers[key] = self.scratch(kind)
        return self.buffers[key]

    def picked(self, values: Value, lanes: Value) -> Value:
        """Each lane takes the value of the lane it selects."""
        bits = values.type.element.width
        places = [self.buffer(f"pick_{name}", integers(bits)) for name in ("values", "results")]
        chosen = self.buffer("pick_lanes", integers(32))
        self.builder.store(values, places[0])
        self.builder.store(lanes, chosen)
        arguments = [places[0], chosen, places[1]]
        self.builder.call(runtime.pick(self.module, bits), [self.context, self.frame, *arguments])
        return self.builder.load(places[1], typ=integers(bits))

    def in_window(self, item: FlatInstruction, address: Value) -> Value:
        """isspacep: whether generic addresses lie in a space."""
        builder = self.builder

        def inside(window: int) -> Value:
            offset = builder.sub(address, self.integer(64, window))
            return builder.icmp_unsigned("<", offset, self.integer(64, WINDOW_BYTES))

        if any(each.startswith("shared") for each in item.instruction.modifiers):
            return inside(SHARED_WINDOW)
        if item.instruction.has("local"):
            return inside(LOCAL_WINDOW)
        if item.instruction.has("global"):
            return builder.not_(builder.or_(inside(SHARED_WINDOW), inside(LOCAL_WINDOW)))
        raise self.not_covered(item)

    # -- special registers ------------------------------------------------------------------------------

    def _special(self, name: str) -> Value:
        base, _, axis = name[1:].partition(".")
        if base == "tid":
            place = self.field((Frame.THREAD_X, Frame.THREAD_Y, Frame.THREAD_Z)[_AXES[axis]])
            return self.builder.load(place, typ=integers(32), align=4)
        dimensions = {"ntid": Context.BLOCK_X, "ctaid": Context.BLOCK_ID_X, "nctaid": Context.GRID_X}
        dimensions |= {"cluster_nctaid": Context.CLUSTER_X}
        if base in dimensions:
            return self.splat(self.builder.trunc(self.get(Context(dimensions[base] + _AXES[axis])), I32))
        if base in ("clusterid", "nclusterid", "cluster_ctaid"):
            count = self.get(Context(Context.CLUSTER_X + _AXES[axis]))
            place = self.get(Context((Context.GRID_X if base[0] == "n" else Context.BLOCK_ID_X) + _AXES[axis]))
            part = self.builder.urem if base == "cluster_ctaid" else self.builder.udiv
            return self.splat(self.builder.trunc(part(place, count), I32))
        if base in ("envreg1", "envreg2"):  # the address of the grid's barrier, its upper half first
            workspace = self.get(Context.GRID_WORKSPACE)
            return self.splat(self.builder.trunc(self.builder.lshr(workspace, i64(32 * (base == "envreg1"))), I32))
        lanes = range(LANES)
        tables: dict[str, list[int]] = {
            "laneid": list(lanes),
            "lanemask_eq": [1 << lane for lane in lanes],
            "lanemask_lt": [(1 << lane) - 1 for lane in lanes],
            "lanemask_le": [(2 << lane) - 1 for lane in lanes],
            "lanemask_gt": [~((2 << lane) - 1) & 0xFFFFFFFF for lane in lanes],
            "lanemask_ge": [~((1 << lane) - 1) & 0xFFFFFFFF for lane in lanes],
        }
        if base in tables:
            return ir.Constant(integers(32), [i32(value) for value in tables[base]])
        if base.startswith("parameters"):
            start = self.get(Context.PARAMETER_ADDRESS)
            return self.splat(self.builder.add(start, i64(int(base.partition("+")[2]))))
        if base in ("clock", "clock64", "globaltimer", "globaltimer_lo"):  # executed instructions serve as clock
            return self.splat(self.get(Frame.INSTRUCTIONS))
        if base == "reserved_smem_offset_1":  # behind what the launch asks for
            start = self.builder.sub(self.get(Context.SHARED_BYTES), i64(RESERVED_SHARED_BYTES))
            return self.splat(self.builder.trunc(start, I32))
        fields: dict[str, Context | Frame] = {
            "warpid": Frame.WARP,
            "nwarpid": Context.WARPS,
            "dynamic_smem_size": Context.DYNAMIC_SHARED_BYTES,
            "total_smem_size": Context.SHARED_BYTES,
            "aggr_smem_size": Context.SHARED_BYTES,
            "cluster_ctarank": Context.CLUSTER_RANK,
        }
        if base in fields:
            return self.splat(self.builder.trunc(self.get(fields[base]), I32))
        constants = {"nsmid": 1, "cluster_nctarank": self.kernel.cluster_blocks}
        constants["is_explicit_cluster"] = self.kernel.cluster_blocks > 1
        return self.integer(32, constants.get(base, 0))


def _immediate_bits(operand: Immediate, kind: Type) -> int:
    """A literal as the bits of a type."""
    value = operand.value
    if kind.is_float and kind.packed == 1 and kind.kind == "f" and (operand.float_bits or isinstance(value, float)):
        packed = struct.pack({16: "<e", 32: "<f", 64: "<d"}[kind.bits], _clamped(float(value), kind.bits))
        return int.from_bytes(packed, "little")
    if operand.float_bits:
        packed = struct.pack({32: "<f", 64: "<d"}[operand.float_bits], value)
        return int.from_bytes(packed, "little")
    return int(value)


def _clamped(value: float, bits: int) -> float:
    """Values beyond a format's range become infinities; `struct` would reject them."""
    largest = {16: 65504.0, 32: 3.4028234663852886e38, 64: float("inf")}[bits]
    if abs(value) > largest:
        return float("inf") if value > 0 else float("-inf")
    return value
