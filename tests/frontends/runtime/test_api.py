"""Programs that use the runtime API get from the stand-in what CUDA would give them."""

import pytest

from warplens.frontends.runtime import Recording

from .listening import run

PARTS = (
    "memory",
    "pitched",
    "mapped",
    "symbols",
    "streams",
    "launches",
    "queries",
    "graphs",
    "printing",
    "textures",
    "tensor_maps",
    "grids",
    "threads",
    "children",
    "errors",
)


def test_each_part_of_the_api_gives_what_a_gpu_gives(api_program, stand_in):
    text, code, notes = run([api_program, "children", *(each for each in PARTS if each != "children")], stand_in)
    assert text.count(": good\n") == len(PARTS) and code == 0, text
    assert text.count("block 1 says 2 and 1.0\n") == 1
    assert len(notes.failures) == 1 and "out of bounds" in notes.failures[0]


def test_accesses_are_checked_to_the_byte_where_that_is_asked_for(api_program, stand_in):
    text, _, notes = run([api_program, "memory", "errors"], stand_in, exact=True)
    assert text.count(": good\n") == 2, text
    assert "15360 bytes after the end of device memory of 1024 bytes" in notes.failures[0]


def test_launches_are_told_with_their_shape(api_program, stand_in):
    _, _, notes = run([api_program, "launches"], stand_in)
    first = notes.launches[0]
    assert first.readable == "reverse(int*)" and first.block == (256, 1, 1) and first.shared_memory_bytes == 1024
    assert [each.grid for each in notes.launches] == [(1, 1, 1), (2, 1, 1), (2, 1, 1), (2, 1, 1), (1, 1, 1)]
    assert notes.launches[-1].readable == "void scale<double>(double*, double)"
    assert (1, 1024) in notes.copies and (2, 1024) in notes.copies and (4, 256) in notes.copies


@pytest.mark.parametrize(("recording", "blocks"), [(Recording(), 4), (Recording(max_blocks=2), 2)])
def test_recorded_blocks_are_as_asked_for(api_program, stand_in, recording, blocks):
    _, _, notes = run([api_program, "memory"], stand_in, recording)
    (execution,) = notes.executions
    assert execution.blocks == blocks and execution.header.extra["readable_name"] == "add(int*, int, int)"
    found = sorted({int(block) for group in execution.groups for block in group.block})
    assert found == ([0, 1, 2, 3] if blocks == 4 else [1, 2])


def test_of_equal_launches_some_stand_for_the_others(api_program, stand_in):
    _, _, notes = run([api_program, "threads"], stand_in, Recording())
    assert len(notes.launches) == 20 and len(notes.executions) == 5  # the 1st, 2nd, 4th, 8th and 16th
