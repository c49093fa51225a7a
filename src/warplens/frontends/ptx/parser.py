"""Tokens to `PtxModule`: directives, declarations, functions and instructions."""

from __future__ import annotations

from dataclasses import replace

from ...errors import PtxError
from ...result_cache import content_hash
from .lexer import Token, tokens
from .operands import OperandReader, Scope, literal_of, value_bytes
from .program import (
    TYPES,
    BranchTargets,
    CallTargets,
    Function,
    Instruction,
    Label,
    Operand,
    PtxModule,
    Register,
    SourcePlace,
    Statement,
    Type,
    Variable,
)

#: Most registers a kernel may declare: far more than ptxas accepts in practice.
MOST_REGISTERS = 1_000_000
MOST_NESTING = 64
_LINKAGE = (".visible", ".extern", ".weak", ".common")
#: Calls within one another whose places are kept.
MOST_INLINED = 64
_SPACES = (".global", ".const", ".shared", ".local", ".param")


def parse_ptx(text: str, name: str = "PTX") -> PtxModule:
    """Parse a PTX text; errors call it `name`."""
    return replace(_Parser(tokens(text, name), name).module(), digest=content_hash([text]))


class _Parser(OperandReader):
    def __init__(self, found: list[Token], name: str) -> None:
        super().__init__(found, name)
        self.place = SourcePlace()
        self.places: dict[tuple[int, int, int], SourcePlace] = {}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.files: dict[int, str] = {}

    # -- module -----------------------------------------------------------------------------

    def module(self) -> PtxModule:
        version, target = (0, 0), ""
        while self.here.kind != "end":
            token = self.next()
            if token.text == ".version":
                text = self.next().text
                major, _, minor = text.partition(".")
                if not (major.isdigit() and minor.isdigit()):
                    raise self.fail(f"{text!r} is not a PTX version", token)
                version = (int(major), int(minor))
            elif token.text == ".target":
                target = self.word("a target")
                while self.accept(","):
                    self.word("a target")
            elif token.text == ".address_size":
                if self.integer() != 64:
                    raise self.fail("only 64-bit PTX is supported; compile with -m64", token)
            elif token.text == ".file":
                self._file()
            elif token.text == ".section":
                self._skip_section()
            elif token.text in (".loc", ".pragma", ".alias"):
                self._skip_to(";") if token.text != ".loc" else self._loc()
            elif token.text in (*_LINKAGE, *_SPACES, ".entry", ".func"):
                self.position -= 1
                self._declaration()
            elif token.text != ";":
                raise self.fail(f"{token.text!r} is not known at the top of a module", token)
        if version == (0, 0):
            raise PtxError(f"{self.name}: line 1: no .version directive; is this PTX?")
        return PtxModule(self.name, version, target, self.functions, self.variables, self.files)

    def _file(self) -> None:
        number = self.integer()
        token = self.next()
        if token.kind != "string":
            raise self.fail("a file name is expected", token)
        self.files[number] = token.text[1:-1]
        while self.accept(","):
            self.integer()

    def _skip_section(self) -> None:
        self.next()
        depth = 0
        while True:
            token = self.next()
            depth += (token.text == "{") - (token.text == "}")
            if depth == 0:
                return

    def _skip_to(self, text: str) -> None:
        while self.next().text != text:
            pass

    def _loc(self) -> None:
        here = self.integer(), self.integer(), self.integer()
        self.place = SourcePlace(*here[:2])
        while self.accept(","):
            what = self.word("function_name or inlined_at")
            if what == "function_name":
                self.word("a name")
                if self.accept("+"):
                    self.integer()
            else:
                call = self.integer(), self.integer(), self.integer()
                # The last .loc with the place of the call says where that was inlined.
                caller = self.places.get(call, SourcePlace(*call[:2]))
                if sum(1 for _ in caller.chain) < MOST_INLINED:
                    self.place = SourcePlace(*here[:2], caller)
        self.places[here] = self.place

    def _declaration(self) -> None:
        linkage = []
        while self.here.text in _LINKAGE:
            linkage.append(self.next().text)
        if self.here.text in (".entry", ".func"):
            self._function(is_entry=self.next().text == ".entry")
        else:
            for variable in self._variables(external=".extern" in linkage):
                self.variables[variable.name] = variable

    # -- variables ---------------------------------------------------------------------------

    def _type(self) -> Type:
        token = self.next()
        found = TYPES.get(token.text[1:]) if token.kind == "dot" else None
        if found is None:
            raise self.fail(f"expected a type, found {token.text!r}", token)
        return found

    def _variables(self, *, external: bool = False, parameter: bool = False) -> list[Variable]:
        """`.space .align 4 .b8 name[64] = {…}, other;`, for parameters without the end."""
        first = self.next()
        if first.text not in _SPACES:
            raise self.fail(f"expected an address space, found {first.text!r}", first)
        space = first.text[1:]
        alignment, vector, kind = 0, 1, None
        while self.here.kind == "dot":
            token = self.here
            if token.text == ".align":
                self.next()
                alignment = self.integer()
            elif token.text in (".v2", ".v4"):
                self.next()
                vector = int(token.text[2])
            elif token.text == ".ptr":  # .ptr .global .align 4: a hint on what a parameter points to
                self.next()
                while self.here.text in (".global", ".const", ".shared", ".local"):
                    self.next()
                if self.accept(".align"):
                    self.integer()
            elif token.text == ".attribute":
                self.next()
                self._skip_to(")")
            elif token.text == ".unified":
                self.next()
            else:
                kind = self._type()
        if kind is None:
            raise self.fail(f"a variable in {first.text} needs a type")
        found = []
        while True:
            found.append(self._variable(space, kind, alignment, vector, external))
            if parameter or not self.accept(","):
                break
        if not parameter:
            self.expect(";")
        return found

    def _variable(self, space: str, kind: Type, alignment: int, vector: int, external: bool) -> Variable:
        name_token = self.here
        name = self.word("a variable's name")
        count, is_array = 1, False
        while self.accept("["):
            is_array = True
            size = 0 if self.here.text == "]" else self.integer()
            if size < 0 or count * max(size, 1) > 1 << 40:
                raise self.fail(f"{name} has an impossible size", name_token)
            count *= size
            self.expect("]")
        if alignment & (alignment - 1) or alignment < 0 or alignment > 4096:
            raise self.fail(f"{name}: {alignment} is not a valid alignment", name_token)
        variable = Variable(
            name,
            space,
            kind,
            count,
            alignment or kind.bytes * vector,
            name_token.line,
            is_array,
            vector,
            external=external,
        )
        return self._initialised(variable) if self.accept("=") else variable

    def _initialised(self, variable: Variable) -> Variable:
        size = variable.type.bytes
        content = bytearray()
        pointers: list[tuple[int, str, int]] = []

        def item(depth: int) -> None:
            if depth > MOST_NESTING:
                raise self.fail("the initial values are nested too deeply")
            if self.accept("{"):
                while not self.accept("}"):
                    item(depth + 1)
                    if not self.accept(","):
                        self.expect("}")
                        return
                return
            token = self.here
            if token.kind == "word":
                function = self.word("a name")
                if function == "generic" and self.accept("("):
                    function = self.word("a name")
                    self.expect(")")
                addend = self.integer() if self.accept("+") else 0
                pointers.append((len(content), function, addend))
                content.extend(bytes(size))
                return
            negative = self.accept("-")
            literal = literal_of(self.next())
            if literal is None:
                raise self.fail(f"expected an initial value, found {token.text!r}", token)
            content.extend(value_bytes(literal, variable.type, negative))

        item(0)
        total = max(variable.size_bytes, len(content) if variable.count == 0 else 0)
        if len(content) > total:
            raise self.fail(f"{variable.name} has more initial values than elements")
        count = variable.count or len(content) // (size * variable.vector)
        initial = bytes(content).ljust(total, b"\0")
        return replace(variable, count=count, initial=initial, pointers=tuple(pointers))

    # -- functions ------------------------------------------------------------------------------

    def _parameters(self) -> tuple[Variable, ...]:
        found: list[Variable] = []
        if self.accept("("):
            while not self.accept(")"):
                if self.here.text == ".reg":
                    raise self.fail("parameters in registers are not supported; use .param")
                found += self._variables(parameter=True)
                if not self.accept(","):
                    self.expect(")")
                    break
        return tuple(found)

    def _function(self, *, is_entry: bool) -> None:
        line = self.here.line
        results = self._parameters() if self.here.text == "(" else ()
        name = self.word("a function's name")
        parameters = self._parameters()
        limits: dict[str, tuple[int, ...]] = {}
        while self.here.kind == "dot":
            directive = self.next().text
            numbers = []
            while self.here.kind == "number":
                numbers.append(self.integer())
                self.accept(",")
            if directive == ".pragma":
                self._skip_to(";")
            limits[directive] = tuple(numbers)
        body = None
        self.registers = {}
        self.local_variables: dict[str, Variable] = {each.name: each for each in (*parameters, *results)}
        self.scopes = [Scope()]
        self.scope_count = 0
        self.place, self.places = SourcePlace(), {}
        if self.accept("{"):
            statements: list[Statement] = []
            self._statements(statements)
            body = tuple(statements)
        else:
            self.accept(";")
        old = self.functions.get(name)
        if old is not None and old.body is not None and body is not None:
            raise self.fail(f"{name} is defined twice")
        if old is None or old.body is None:
            self.functions[name] = Function(
                name,
                is_entry,
                parameters,
                results,
                body,
                self.registers,
                self.local_variables,
                line,
                limits.get(".reqntid", ()),
                limits.get(".maxntid", ()),
                limits.get(".reqnctapercluster", ()),
            )

    def _statements(self, into: list[Statement]) -> None:
        """Parse statements up to the closing brace."""
        while True:
            token = self.here
            if self.accept("}"):
                return
            if self.accept("{"):
                if len(self.scopes) > MOST_NESTING:
                    raise self.fail("braces are nested too deeply", token)
                self.scope_count += 1
                self.scopes.append(Scope(f"@{self.scope_count}"))
                self._declare_labels()
                self._statements(into)
                self.scopes.pop()
            elif token.text == ".reg":
                self._registers()
            elif token.text in _SPACES:
                for variable in self._variables():
                    unique = self._declare(variable.name)
                    self.local_variables[unique] = replace(variable, name=unique)
            elif token.text == ".loc":
                self.next()
                self._loc()
            elif token.text == ".pragma":
                self._skip_to(";")
            elif token.text == ".file":
                self.next()
                self._file()
            elif token.kind == "dot":
                raise self.fail(f"the directive {token.text} is not supported", token)
            elif token.kind == "word" and self.tokens[self.position + 1].text == ":":
                into.append(self._label())
            elif not self.accept(";"):
                into.append(self._instruction())

    def _label(self) -> Statement:
        token = self.next()
        name = self._resolve(token.text)
        self.expect(":")
        for directive, kind in ((".branchtargets", BranchTargets), (".calltargets", CallTargets)):
            if self.accept(directive):
                names = [self._resolve(self.word("a name"))]
                while self.accept(","):
                    names.append(self._resolve(self.word("a name")))
                self.expect(";")
                return kind(name, tuple(names), token.line)
        if self.accept(".callprototype"):  # the variables that a call passes say as much
            self._skip_to(";")
            return CallTargets(name, (), token.line)
        return Label(name, token.line)

    def _registers(self) -> None:
        self.next()
        while self.here.text in (".v2", ".v4"):
            raise self.fail("vector registers are not supported; use scalars")
        kind = self._type()
        while True:
            name = self.word("a register's name")
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
                if not 0 <= count <= MOST_REGISTERS:
                    raise self.fail(f"{count} registers named {name}; at most {MOST_REGISTERS} can be declared")
                names = [f"{name}{index}" for index in range(count)]
            else:
                names = [name]
            for each in names:
                self.registers[self._declare(each)] = kind
            if len(self.registers) > MOST_REGISTERS:
                raise self.fail(f"more than {MOST_REGISTERS} registers")
            if not self.accept(","):
                break
        self.expect(";")

    # -- instructions ------------------------------------------------------------------------------

    def _instruction(self) -> Instruction:
        start = self.here
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = Register(self._resolve(self.word("a predicate")), negated)
            if guard.name not in self.registers:
                raise self.fail(f"the predicate {guard.name} is not declared", start)
        opcode = self.word("an instruction")
        modifiers = []
        while self.here.kind == "dot" and self.here.glued:
            modifiers.append(self.next().text[1:])
        operands: list[Operand] = []
        if opcode == "call":
            operands = self._call()
        elif self.here.text != ";":
            operands.append(self._operand())
            while self.accept(","):
                operands.append(self._operand())
        self.expect(";")
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard, start.line, self.place)
