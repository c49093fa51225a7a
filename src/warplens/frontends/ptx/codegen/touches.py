"""Accesses whose data nobody needs: checked and recorded by one call, so that unrolled kernels compile soon."""

from __future__ import annotations

from llvmlite import ir

from ....traces import SHARED_BITS
from ..spaces import SHARED_WINDOW
from . import runtime
from .lanes import I32, I64, POINTER, integers
from .runtime import Fields, i32
from .translation import translate

#: Where accesses are touched, and how addresses there are translated. In other spaces they are recorded otherwise.
WINDOWS = {"shared": "shared", "global": "global", "constant": "global"}


def touch(module: ir.Module, space: str, bits: int, *, writes: bool, recording: bool) -> ir.Function:
    """(bases, offset, mask, bytes, instruction) → 1 if a lane's access is invalid, else 0; bases have `bits`."""
    window = WINDOWS[space]
    checked = translate(module, window, writes=writes)

    def body(self: Fields, function: ir.Function) -> None:
        bases, offset, mask, size, instruction = function.args[2:]
        builder = self.builder
        place, hosts = self.scratch(integers(64)), self.scratch(integers(64))
        added = self.splat(offset if bits == 64 else builder.trunc(offset, I32))
        narrow = builder.add(builder.load(bases, typ=integers(bits)), added)
        address = self.resize(narrow, 64)
        builder.store(address, place)
        failed = builder.call(checked, [*function.args[:2], place, mask, size, instruction, hosts])
        with builder.if_then(builder.icmp_unsigned("!=", failed, i32(0)), likely=False):
            builder.ret(i32(1))
        if recording:
            if window == "shared":
                within = builder.and_(address, self.integer(64, (1 << SHARED_BITS) - 1))
                builder.store(builder.add(within, self.integer(64, SHARED_WINDOW)), place)
            builder.call(runtime.record_access(module), [*function.args[:2], place, mask])
        builder.ret(i32(0))

    name = f"touch_{window}_{bits}{'_to_write' if writes else ''}"
    return runtime.helper(module, name, I32, [POINTER, I64, I32, I32, I32], body)
