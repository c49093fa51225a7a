"""Tokens to operands: registers, numbers, addresses, vectors, calls."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from ...errors import PtxError
from .lexer import Token
from .program import Address, Immediate, Operand, Pair, Register, Sink, Special, Symbol, Type, Vector

#: Longest accepted number: 64 binary digits, prefix and suffix.
MOST_DIGITS = 80
_SPECIAL = {
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *(f"%lanemask_{each}" for each in ("eq", "le", "lt", "ge", "gt")),
    *("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock", "%clock_hi", "%clock64"),
    *(f"%{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    *("%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"),
    *("%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%total_smem_size", "%dynamic_smem_size"),
    "%reserved_smem_offset_1",
    *("%aggr_smem_size", *(f"%envreg{number}" for number in range(32)), *(f"%pm{number}" for number in range(8))),
}
_VECTOR_SPECIAL = (
    *("%tid", "%ntid", "%ctaid", "%nctaid"),
    *("%cluster_ctaid", "%cluster_nctaid", "%clusterid", "%nclusterid"),
)


@dataclass
class Scope:
    """Names declared between two braces. Inner names get a number to be unique in their function."""

    suffix: str = ""
    names: dict[str, str] = field(default_factory=dict)


class OperandReader:
    """Reads operands from tokens; knows which names are registers in each scope."""

    def __init__(self, found: list[Token], name: str) -> None:
        self.tokens, self.name = found, name
        self.position = 0
        self.registers: dict[str, Type] = {}
        self.scopes = [Scope()]

    # -- tokens ---------------------------------------------------------------------------

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    def fail(self, why: str, token: Token | None = None) -> PtxError:
        return PtxError(f"{self.name}: line {(token or self.here).line}: {why}")

    def next(self) -> Token:
        token = self.tokens[self.position]
        if token.kind == "end":
            raise self.fail("the text ends in the middle of a statement; is the file truncated?")
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        token = self.tokens[self.position]
        if token.text == text and token.kind != "string":
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.next()
        if token.text != text:
            raise self.fail(f"expected {text!r}, found {token.text!r}", token)
        return token

    def word(self, what: str) -> str:
        token = self.next()
        if token.kind != "word":
            raise self.fail(f"expected {what}, found {token.text!r}", token)
        return token.text

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.next()
        value = literal_of(token)
        if token.kind != "number" or value is None or value.float_bits or isinstance(value.value, float):
            raise self.fail(f"expected a whole number, found {token.text!r}", token)
        return -int(value.value) if negative else int(value.value)

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def _declare_labels(self) -> None:
        """Labels between these braces: branches may name them before they come."""
        depth, position = 0, self.position
        while depth >= 0 and self.tokens[position].kind != "end":
            text = self.tokens[position].text
            depth += (text == "{") - (text == "}")
            if depth == 0 and self.tokens[position].kind == "word" and self.tokens[position + 1].text == ":":
                self._declare(text)
            position += 1

    def _declare(self, name: str) -> str:
        scope = self.scopes[-1]
        scope.names[name] = name + scope.suffix
        return scope.names[name]

    def _call(self) -> list[Operand]:
        """(results), function, (arguments), targets: results and arguments as vectors; targets of pointers only."""

        def listed() -> Vector:
            items: list[Operand] = []
            while not self.accept(")"):
                items.append(self._operand())
                if not self.accept(","):
                    self.expect(")")
                    break
            return Vector(tuple(items))

        results = Vector(())
        if self.accept("("):
            results = listed()
            self.expect(",")
        target = self._operand()
        found: list[Operand] = [results, target, Vector(())]
        if self.accept(","):
            listing = not self.accept("(")
            if not listing:
                found[2] = listed()
            if listing or self.accept(","):
                found.append(Symbol(self._resolve(self.word("a list of targets or a prototype"))))
        return found

    def _operand(self) -> Operand:
        token = self.here
        if self.accept("{"):
            items = [self._operand()]
            while self.accept(","):
                items.append(self._operand())
            self.expect("}")
            if any(isinstance(each, Vector | Address | Pair) for each in items):
                raise self.fail("a vector holds registers and numbers only", token)
            return Vector(tuple(items))
        if self.accept("["):
            return self._address(token)
        if self.accept("!"):
            found = self._name()
            if not isinstance(found, Register):
                raise self.fail("! negates a predicate only", token)
            return Register(found.name, negated=True)
        if token.text == "-" or token.kind == "number":
            negative = self.accept("-")
            literal = literal_of(self.next())
            if literal is None:
                raise self.fail(f"expected a number, found {token.text!r}", token)
            return Immediate(-literal.value, literal.float_bits) if negative else literal
        if token.kind != "word":
            raise self.fail(f"expected an operand, found {token.text!r}", token)
        if token.text == "WARP_SZ":  # the one constant that PTX itself names
            self.next()
            return Immediate(32)
        found = self._name()
        if self.accept("|"):
            second = self._name() if self.here.kind == "word" else None
            if second is None:
                raise self.fail("a second destination is expected after |", token)
            return Pair(found, second)
        if isinstance(found, Symbol) and self.here.text in ("+", "-") and self.here.kind == "punctuation":
            sign = 1 if self.next().text == "+" else -1
            return Symbol(found.name, sign * self.integer())
        return found

    def _name(self) -> Register | Special | Symbol | Sink:
        token = self.next()
        if token.kind != "word":
            raise self.fail(f"expected a name, found {token.text!r}", token)
        if token.text == "_":
            return Sink()
        name = self._resolve(token.text)
        if name in self.registers:
            return Register(name)
        special = token.text
        if special in _VECTOR_SPECIAL and self.here.kind == "dot" and self.here.glued:
            special += self.next().text
        if special in _SPECIAL:
            return Special(special)
        if special.startswith("%"):
            raise self.fail(f"the register {special} is neither declared nor a supported special register", token)
        return Symbol(name)

    def _address(self, token: Token) -> Address:
        base: Register | Symbol | Immediate
        if self.here.kind == "number":
            base = Immediate(self.integer())
        else:
            found = self._name()
            if not isinstance(found, Register | Symbol):
                raise self.fail("an address is a register or a variable, with an offset", token)
            base = found
        offset = 0
        while self.here.text in ("+", "-"):
            sign = 1 if self.next().text == "+" else -1
            offset += sign * self.integer()
        coordinates: tuple[Operand, ...] = ()
        if self.accept(","):
            found_there = self._operand()
            if not isinstance(found_there, Vector):
                raise self.fail("coordinates stand in braces", token)
            coordinates = found_there.items
        self.expect("]")
        return Address(base, offset, coordinates)


def literal_of(token: Token) -> Immediate | None:
    text = token.text
    if token.kind != "number" or len(text) > MOST_DIGITS:
        return None
    if text[:2] in ("0f", "0F"):
        return Immediate(struct.unpack(">f", bytes.fromhex(text[2:]))[0], 32)
    if text[:2] in ("0d", "0D"):
        return Immediate(struct.unpack(">d", bytes.fromhex(text[2:]))[0], 64)
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X", "0b", "0B"):
        return Immediate(int(text, 0))
    if not text.isdigit():
        return Immediate(float(text), 64)
    octal = len(text) > 1 and text[0] == "0" and not set(text) & set("89")
    return Immediate(int(text, 8) if octal else int(text))


def value_bytes(literal: Immediate, kind: Type, negative: bool) -> bytes:
    """An initial value as bytes; a float given for another type provides its bits."""
    value = -literal.value if negative else literal.value
    if kind.kind == "bf":
        bits = int.from_bytes(_packed("<f", value), "little")
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).to_bytes(2, "little")
    if kind.is_float:
        return _packed({16: "<e", 32: "<f", 64: "<d"}[kind.bits], value)
    if isinstance(value, float):
        value = int.from_bytes(_packed("<f" if literal.float_bits == 32 else "<d", value), "little")
    return (value & ((1 << kind.total_bits) - 1)).to_bytes(kind.bytes, "little")


def _packed(form: str, value: float) -> bytes:
    try:
        return struct.pack(form, value)
    except OverflowError:  # beyond the format's range
        return struct.pack(form, math.inf if value > 0 else -math.inf)
