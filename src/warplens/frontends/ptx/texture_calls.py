"""Instructions on textures and surfaces, for which generated code calls Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .codegen.layout import Context
from .codegen.textures import FIRST_VALUE, RESULT_ADDRESS, ROWS
from .flat import FlatInstruction
from .python_calls import MisuseError, PythonCalls, Values
from .spaces import GLOBAL_WINDOW
from .textures import Fetch, TextureObject, fetch, gather

if TYPE_CHECKING:
    from .execute import Launch

_QUERIES = {"width": 0, "height": 1, "depth": 2}


class TextureCalls(PythonCalls):
    """Fetches, loads, stores and queries."""

    place, rows = Context.TEXTURE_CALL, ROWS

    def __init__(self, launch: Launch, context: NDArray[np.int64]) -> None:
        super().__init__(launch, context)
        self.texel_bytes = launch.texel_bytes

    def execute(self, item: FlatInstruction | None, action: int, lanes: list[int], values: Values) -> None:
        assert item is not None
        on, handles = np.array(lanes), values[0].copy()
        for handle in np.unique(handles[on]):
            found = self.memory.textures.get(int(handle))
            if found is None:
                raise MisuseError(f"{int(handle):#x} is no texture or surface object")
            some = on[handles[on] == handle]
            values[:, some] = self._one(item, found, values[:, some], some)

    def _one(self, item: FlatInstruction, texture: TextureObject, rows: Values, lanes: NDArray[Any]) -> Values:
        opcode, instruction = item.opcode, item.instruction
        if opcode in ("txq", "suq"):
            which = _QUERIES[next(each for each in instruction.modifiers if each in _QUERIES)]
            rows[0] = texture.extent[which]
            return rows
        self.texel_bytes[item.index] = texture.texel_bytes
        if opcode in ("suld", "sust"):
            return self._surface(item, texture, rows, lanes)
        real = instruction.types[-1].is_float
        words = [row.astype(np.uint32).view(np.float32 if real else np.int32) for row in rows[1:FIRST_VALUE]]
        shape = next(each for each in instruction.modifiers if each in _SHAPES)
        if shape[0] == "a":  # the layer comes first, as an integer
            layer = rows[1].astype(np.uint32).view(np.int32)
            inner = words[1:] if shape == "a2d" else [words[1], np.zeros_like(layer)]
            coordinates = [*inner[:2], layer]
        else:
            coordinates = words[: int(shape[0])]
        content = self.memory.content
        if opcode == "tld4":
            channel = "rgba".index(next(each for each in instruction.modifiers if each in "rgba"))
            return _with_results(rows, gather(texture, content, coordinates, channel))
        return _with_results(rows, fetch(texture, content, coordinates, layered=shape[0] == "a"))

    def _surface(self, item: FlatInstruction, surface: TextureObject, rows: Values, lanes: NDArray[Any]) -> Values:
        """suld and sust: x in bytes."""
        instruction = item.instruction
        kind = np.dtype(f"u{instruction.types[-1].bytes}")
        count = next((int(each[1:]) for each in instruction.modifiers if each in ("v2", "v4")), 1)
        shape = next(each for each in instruction.modifiers if each in _SHAPES)
        given = [row.astype(np.uint32).view(np.int32).astype(np.int64) for row in rows[1:FIRST_VALUE]]
        order = _SURFACE_AXES[shape]
        x, y, z = [np.zeros_like(given[0]) if at is None else given[at] for at in [*order, None, None]][:3]
        limits = (surface.row_bytes - count * kind.itemsize, surface.extent[1] - 1, surface.extent[2] - 1)
        inside = np.all([(each >= 0) & (each <= most) for each, most in zip((x, y, z), limits, strict=True)], axis=0)
        if instruction.has("trap") and not inside.all():
            raise MisuseError("is outside the surface", _mask(lanes[~inside]))
        if (askew := x % (count * kind.itemsize) != 0).any():
            raise MisuseError("is at no multiple of its size", _mask(lanes[askew]))
        x, y, z = (np.clip(each, 0, most) for each, most in zip((x, y, z), limits, strict=True))
        start = surface.address - GLOBAL_WINDOW
        memory = self.memory.content[start : start + surface.size_bytes].view(kind)
        first = (surface.offsets(np.zeros_like(x), y, z) + x) // kind.itemsize
        used = inside | (not instruction.has("zero"))
        for position in range(count):
            if item.opcode == "sust":
                memory[(first + position)[used]] = rows[FIRST_VALUE + position][used].astype(kind)
            else:
                rows[position] = np.where(used, memory[first + position], 0)
        if item.opcode == "sust":
            self.context[Context.CHANGES] += 1
        rows[RESULT_ADDRESS] = surface.tiled(x, y, z).astype(np.uint64)
        return rows


#: Which coordinate is x, y and z; layers, which come first, count as z.
_SURFACE_AXES: dict[str, tuple[int | None, ...]] = {
    "1d": (0,),
    "2d": (0, 1),
    "3d": (0, 1, 2),
    "a1d": (1, None, 0),
    "a2d": (1, 2, 0),
}
_SHAPES = tuple(_SURFACE_AXES)


def _mask(lanes: NDArray[Any]) -> int:
    return sum(1 << int(lane) for lane in lanes)


def _with_results(rows: Values, found: Fetch) -> Values:
    rows[: len(found.values)] = found.values
    rows[RESULT_ADDRESS] = found.addresses.astype(np.uint64)
    return rows
