"""Instructions made of others: products of wmma, arrivals and stores that tell mbarriers, memory from the stack."""

from __future__ import annotations

from dataclasses import replace

from . import wmma
from .program import TYPES, Immediate, Instruction, Operand, Register, Sink, Special, Type

#: Instructions that become several.
MADE_OF_OTHERS = (
    *("wmma.mma.", "cp.async.mbarrier.arrive", "st.async.", "red.async."),
    *("alloca.", "stacksave.", "stackrestore."),
)
#: The register that counts the bytes of a thread's stack, and how many there are.
STACK, STACK_BYTES = "%stack", 16 * 1024


def expanded(item: Instruction, registers: dict[str, Type]) -> list[Instruction] | None:
    """What an instruction becomes; None where its form is not covered. `registers` gets those that are needed."""
    if item.opcode == "wmma":
        return wmma.products(item)
    if item.opcode == "cp":
        return _arrival_after_copies(item)
    return _store_and_tell(item) if item.opcode in ("st", "red") else _on_the_stack(item, registers)


def _arrival_after_copies(item: Instruction) -> list[Instruction]:
    """cp.async.mbarrier.arrive: the lanes' copies, then an arrival, unless it also counts as one more to await."""
    copies = replace(item, modifiers=("async", "wait_all"), operands=())
    if not item.has("noinc"):
        return [copies]
    arrival = replace(item, opcode="mbarrier", modifiers=item.modifiers[2:], operands=(Sink(), *item.operands))
    return [copies, arrival]


def _store_and_tell(item: Instruction) -> list[Instruction] | None:
    """st.async and red.async: the store, then its bytes for the mbarrier that counts them."""
    if len(item.operands) != 3 or not item.types:
        return None
    plain = tuple(each for each in item.modifiers if each != "async" and not each.startswith("mbarrier"))
    count = next((int(each[1:]) for each in item.modifiers if each in ("v2", "v4")), 1)
    told = (item.operands[2], Immediate(count * item.types[-1].bytes))
    store = replace(item, modifiers=plain, operands=item.operands[:2])
    return [
        store,
        replace(item, opcode="mbarrier", modifiers=("complete_tx", "shared::cluster", "b64"), operands=told),
    ]


def _on_the_stack(item: Instruction, registers: dict[str, Type]) -> list[Instruction] | None:
    """alloca takes the next bytes of the thread's stack; a register counts those in use."""
    for name in (STACK, "%allocated"):
        registers[name] = TYPES["b64"]
    used, found = Register(STACK), Register("%allocated")
    if not item.types or item.types[0].bits != 64 or not 1 <= len(item.operands) <= 3:
        return None
    if item.opcode != "alloca":
        operands = (item.operands[0], used) if item.opcode == "stacksave" else (used, item.operands[0])
        return [replace(item, opcode="mov", modifiers=("b64",), operands=operands)]
    target, size, *given = item.operands
    alignment = int(given[0].value) if given and isinstance(given[0], Immediate) else 8
    steps: list[tuple[str, str, tuple[Operand, ...]]] = [
        ("add", "u64", (found, used, Immediate(alignment - 1))),
        ("and", "b64", (found, found, Immediate(-alignment))),
        ("add", "u64", (used, found, size)),
        ("add", "u64", (target, found, Special(STACK))),
    ]
    return [replace(item, opcode=name, modifiers=(kind,), operands=each) for name, kind, each in steps]
