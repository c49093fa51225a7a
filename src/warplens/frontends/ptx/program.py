"""PTX modules, functions and instructions, with their places in the PTX text and the CUDA source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .spaces import GLOBAL_WINDOW

#: Floats that only conversions and products know, and the bits that one of a pair takes.
SMALL_FLOATS = {"e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "ue8m0": 8, "e2m1": 4}


@dataclass(frozen=True)
class Type:
    """A fundamental type: kind is b (bits), u, s, f, bf (bfloat16), pred, or one of `SMALL_FLOATS`."""

    kind: str
    bits: int
    #: Values packed in one register: 2 for f16x2 and the like.
    packed: int = 1

    @property
    def total_bits(self) -> int:
        return self.bits * self.packed

    @property
    def bytes(self) -> int:
        return max(self.total_bits // 8, 1)

    @property
    def is_float(self) -> bool:
        return self.kind in ("f", "bf")

    @property
    def is_signed(self) -> bool:
        return self.kind == "s"

    def __str__(self) -> str:
        if self.kind == "pred":
            return "pred"
        if self.kind in SMALL_FLOATS:
            return f"{self.kind}x2"
        name = f"bf{self.bits}" if self.kind == "bf" else f"{self.kind}{self.bits}"
        return name + ("x2" if self.packed == 2 else "")


TYPES: Mapping[str, Type] = {
    **{f"{kind}{bits}": Type(kind, bits) for kind in "bus" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": Type("f", bits) for bits in (16, 32, 64)},
    "b128": Type("b", 128),
    "f16x2": Type("f", 16, 2),
    "f32x2": Type("f", 32, 2),
    "u16x2": Type("u", 16, 2),
    "s16x2": Type("s", 16, 2),
    "bf16": Type("bf", 16),
    "bf16x2": Type("bf", 16, 2),
    **{f"{kind}x2": Type(kind, bits, 2) for kind, bits in SMALL_FLOATS.items()},
    "pred": Type("pred", 1),
}


# -- operands -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Register:
    """A virtual register, by its name within its function; `negated` for `!%p`."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Special:
    """A register that the hardware sets, such as %tid.x."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A literal. `float_bits` is 32 or 64 for a float given as bits (0f3F800000), else 0."""

    value: int | float
    float_bits: int = 0


@dataclass(frozen=True)
class Symbol:
    """A variable, label or function by its name."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """[base + offset], or [base + offset, {coordinates}] of a tensor."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Vector:
    """{a, b, …}."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """a|b: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Sink:
    """_: a result that is discarded."""


Operand = Register | Special | Immediate | Symbol | Address | Vector | Pair | Sink


# -- code -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourcePlace:
    """Where a PTX instruction comes from: file (by its number in the module) and line; 0 where unknown.

    Code of an inlined function also has the place of the call, which may be inlined itself.
    """

    file: int = 0
    line: int = 0
    caller: SourcePlace | None = None

    @property
    def chain(self) -> Iterator[SourcePlace]:
        """The place itself, then those of the calls, outwards."""
        place: SourcePlace | None = self
        while place is not None:
            yield place
            place = place.caller

    def called_from(self, caller: SourcePlace) -> SourcePlace:
        """The same code in a function that is called somewhere."""
        found = caller
        for place in reversed(list(self.chain)):
            found = SourcePlace(place.file, place.line, found)
        return found


@dataclass(frozen=True)
class Instruction:
    """opcode.modifier.modifier operands; `guard` is the predicate it runs under."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    #: Line in the PTX text.
    line: int
    place: SourcePlace = SourcePlace()

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    @property
    def types(self) -> tuple[Type, ...]:
        """The types among its modifiers, in order."""
        return tuple(TYPES[each] for each in self.modifiers if each in TYPES)

    def has(self, *modifiers: str) -> bool:
        return any(each in self.modifiers for each in modifiers)


@dataclass(frozen=True)
class Label:
    name: str
    line: int


@dataclass(frozen=True)
class BranchTargets:
    """A named list of labels that brx.idx chooses from."""

    name: str
    labels: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class CallTargets:
    """A named list of functions that a call through a pointer chooses from."""

    name: str
    functions: tuple[str, ...]
    line: int


Statement = Instruction | Label | BranchTargets | CallTargets


@dataclass(frozen=True)
class Variable:
    """A declared variable. `count` elements (0: size given at launch); initial values as bytes or names."""

    name: str
    space: str
    type: Type
    count: int
    alignment: int
    line: int
    is_array: bool = False
    vector: int = 1
    initial: bytes | None = None
    #: (byte offset, name, addend) of pointers among the initial values.
    pointers: tuple[tuple[int, str, int], ...] = ()
    external: bool = False

    @property
    def size_bytes(self) -> int:
        return self.count * self.vector * self.type.bytes


@dataclass(frozen=True)
class Function:
    """A kernel (`is_entry`) or device function; without `body` it is only declared."""

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    body: tuple[Statement, ...] | None
    registers: Mapping[str, Type]
    variables: Mapping[str, Variable]
    line: int
    #: Threads per block that the kernel requires, if it says so.
    required_threads: tuple[int, ...] = ()
    most_threads: tuple[int, ...] = ()
    #: Blocks of the clusters that it requires.
    cluster: tuple[int, ...] = ()

    def instructions(self) -> Iterator[Instruction]:
        return (each for each in self.body or () if isinstance(each, Instruction))


@dataclass(frozen=True)
class PtxModule:
    """A parsed PTX text."""

    name: str
    version: tuple[int, int]
    target: str
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    #: Source files by number.
    files: Mapping[int, str] = field(default_factory=dict)
    #: Where its global and constant variables start.
    variables_address: int = GLOBAL_WINDOW
    #: A hash of the text; empty where there are several.
    digest: str = ""

    @property
    def entries(self) -> dict[str, Function]:
        return {name: each for name, each in self.functions.items() if each.is_entry}
