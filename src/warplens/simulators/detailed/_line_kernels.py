"""Lines of the simulated L1 caches and of the LLC: sets are slots in a row, replaced least recently used first."""

from __future__ import annotations

from ...jit import inlined


@inlined
def find_line(lines, row, ways, line):
    """Slot of a line in its set, or -1."""
    for slot in range(row, row + ways):
        if lines[slot].tag == line:
            return slot
    return -1


@inlined
def oldest_line(lines, row, ways):
    """Slot of the least recently used line of a set that does not wait for data, or -1."""
    place = -1
    for slot in range(row, row + ways):
        if not lines[slot].reserved and (place < 0 or lines[slot].used < lines[place].used):
            place = slot
    return place


@inlined
def use_line(entry, chip):
    """Now the most recently used line."""
    chip.uses += 1
    entry.used = chip.uses


@inlined
def put_line(line, entry):
    """A line takes the place of one that has left."""
    entry.tag = line
    entry.valid = 0
    entry.written = 0
