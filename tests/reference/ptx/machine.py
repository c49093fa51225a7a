"""Threads, warps and blocks of a launch, run one instruction of one warp at a time.

Lanes that branch apart run one side after the other and meet at the branch's
immediate post-dominator. A called function has its own stack of sides, so
lanes that return early wait for the others at its end.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from warplens.frontends.ptx.program import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    PtxModule,
    Register,
    Special,
    Symbol,
    Type,
    Vector,
)
from warplens.frontends.ptx.spaces import LOCAL_WINDOW, SHARED_WINDOW

from . import collectives, products, threads, warpgroup
from .control import Code, choose
from .floats import F16, F32, F64, encode, from_float
from .integers import NotCoveredError, ones
from .memory import Allocation, FaultError, GlobalMemory, Space, parameter_bytes, place_shared, up_to, window_of
from .state import Barrier, Record, Run, Side, Thread

LANES = 32
CLUSTER_BARRIER = -1
#: Bits of an address in shared memory below the number of its block in the cluster, counted from 1.
SHARED_BITS = 24


class Launch:
    """One run of a kernel."""

    def __init__(
        self,
        module: PtxModule,
        entry: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[object],
        dynamic_shared_memory_bytes: int = 0,
        most_warp_instructions: int = 1_000_000,
    ) -> None:
        self.module, self.grid, self.block = module, grid, block
        self.kernel = module.functions[entry]
        self.cluster = (*self.kernel.cluster, 1, 1, 1)[:3]
        self.codes = {name: Code(each) for name, each in module.functions.items() if each.body is not None}
        self.memory = GlobalMemory(module, self.kernel, arguments)
        content, self.parameter_offsets = parameter_bytes(self.kernel.parameters, self.memory.parameters)
        self.parameters = Space("param", [Allocation("parameters", 0, content)])
        self.shared_offsets, static = place_shared(module, self.kernel)
        self.shared_bytes = static + dynamic_shared_memory_bytes
        self.dynamic_shared_memory_bytes = dynamic_shared_memory_bytes
        self.left = most_warp_instructions
        self.records: dict[tuple[int, int], list[Record]] = {}

    def run(self) -> Run:
        x, y, z = self.grid
        blocks = [
            _Block(self, number, (number % x, number // x % y, number // x // y)) for number in range(x * y * z)
        ]
        clusters: dict[tuple[int, ...], list[_Block]] = {}
        for block in blocks:
            place = tuple(at // size for at, size in zip(block.index, self.cluster, strict=True))
            clusters.setdefault(place, []).append(block)
        for cluster in clusters.values():
            for block in cluster:
                block.cluster = cluster
            runs = [block.run() for block in cluster]
            while runs:  # every block to its next barrier of the cluster
                runs = [run for run in runs if next(run, None) is not None]
        self.memory.give_back()
        total = sum(each.mask.bit_count() for records in self.records.values() for each in records)
        return Run(self.records, total)


class _Block:
    def __init__(self, launch: Launch, number: int, index: tuple[int, int, int]) -> None:
        self.launch, self.number, self.index = launch, number, index
        self.shared = Space("shared", [Allocation("shared", 0, bytearray(launch.shared_bytes))])
        self.cluster = [self]
        x, y, z = launch.block
        count = x * y * z
        threads_of = [Thread((each % x, each // x % y, each // x // y), each % LANES) for each in range(count)]
        self.warps = [
            _Warp(self, start // LANES, threads_of[start : start + LANES]) for start in range(0, count, LANES)
        ]

    def run(self) -> Generator[str, None, None]:
        """Warps in order, each to its next barrier; a barrier opens when every warp that still runs waits at it.

        Yields where all wait at the cluster's barrier.
        """
        runs = {warp.number: warp.run() for warp in self.warps}
        answers: dict[int, int | None] = dict.fromkeys(runs)
        while runs:
            waiting: dict[int, Barrier] = {}
            for number, run in list(runs.items()):
                try:
                    waiting[number] = run.send(answers[number])  # type: ignore[arg-type]
                except StopIteration:
                    del runs[number]
            if len({each[:2] for each in waiting.values()}) > 1:
                raise FaultError("warps of a block wait at different barriers")
            if any(number == CLUSTER_BARRIER for _, number, _ in waiting.values()):
                yield "waits for its cluster"
            flags = [flag for _, _, lanes in waiting.values() for flag in lanes.values()]
            for number, (operation, _, _) in waiting.items():
                results = {"popc": sum(flags), "and": int(all(flags)), "or": int(any(flags)), "": 0}
                answers[number] = results[operation]


class _Warp:
    def __init__(self, block: _Block, number: int, members: list[Thread]) -> None:
        self.block, self.launch, self.number = block, block.launch, number
        self.threads = {each.lane: each for each in members}
        self.alive = set(self.threads)
        self.records: list[Record] = []
        self.launch.records[block.number, number] = self.records

    def run(self) -> Generator[Barrier, int, None]:
        for thread in self.threads.values():
            self._enter(thread, self.launch.kernel, {})
        yield from self._function(self.launch.codes[self.launch.kernel.name], set(self.alive))

    def allocate(self, lane: int, size: int, alignment: int) -> int:
        """alloca: bytes behind the local variables."""
        local = self.threads[lane].local
        end = max((each.start + len(each.content) for each in local.allocations), default=0)
        local.allocations.append(Allocation("alloca", up_to(end, alignment), bytearray(size)))
        return local.allocations[-1].start

    def _enter(self, thread: Thread, function: Function, passed: dict[str, Space]) -> None:
        """Registers, and room for the local variables and call parameters, of a function."""
        thread.functions.append(function)
        thread.frames.append({})
        thread.parameters.append(passed)
        last_local = next((each for each in reversed(function.variables.values()) if each.space == "local"), None)
        for name, variable in function.variables.items():
            if variable.space == "local":
                last = thread.local.allocations[-1:]
                end = last[0].start + len(last[0].content) if last else 0
                start = up_to(end, max(variable.alignment, 1))
                # A thread's memory is a multiple of 16 bytes, as on a GPU.
                end = start + variable.size_bytes
                end = up_to(end, 16) if variable is last_local else end
                thread.local.allocations.append(Allocation(name, start, bytearray(end - start)))
            elif variable.space == "param" and name not in thread.parameters[-1]:
                content = bytearray(max(variable.size_bytes, 16))
                thread.parameters[-1][name] = Space("param", [Allocation(name, 0, content)])

    # -- control flow --------------------------------------------------------------------------------

    def _function(self, code: Code, lanes: set[int]) -> Generator[Barrier, int, None]:
        """Run a function's body with some lanes until all of them have returned or exited."""
        sides = [Side(0, lanes, code.end)]
        while sides:
            side = sides[-1]
            side.lanes &= self.alive
            if side.at == side.meeting or not side.lanes:
                sides.pop()
                continue
            item = code.instructions[side.at]
            on = {lane for lane in side.lanes if self._guard(lane, item)}
            if self._is_barrier(item) and on and on != self.alive:
                self._wait_for_others(sides, on, code.end)
                continue
            side.waits = False
            self._count()
            if item.opcode in ("bra", "brx", "ret", "exit", "call"):
                self._record(item, side.lanes)  # all lanes take part in the choice
            if item.opcode in ("bra", "brx"):
                self._branch(code, item, on, sides)
            elif item.opcode in ("ret", "exit"):
                if item.opcode == "exit" or code.function.is_entry:
                    self.alive -= on
                for each in sides:
                    each.lanes -= on
                side.at += 1
            elif item.opcode == "call":
                side.at += 1
                if on:
                    yield from self._call(item, on)
            elif self._is_barrier(item):
                self._record(item, on)
                side.at += 1
                if on:
                    yield from self._barrier(item, on)
            else:
                found = self._execute(item, on)
                self._record(item, on if found is None else set(found), found)
                side.at += 1

    @staticmethod
    def _is_barrier(item: Instruction) -> bool:
        return item.opcode in ("bar", "barrier") and not item.has("warp")

    def _wait_for_others(self, sides: list[Side], on: set[int], end: int) -> None:
        """Lanes at a barrier go to the bottom of the stack, apart from all others."""
        at, lowest = sides[-1].at, sides[0]
        for each in sides:
            each.lanes -= on
        if lowest.waits:
            lowest.lanes |= on
            if lowest.at != at:
                raise FaultError("lanes of a warp wait at different barriers")
        else:
            sides.insert(0, Side(at, set(on), end, waits=True))
        if not any(each.lanes & self.alive for each in sides[1:]) and lowest.lanes != self.alive:
            raise NotCoveredError("a barrier in a function that other lanes do not call")

    def _branch(self, code: Code, item: Instruction, on: set[int], sides: list[Side]) -> None:
        side = sides[-1]
        targets = code.targets(item)
        goes = dict.fromkeys(side.lanes, side.at + 1)
        for lane in on:
            index = self.value(lane, item.operands[0], Type("u", 32)) if item.opcode == "brx" else 0
            goes[lane] = choose(targets, index)
        ways = set(goes.values())
        if len(ways) == 1:
            (side.at,) = ways
            return
        following = side.at + 1
        meeting = code.meeting[side.at]
        side.at = meeting
        # On top of the stack, so first to run, is the next instruction, then the last target of a table.
        order = list(dict.fromkeys((*targets, following)))
        for way in order:
            if way in ways:
                sides.append(Side(way, {lane for lane in goes if goes[lane] == way}, meeting))

    def _call(self, item: Instruction, on: set[int]) -> Generator[Barrier, int, None]:
        """Lanes call one function after the other; pointers to functions are their addresses."""
        target = item.operands[1]
        if isinstance(target, Symbol):
            if target.name in ("vprintf", "malloc", "free"):
                self._device_call(item, target.name, on)
            else:
                yield from self._call_one(item, target.name, on)
            return
        names = {address: name for name, address in self.launch.memory.addresses.items() if name in self.launch.codes}
        chosen = {lane: names.get(self.value(lane, target, Type("u", 64)), "") for lane in on}
        for name in reversed([name for name in ("", *self.launch.codes) if name in chosen.values()]):
            yield from self._call_one(item, name, {lane for lane in on if chosen[lane] == name})

    def _device_call(self, item: Instruction, name: str, on: set[int]) -> None:
        if name == "vprintf":
            return
        results, _, arguments = item.operands[:3]
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        memory = self.launch.memory
        for lane in sorted(on):
            slots = self.threads[lane].parameters[-1]
            given = slots[arguments.items[0].name].read(0, 8)  # type: ignore[union-attr]
            if name == "malloc":
                slots[results.items[0].name].write(0, 8, memory.place("heap", bytearray(given)))  # type: ignore[union-attr]
            else:
                memory.allocations = [each for each in memory.allocations if each.start != given]

    def _call_one(self, item: Instruction, name: str, on: set[int]) -> Generator[Barrier, int, None]:
        results, _, arguments = item.operands[:3]
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        code = self.launch.codes.get(name)
        if code is None:
            raise NotCoveredError(f"call of {name}")
        function = code.function
        kept = {lane: len(self.threads[lane].local.allocations) for lane in on}
        for lane in on:
            thread = self.threads[lane]
            outer = thread.parameters[-1]
            passed = {}
            for declared, given in zip(function.parameters, arguments.items, strict=True):
                assert isinstance(given, Symbol)
                passed[declared.name] = outer[given.name]
            for declared, given in zip(function.results, results.items, strict=True):
                assert isinstance(given, Symbol)
                passed[declared.name] = outer[given.name]
            self._enter(thread, function, passed)
        yield from self._function(code, set(on))
        for lane in on:
            thread = self.threads[lane]
            thread.functions.pop()
            thread.frames.pop()
            thread.parameters.pop()
            del thread.local.allocations[kept[lane] :]

    def _barrier(self, item: Instruction, on: set[int]) -> Generator[Barrier, int, None]:
        if item.has("cluster"):
            if item.has("wait"):
                yield "", CLUSTER_BARRIER, {}
            return
        word = Type("u", 32)
        lane = min(on)
        if item.has("red"):
            numbers = item.operands[1:-1]
            flag = item.operands[-1]
            operation = next(each for each in item.modifiers if each in ("popc", "and", "or"))
            flags = {each: bool(self.value(each, flag, Type("pred", 1))) for each in on}
        else:
            numbers, operation = item.operands, ""
            flags = {}
        barrier = self.value(lane, numbers[0], word) if numbers else 0
        answer = yield operation, barrier, flags
        if item.has("red"):
            for each in on:
                self.write(each, item.operands[0], answer)

    def _guard(self, lane: int, item: Instruction) -> bool:
        if item.guard is None:
            return True
        return bool(self.value(lane, item.guard, Type("pred", 1)))

    def _count(self) -> None:
        self.launch.left -= 1
        if self.launch.left < 0:
            raise FaultError("too many instructions")

    def _record(self, item: Instruction, on: set[int], addresses: dict[int, int] | None = None) -> None:
        listed = None if addresses is None else tuple(addresses[lane] for lane in sorted(on))
        self.records.append(Record(item.line, sum(1 << lane for lane in on), listed))
        if item.opcode == "st" and item.has("bulk"):
            self.records += threads.cleared(self, item, sorted(on))

    # -- operands --------------------------------------------------------------------------------------

    def value(self, lane: int, operand: Operand, kind: Type) -> int:
        """The bits of a source operand in the width of `kind`."""
        mask = ones(kind.total_bits)
        if isinstance(operand, Register):
            bits = self.threads[lane].registers.get(operand.name, 0) & mask
            return bits ^ 1 if operand.negated else bits
        if isinstance(operand, Immediate):
            return self._literal(operand, kind) & mask
        if isinstance(operand, Special):
            return self._special(lane, operand.name) & mask
        if isinstance(operand, Symbol):
            return (self.address_of(lane, operand.name) + operand.offset) & mask
        if isinstance(operand, Vector):
            width = kind.total_bits // len(operand.items)
            parts = [self.value(lane, each, Type("b", width)) for each in operand.items]
            return sum(part << width * place for place, part in enumerate(parts))
        raise NotCoveredError(f"operand {operand}")

    @staticmethod
    def _literal(operand: Immediate, kind: Type) -> int:
        """Whole numbers for integers, floats for floats or for plain bits of their size."""
        if isinstance(operand.value, int):
            if kind.is_float:
                raise NotCoveredError("a whole number as a float")
            return operand.value
        if not kind.is_float and (kind.kind != "b" or kind.bits != operand.float_bits):
            raise NotCoveredError("a float as an integer")
        form = {16: F16, 32: F32, 64: F64}[kind.bits]
        return encode(from_float(operand.value), form)

    def _special(self, lane: int, name: str) -> int:
        thread, launch = self.threads[lane], self.launch
        axes = {"tid": thread.index, "ntid": launch.block, "ctaid": self.block.index, "nctaid": launch.grid}
        base, _, axis = name[1:].partition(".")
        if base in axes:
            return axes[base]["xyz".index(axis)]
        if base.startswith("lanemask_"):
            relation = base.split("_")[1]
            compare = {"eq": lambda a: a == lane, "lt": lambda a: a < lane, "le": lambda a: a <= lane}
            compare |= {"gt": lambda a: a > lane, "ge": lambda a: a >= lane}
            return sum(1 << each for each in range(LANES) if compare[relation](each))
        place = [at % size for at, size in zip(self.block.index, launch.cluster, strict=True)]
        if base in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid"):
            number = "xyz".index(axis)
            size = launch.cluster[number]
            return {
                "cluster_ctaid": place[number],
                "cluster_nctaid": size,
                "clusterid": self.block.index[number] // size,
                "nclusterid": launch.grid[number] // size,
            }[base]
        others = {
            "cluster_ctarank": self.block.cluster.index(self.block),
            "cluster_nctarank": len(self.block.cluster),
            "laneid": lane,
            "warpid": self.number,
            "nwarpid": len(self.block.warps),
            "dynamic_smem_size": launch.dynamic_shared_memory_bytes,
        }
        if base not in others:
            raise NotCoveredError(name)
        return others[base]

    def write(self, lane: int, operand: Operand, bits: int) -> None:
        """The low bits of a result into a register, or into several."""
        thread = self.threads[lane]
        if isinstance(operand, Register):
            width = thread.functions[-1].registers[operand.name].total_bits
            thread.registers[operand.name] = bits & ones(width)

    def address_of(self, lane: int, name: str) -> int:
        """A variable's address in its own space."""
        for each in reversed(self.threads[lane].local.allocations):
            if each.name == name:
                return each.start
        for owner in (self.threads[lane].functions[-1].name, ""):
            if (owner, name) in self.launch.shared_offsets:
                return self.launch.shared_offsets[owner, name]
        if name in self.launch.memory.addresses:
            return self.launch.memory.addresses[name]
        if name in self.launch.parameter_offsets:
            return self.launch.parameter_offsets[name]
        raise NotCoveredError(f"address of {name}")

    def place(self, lane: int, operand: Operand, space: str) -> tuple[Space, int]:
        """Where [operand] is."""
        thread = self.threads[lane]
        if not isinstance(operand, Address):
            raise NotCoveredError(f"address {operand}")
        base = operand.base
        if space == "param":
            if isinstance(base, Symbol):
                if base.name in thread.parameters[-1] and (
                    len(thread.frames) > 1 or base.name not in self.launch.parameter_offsets
                ):
                    return thread.parameters[-1][base.name], operand.offset
                return self.launch.parameters, self.launch.parameter_offsets[base.name] + operand.offset
            return self.launch.parameters, self.value(lane, base, Type("u", 64)) + operand.offset
        address = (self.value(lane, base, Type("u", 64)) + operand.offset) % (1 << 64)
        if space == "generic":
            space, address = window_of(address)
        if space == "shared" and address >> SHARED_BITS:
            other = self.block.cluster[(address >> SHARED_BITS) - 1]
            return other.shared, address & ones(SHARED_BITS)
        return {"shared": self.block.shared, "local": thread.local, "global": self.launch.memory}[space], address

    @staticmethod
    def window(space: str) -> int:
        return {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)

    def recorded_local(self, lane: int, offset: int) -> int:
        """Local memory as traces give it: word by word, the lanes of a warp side by side."""
        sizes = [each.size_bytes for each in self.launch.kernel.variables.values() if each.space == "local"]
        warp = self.block.number * len(self.block.warps) + self.number
        return LOCAL_WINDOW + LANES * (warp * up_to(sum(sizes), 16) + offset // 4 * 4) + 4 * lane + offset % 4

    def _execute(self, item: Instruction, on: set[int]) -> dict[int, int] | None:
        """Run an instruction in the given lanes; the addresses it accesses, if any."""
        if item.opcode in collectives.OPERATIONS:
            collectives.OPERATIONS[item.opcode](self, item, sorted(on))
            return None
        if item.opcode == "wgmma":
            warpgroup.multiply(self, item, sorted(on))
            return None
        if item.opcode in ("ldmatrix", "stmatrix"):
            return products.move_matrices(self, item, sorted(on))
        return threads.execute(self, item, sorted(on))
