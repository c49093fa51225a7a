"""Random small PTX kernels that any launch can run: valid, in bounds, free of races, and sure to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from .instructions import Case, _code, cases

#: Registers of each kind of operand: prefix, type, how many.
POOLS = {
    "b32": ("%r", "b32", 6),
    "b64": ("%d", "b64", 3),
    "b16": ("%s", "b16", 3),
    "f32": ("%f", "f32", 4),
    "f64": ("%g", "f64", 3),
    "f16": ("%x", "b16", 2),
    "bf16": ("%z", "b16", 2),
    "f16x2": ("%u", "b32", 2),
    "bf16x2": ("%v", "b32", 2),
    "pred": ("%p", "pred", 4),
}
#: Type, kind of the register and bytes of loads that programs make.
LOADS = [
    ("u8", "b32", 1),
    ("s8", "b32", 1),
    ("u16", "b32", 2),
    ("s16", "b16", 2),
    ("u32", "b32", 4),
    ("s8", "b16", 1),
]
LOADS += [("b64", "b64", 8), ("f32", "f32", 4), ("v2.u32", "b32", 8), ("v4.f32", "f32", 16), ("f64", "f64", 8)]
LOADS += [("u8", "b64", 1), ("s32", "b64", 4), ("b16", "f16", 2), ("b32", "f16x2", 4)]
#: Bytes of the output that belong to a thread: the first are written at random, then come its registers at the end.
FREE_BYTES, THREAD_BYTES = 64, 256
INPUT_WORDS = 64
COUNTERS = 4
BLOCKS = [(32, 1, 1), (20, 1, 1), (64, 1, 1), (8, 5, 1), (3, 4, 5), (33, 1, 1), (1, 1, 1)]
GRIDS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (3, 1, 1)]
# Signs of NaNs are not defined, so no number may take one.
USABLE = [case for case in cases() if not case.ulps and not case.name.startswith("copysign")]
_BY_RESULT: dict[str, list[Case]] = {}
for _case in USABLE:
    _BY_RESULT.setdefault(_case.to[0], []).append(_case)


@dataclass(frozen=True)
class Field:
    """A register's place in a thread's part of the output."""

    kind: str
    offset: int


@dataclass(frozen=True)
class Program:
    """A kernel `program(in, out, counters, start)` with a launch."""

    text: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    fields: tuple[Field, ...]
    seed: int

    @property
    def threads(self) -> int:
        return int(np.prod(self.grid) * np.prod(self.block))

    def arguments(self) -> list[object]:
        random = np.random.default_rng(self.seed)
        words = random.integers(0, 1 << 32, INPUT_WORDS, dtype=np.uint32)
        words[::3] = random.normal(0, 100, len(words[::3])).astype(np.float32).view(np.uint32)
        words[::7] &= 7
        return [words, np.zeros(self.threads * THREAD_BYTES, np.uint8), np.zeros(COUNTERS, np.uint32), self.seed % 97]

    def __str__(self) -> str:
        return f"grid {self.grid} block {self.block} seed {self.seed}\n{self.text}"


def literal(random: Random, kind: str) -> str | None:
    """A number as an operand, where the kind has some."""
    if kind in ("b16", "b32", "b64", "count"):
        return str(random.choice([0, 1, 2, 3, 5, 31, 255, 0x7FFF]))
    if kind == "field":
        return str(random.choice([0, 1, 3, 8, 31, 40]))
    if kind == "f32":
        return random.choice(["0f3F800000", "0fBF000000", "0f40490FDB", "0f00000001", "0f4B800001"])
    if kind == "f64":
        return random.choice(["0d3FF0000000000000", "0dBFD5555555555555", "0d4330000000000001"])
    return None


@dataclass
class Writer:
    """Lines of one function, with labels that are unique in it."""

    random: Random
    lines: list[str] = field(default_factory=list)
    labels: int = 0
    tables: int = 0
    counters: int = 0
    #: What the code at this place may use.
    depth: int = 0
    may_exit: bool = False
    budget: int = 30
    functions: tuple[str, ...] = ()
    in_kernel: bool = True
    #: In a block.
    threads: int = 1

    def emit(self, line: str) -> None:
        self.lines.append(f"    {line}")

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def register(self, kind: str) -> str:
        kind = {"count": "b32", "field": "b32"}.get(kind, kind)
        prefix, _, count = POOLS[kind]
        return f"{prefix}{self.random.randrange(count)}"

    def predicate(self) -> str:
        return self.random.choice(["", "!"]) + self.register("pred")

    def source(self, kind: str) -> str:
        found = literal(self.random, kind) if kind == "field" or self.random.random() < 0.15 else None
        return found or self.register(kind)

    # -- statements ------------------------------------------------------------------------------------

    def compute(self) -> None:
        kind = self.random.choice(["b32"] * 4 + ["f32"] * 3 + ["pred"] * 2 + list(_BY_RESULT))
        case = self.random.choice(_BY_RESULT[kind])
        sources = [self.source(each) for each in case.sources]
        if not any(each.startswith("%") for each in sources) or case.name.startswith("mov.unpack"):
            sources[0] = self.register(case.sources[0])
        targets = [self.register(each) for each in case.to]
        if len(set(targets)) < len(targets):
            return
        guard = f"@{self.predicate()} " if self.random.random() < 0.2 and "+" not in case.name else ""
        self.emit(guard + _code(case, targets, sources))

    def compare(self) -> None:
        """A predicate that lanes are likely to see differently."""
        mask = self.random.choice([1, 3, 7])
        self.emit(f"xor.b32 %t0, {self.register('b32')}, {self.random.choice(['%thread', '%place', '%r0'])};")
        self.emit(f"and.b32 %t0, %t0, {mask};")
        relation = self.random.choice(["eq", "lt", "gt", "ne"])
        self.emit(f"setp.{relation}.u32 {self.register('pred')}, %t0, {self.random.randrange(mask + 1)};")

    def load(self) -> None:
        form, kind, size = self.random.choice(LOADS)
        where = self.random.choice(["global", "global.nc", "global", "generic"])
        self.emit(f"and.b32 %t0, {self.register('b32')}, {INPUT_WORDS * 4 // size - 1};")
        self.emit(f"mad.wide.u32 %a0, %t0, {size}, {'%generic_in' if where == 'generic' else '%in'};")
        guard = f"@{self.predicate()} " if self.random.random() < 0.25 else ""
        place = "" if where == "generic" else f".{where}"
        if form.startswith("v"):
            prefix, _, most = POOLS[kind]
            targets = self.random.sample([f"{prefix}{each}" for each in range(most)], int(form[1]))
            self.emit(f"{guard}ld{place}.{form} {{{', '.join(targets)}}}, [%a0];")
        else:
            self.emit(f"{guard}ld{place}.{form} {self.register(kind)}, [%a0];")

    def load_constant(self) -> None:
        self.emit(f"and.b32 %t0, {self.register('b32')}, 7;")
        self.emit("mov.u64 %a0, table;")
        self.emit("mad.wide.u32 %a0, %t0, 4, %a0;")
        self.emit(f"ld.const.u32 {self.register('b32')}, [%a0];")

    def store(self) -> None:
        form, kind, size = self.random.choice(
            [("u8", "b32", 1), ("u16", "b16", 2), ("u32", "b32", 4), ("b64", "b64", 8), ("v2.b32", "b32", 8)]
        )
        offset = self.random.randrange(FREE_BYTES // size) * size
        guard = f"@{self.predicate()} " if self.random.random() < 0.25 else ""
        value = self.register(kind)
        if form.startswith("v2"):
            value = f"{{{value}, {self.register(kind)}}}"
        self.emit(f"{guard}st.global{self.random.choice(['', '.cg', '.wt'])}.{form} [%out+{offset}], {value};")

    def local(self) -> None:
        """A word of the thread's own array, by a computed index."""
        self.emit(f"and.b32 %t0, {self.register('b32')}, 3;")
        self.emit("mov.u64 %a0, depot;")
        self.emit("mad.wide.u32 %a0, %t0, 4, %a0;")
        space = ".local"
        if self.random.random() < 0.4:
            self.emit("cvta.local.u64 %a0, %a0;")
            space = ""
        if self.random.random() < 0.5:
            self.emit(f"st{space}.u32 [%a0], {self.register('b32')};")
        else:
            self.emit(f"ld{space}.u32 {self.register('b32')}, [%a0];")

    def reduce(self) -> None:
        """Sums that do not depend on the order of threads."""
        self.emit(f"and.b32 %t0, {self.register('b32')}, {COUNTERS // 2 - 1};")
        self.emit("mad.wide.u32 %a0, %t0, 4, %counters;")
        guard = f"@{self.predicate()} " if self.random.random() < 0.25 else ""
        value = self.register("b32")
        if self.random.random() < 0.5:
            self.emit(f"{guard}red.global.add.u32 [%a0], {value};")
        else:
            self.emit(f"{guard}atom.global.max.u32 %t1, [%a0+{COUNTERS // 2 * 4}], {value};")

    def collective(self) -> None:
        """Among the lanes that are active here."""
        self.emit("activemask.b32 %t0;")
        target, value = self.register("b32"), self.register("b32")
        self.emit(
            self.random.choice(
                [
                    f"vote.sync.ballot.b32 {target}, {self.predicate()}, %t0;",
                    f"vote.sync.any.pred {self.register('pred')}, {self.predicate()}, %t0;",
                    f"vote.sync.all.pred {self.register('pred')}, {self.predicate()}, %t0;",
                    f"vote.sync.uni.pred {self.register('pred')}, {self.predicate()}, %t0;",
                    f"match.any.sync.b32 {target}, {value}, %t0;",
                    f"redux.sync.add.s32 {target}, {value}, %t0;",
                    f"redux.sync.min.u32 {target}, {value}, %t0;",
                    f"redux.sync.xor.b32 {target}, {value}, %t0;",
                    f"mov.b32 {target}, %t0;",
                ]
            )
        )

    def shuffle(self) -> None:
        mode, clamp = self.random.choice([("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)])
        segment = self.random.choice([0, 16, 24])
        by = str(self.random.choice([1, 2, 5, 16])) if self.random.random() < 0.6 else self.register("b32")
        target = f"{self.register('b32')}|{self.register('pred')}"
        c = segment << 8 | clamp
        self.emit(f"shfl.sync.{mode}.b32 {target}, {self.register('b32')}, {by}, {c}, -1;")

    def exchange(self) -> None:
        """Through shared memory: own word, barrier, another's word, barrier."""
        self.emit(f"st.shared.u32 [%mine], {self.register('b32')};")
        self.emit(self.random.choice(["bar.sync 0;", "barrier.sync 0;"]))
        self.emit(f"rem.u32 %t0, {self.register('b32')}, {self.threads};")
        self.emit("mov.u32 %t1, words;")
        self.emit("mad.lo.u32 %t0, %t0, 4, %t1;")
        if self.random.random() < 0.3:
            self.emit("cvt.u64.u32 %a0, %t0;")
            self.emit("cvta.shared.u64 %a0, %a0;")
            self.emit(f"ld.u32 {self.register('b32')}, [%a0];")
        else:
            self.emit(f"ld.shared.u32 {self.register('b32')}, [%t0];")
        self.emit("bar.sync 0;")

    def branch(self) -> None:
        """if, with or without else."""
        self.compare()
        end, other = self.label(), self.label()
        has_else = self.random.random() < 0.5
        self.emit(f"@{self.predicate()} bra {other if has_else else end};")
        self.block()
        if has_else:
            self.emit(f"bra {end};")
            self.place(other)
            self.block()
        else:
            self.place(other)
        self.place(end)

    def loop(self) -> None:
        """A few rounds, their number different between lanes or not, with a way out in the middle."""
        counter = f"%c{self.counters}"
        self.counters += 1
        top, out, again = self.label(), self.label(), self.label()
        if self.random.random() < 0.5:
            self.emit(f"and.b32 {counter}, {self.register('b32')}, 3;")
        else:
            self.emit(f"mov.u32 {counter}, {self.random.randrange(1, 4)};")
        self.place(top)
        self.block()
        kind = self.random.random()
        if kind < 0.6:
            self.compare()
            self.emit(f"@{self.predicate()} bra {out if kind < 0.4 else again};")
            self.block()
        self.place(again)
        self.emit(f"sub.s32 {counter}, {counter}, 1;")
        self.emit(f"setp.gt.s32 %q, {counter}, 0;")
        self.emit(f"@%q bra {top};")
        self.place(out)

    def tangle(self) -> None:
        """Blocks that branch anywhere forward, and backward while fuel lasts: no structure at all."""
        labels = [self.label() for _ in range(self.random.randrange(2, 5))]
        end = self.label()
        fuel = f"%c{self.counters}"
        self.counters += 1
        self.emit(f"mov.u32 {fuel}, {self.random.randrange(1, 5)};")
        for position, label in enumerate(labels):
            self.place(label)
            self.compute()
            self.compare()
            forward = [*labels[position + 1 :], end]
            if self.random.random() < 0.4:
                self.emit(f"sub.s32 {fuel}, {fuel}, 1;")
                self.emit(f"setp.gt.and.s32 %q, {fuel}, 0, {self.predicate()};")
                self.emit(f"@%q bra {self.random.choice(labels[: position + 1])};")
            self.emit(f"@{self.predicate()} bra {self.random.choice(forward)};")
            self.compute()
            if self.random.random() < 0.3:
                self.emit(f"bra {self.random.choice(forward)};")
        self.place(end)

    def switch(self) -> None:
        count = self.random.choice([2, 4])
        labels, end = [self.label() for _ in range(count)], self.label()
        self.tables += 1
        self.emit(f"and.b32 %t0, {self.register('b32')}, {count - 1};")
        listed = [self.random.choice(labels) for _ in labels] if self.random.random() < 0.3 else labels
        self.emit(f"T{self.tables}: .branchtargets {', '.join(listed)};")
        self.emit(f"brx.idx %t0, T{self.tables};")
        for label in labels:
            self.place(label)
            self.compute()
            if self.random.random() < 0.7:  # else it falls through
                self.emit(f"bra {end};")
        self.place(end)

    def call(self) -> None:
        name = self.random.choice(self.functions)
        self.emit("{")
        self.emit(".param .b32 one;")
        self.emit(".param .b32 two;")
        self.emit(".param .b32 result;")
        self.emit(f"st.param.b32 [one], {self.register('b32')};")
        self.emit(f"st.param.b32 [two], {self.register('b32')};")
        self.emit(f"call (result), {name}, (one, two);")
        self.emit(f"ld.param.b32 {self.register('b32')}, [result];")
        self.emit("}")

    def leave(self) -> None:
        self.compare()
        self.emit(f"@{self.predicate()} {'exit' if self.in_kernel else 'ret'};")

    def block(self, least: int = 1, most: int = 3) -> None:
        self.depth += 1
        for _ in range(self.random.randrange(least, most + 1)):
            self.statement()
        self.depth -= 1

    def statement(self) -> None:
        self.budget -= 1
        simple = [self.compute] * 6
        if self.in_kernel:
            simple += [self.load, self.load, self.store, self.load_constant, self.local, self.collective, self.reduce]
        nested = [self.branch, self.branch, self.loop, self.tangle, self.switch]
        if self.functions:
            nested.append(self.call)
        if self.may_exit:
            nested.append(self.leave)
        deep = self.budget <= 0 or self.depth >= 3 or self.counters >= 12
        chosen = simple if deep or self.random.random() < 0.65 else nested
        self.random.choice(chosen)()


def _declarations() -> list[str]:
    found = [f".reg .{kind} {prefix}<{count}>;" for prefix, kind, count in POOLS.values()]
    return [
        *found,
        ".reg .pred %q;",
        ".reg .b32 %t<2>, %c<20>, %thread, %place;",
        ".reg .b64 %a0, %in, %generic_in, %out, %counters;",
    ]


def _start(random: Random) -> list[str]:
    """Registers set from the thread's number and the input."""
    found = [f"mov.b32 %r0, %thread; xor.b32 %r1, %place, {random.randrange(1 << 16)};"]
    found += [f"mad.lo.u32 %r{each}, %place, {random.randrange(1 << 20)}, %thread;" for each in range(2, 6)]
    found += [f"cvt.u64.u32 %d{each}, %r{each + 1}; shl.b64 %d{each}, %d{each}, {7 * each};" for each in range(3)]
    found += [f"cvt.u16.u32 %s{each}, %r{each + 2};" for each in range(3)]
    found += [f"cvt.rn.f32.s32 %f{each}, %r{each};" for each in range(4)]
    found += [
        f"cvt.rn.f64.s32 %g{each}, %r{each + 3}; mul.f64 %g{each}, %g{each}, 0d3F50624DD2F1A9FC;" for each in range(3)
    ]
    found += [f"cvt.rn.f16.f32 %x{each}, %f{each}; cvt.rn.bf16.f32 %z{each}, %f{each + 2};" for each in range(2)]
    found += [f"mov.b32 %u{each}, {{%x{each}, %x0}}; mov.b32 %v{each}, {{%z0, %z{each}}};" for each in range(2)]
    found += [f"and.b32 %t0, %r{each}, {1 << each}; setp.eq.u32 %p{each}, %t0, 0;" for each in range(4)]
    return found


def _finish() -> tuple[list[str], tuple[Field, ...]]:
    lines, fields, offset = [], [], FREE_BYTES
    for kind, (prefix, form, count) in POOLS.items():
        size = 4 if kind == "pred" else int(form[1:]) // 8
        for number in range(count):
            offset += -offset % size
            if kind == "pred":
                lines.append(f"selp.u32 %t0, 1, 0, %p{number}; st.global.u32 [%out+{offset}], %t0;")
            else:
                lines.append(f"st.global.{form} [%out+{offset}], {prefix}{number};")
            fields.append(Field(kind, offset))
            offset += size
    assert offset <= THREAD_BYTES
    return lines, tuple(fields)


def _function(random: Random, name: str, callable_here: tuple[str, ...]) -> list[str]:
    writer = Writer(random, budget=6, functions=callable_here, in_kernel=False, may_exit=True)
    writer.lines += [f"    {each}" for each in _declarations()]
    writer.emit("ld.param.b32 %thread, [given0];")
    writer.emit("ld.param.b32 %place, [given1];")
    # Every way out leaves a result.
    writer.emit("xor.b32 %t0, %thread, %place; st.param.b32 [given2], %t0;")
    writer.lines += [f"    {each}" for each in _start(random)]
    for _ in range(random.randrange(1, 4)):
        writer.statement()
    writer.emit(f"add.u32 %t0, {writer.register('b32')}, {writer.register('b32')};")
    writer.emit("st.param.b32 [given2], %t0;")
    writer.emit("ret;")
    head = f".func (.param .b32 given2) {name}(.param .b32 given0, .param .b32 given1)"
    return [head, "{", *writer.lines, "}"]


def build(random: Random) -> Program:
    """A random program with a launch."""
    block, grid = random.choice(BLOCKS), random.choice(GRIDS)
    threads = block[0] * block[1] * block[2]
    names: tuple[str, ...] = ()
    functions: list[str] = []
    for number in range(random.randrange(3)):
        functions += _function(random, f"helper{number}", names)
        names = (*names, f"helper{number}")
    writer = Writer(random, functions=names, threads=threads)
    whole_warps = threads % 32 == 0
    for _ in range(random.randrange(2, 5)):
        writer.statement()
        if random.random() < 0.3:
            writer.exchange()
        if whole_warps and random.random() < 0.3:
            writer.shuffle()
    if random.random() < 0.4:  # from here on lanes may be missing
        writer.may_exit = True
        for _ in range(random.randrange(1, 4)):
            writer.statement()
    last, fields = _finish()
    lines = [
        *_declarations(),
        ".reg .b32 %n<8>, %mine;",
        ".local .align 4 .b8 depot[16];",
        ".shared .align 4 .b32 words[64];",
        "mov.u32 %n0, %tid.x; mov.u32 %n1, %tid.y; mov.u32 %n2, %tid.z;",
        "mov.u32 %n3, %ntid.x; mov.u32 %n4, %ntid.y; mov.u32 %n5, %ntid.z;",
        "mad.lo.u32 %thread, %n2, %n4, %n1; mad.lo.u32 %thread, %thread, %n3, %n0;",
        "mul.lo.u32 %n3, %n3, %n4; mul.lo.u32 %n3, %n3, %n5;",
        "mov.u32 %n0, %ctaid.x; mov.u32 %n1, %ctaid.y; mov.u32 %n2, %nctaid.x;",
        "mad.lo.u32 %n0, %n1, %n2, %n0; mad.lo.u32 %place, %n0, %n3, %thread;",
        "ld.param.u64 %generic_in, [in]; cvta.to.global.u64 %in, %generic_in;",
        "ld.param.u64 %out, [out]; ld.param.u64 %counters, [counters]; ld.param.u32 %n0, [start];",
        f"mad.wide.u32 %out, %place, {THREAD_BYTES}, %out;",
        "mov.u32 %mine, words; mad.lo.u32 %mine, %thread, 4, %mine;",
        *(f"st.local.u32 [depot+{4 * each}], %thread;" for each in range(4)),
        *_start(random),
        "add.u32 %r0, %r0, %n0;",
    ]
    head = [
        ".version 8.6",
        ".target sm_90",
        ".address_size 64",
        ".const .align 4 .b32 table[8] = {1, 2, 3, 5, 8, 13, 0x7fffffff, -1};",
        *functions,
        ".visible .entry program(.param .u64 in, .param .u64 out, .param .u64 counters, .param .u32 start)",
        "{",
    ]
    body = [f"    {each}" for each in lines] + writer.lines + [f"    {each}" for each in last]
    # One instruction a line: lines are how records are told apart.
    text = "\n".join([*head, *body, "    ret;", "}"]).replace("; ", ";\n    ") + "\n"
    return Program(text, grid, block, fields, random.randrange(1 << 16))
