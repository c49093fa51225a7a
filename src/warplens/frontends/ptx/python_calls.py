"""Instructions for which generated code calls Python: what all of them share."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault
from .codegen.layout import Context, Frame
from .faults import at_fault
from .flat import FlatInstruction

if TYPE_CHECKING:
    from .execute import Launch

LANES = 32
#: A row for each operand, a column for each lane.
Values = NDArray[np.uint64]
_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_uint32, ctypes.c_void_p
)


class MisuseError(Exception):
    """What a kernel did wrong, and in which lanes if not in all that made the call."""

    def __init__(self, text: str, lanes: int | None = None) -> None:
        super().__init__(text)
        self.lanes = lanes


class PythonCalls:
    """The calls of one worker for instructions of one kind."""

    #: Where generated code finds the function.
    place: ClassVar[Context]
    #: Operands of a lane.
    rows: ClassVar[int]

    def __init__(self, launch: Launch, context: NDArray[np.int64]) -> None:
        self.kernel, self.memory, self.block = launch.compiled.kernel, launch.memory, launch.block
        self.items = list(self.kernel.instructions)
        self.context = context
        self.frame = 0
        self.error: KernelFault | None = None
        #: Operands by address. Native code has few places for them: it calls from the same depth of its stack.
        self.operands: dict[int, Values] = {}
        self._callback = _CALLBACK(self._called)  # must outlive the launch
        context[self.place] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def of_frame(self, field: Frame) -> int:
        """What the frame of the calling warp holds."""
        return int(ctypes.cast(self.frame, ctypes.POINTER(ctypes.c_int64))[field])

    def execute(self, item: FlatInstruction | None, action: int, lanes: list[int], values: Values) -> None:
        """One instruction of a warp, on a row of `values` for each operand; results replace them."""
        raise NotImplementedError

    def _called(self, context: int, frame: int, index: int, action: int, lanes: int, operands: int) -> int:
        """1 after a fault."""
        item = self.items[index] if index >= 0 else None
        self.frame = frame
        try:
            values = self.operands.get(operands)
            if values is None:
                pointer = ctypes.cast(operands, ctypes.POINTER(ctypes.c_uint64))
                values = self.operands[operands] = np.ctypeslib.as_array(pointer, (self.rows, LANES))
            self.execute(item, action, [lane for lane in range(LANES) if lanes >> lane & 1], values)
        except MisuseError as misuse:
            at = lanes if misuse.lanes is None else misuse.lanes
            warp = self.of_frame(Frame.WARP) if item else 0
            where = at_fault(self.kernel, item, self.context, self.block, warp, at)
            self.error = KernelFault(where.format(what=misuse))
            return 1
        except Exception as error:  # an exception must not pass through native code
            name = item.instruction.name if item else "the end of a block"
            self.error = KernelFault(f"{self.kernel.name}: {name} failed: {error}")
            return 1
        return 0
