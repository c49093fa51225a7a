"""What to do about an instruction that is not supported."""

from __future__ import annotations

from .program import Instruction

_BLACKWELL = "it is for sm_100 and later; compile the kernel for sm_90a"
#: Beginnings of opcodes, or of modifiers after a dot, and what helps.
_REMEDIES = {
    "multimem": "it reduces across GPUs; give the kernel memory of one, and atom or red",
    "tcgen05": _BLACKWELL,
    "clusterlaunchcontrol": _BLACKWELL,
    "redux": _BLACKWELL,
    ".tile::": _BLACKWELL,
    ".im2col::": _BLACKWELL,
    ".kind::": _BLACKWELL,
    ".cp_mask": _BLACKWELL,
    ".m8n16": _BLACKWELL,
    ".m16n16": _BLACKWELL,
    ".m16n8.": _BLACKWELL,
    ".rs.": _BLACKWELL,
    ".m8n8k4.": "it is Volta's; use m16n8k8 or a larger shape",
    ".cube": "read the six faces as a layered texture",
    ".acube": "read the faces as a layered texture",
    "sured": "use atomics on linear memory",
    "bar": "give it no predicate; branch around it instead",
}


def remedy_of(item: Instruction) -> str:
    """A remedy to be added to a message; empty if none is known."""
    name = f"{item.name}."
    for beginning, remedy in _REMEDIES.items():
        found = beginning in name if beginning.startswith(".") else item.opcode.startswith(beginning)
        if found and (item.guard is not None or beginning != "bar"):
            return f"; {remedy}"
    return ""
