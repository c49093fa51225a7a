"""One schema for headers of traces, for the reader and the writer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from warplens.errors import TraceError
from warplens.traces import LaunchHeader, TraceWriter, read_trace, static_table
from warplens.traces.headers import header_of_json, json_of_header

HEADER = LaunchHeader("k", (4, 2, 1), (64, 1, 1), 32, 1024, 3, "ptx", ("predicates",), {"recorded_blocks": 2})
WRONG: list[dict[str, Any]] = [
    {"kernel": 7}, {"kernel": None}, {"grid": [4, 2]}, {"grid": "421"}, {"grid": [4, 2, 0]},
    {"grid": [1 << 62, 1, 1]},
    {"grid": [1 << 30, 1 << 30, 1]}, {"grid": ["4", 2, 1]}, {"grid": [4.0, 2, 1]}, {"grid": [True, 1, 1]},
    {"block": [1 << 20, 1, 1]}, {"block": {}}, {"registers_per_thread": "32"}, {"registers_per_thread": -1},
    {"shared_memory_per_block_bytes": 1 << 64}, {"shared_memory_per_block_bytes": 0.5}, {"launch_index": None},
    {"launch_index": [1]}, {"origin": []}, {"missing": "predicates"}, {"missing": [1]}, {"extra": []}, {"more": 1},
    {"extra": {"recorded_blocks": 9}}, {"extra": {"recorded_blocks": "2"}}, {"extra": {"opcode_coverage": 2}},
    {"extra": {"opcode_coverage": "all"}}, {"extra": {"source_text": 5}}, {"extra": {"registers_estimated": 1}},
    {"extra": {"unknown_opcodes": []}}, {"extra": {"header": "x"}}, {"extra": {"note": float("inf")}},
]  # fmt: skip


def test_a_header_comes_back_as_it_was() -> None:
    assert header_of_json(json_of_header(HEADER).encode()) == HEADER


def values(**changed: Any) -> dict[str, Any]:
    return {**json.loads(json_of_header(HEADER)), **changed}


@pytest.mark.parametrize("changed", WRONG, ids=str)
def test_wrong_values_are_refused_in_words(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(the|each of the|\w+ (dimensions )?must|\d+ blocks)"):
        header_of_json(json.dumps(values(**changed)).encode())


@pytest.mark.parametrize("text", ["[]", "7", "{}", '{"kernel": "k"}', '{"kernel": NaN}', '{"kernel": 1e999}'])
def test_no_header_at_all(text: str) -> None:
    with pytest.raises(ValueError, match="the header"):
        header_of_json(text.encode())


def test_reader_and_writer_name_the_launch(tmp_path: Path) -> None:
    path = tmp_path / "k.wlt"
    refused = pytest.raises(TraceError, match="launch 0 cannot be written: registers_per_thread must be")
    with refused, TraceWriter(path) as writer:
        writer.end_launch(replace(HEADER, registers_per_thread=-1), static_table([]))
    with TraceWriter(path) as writer:
        writer.end_launch(HEADER, static_table([]))
    assert read_trace(path)[0].header == HEADER
    with ZipFile(path) as sound:
        parts = {name: sound.read(name) for name in sound.namelist()}
    parts["0/launch.json"] = json.dumps(values(grid=[1 << 62, 1, 1])).encode()
    with ZipFile(path, "w") as other:
        for name, content in parts.items():
            other.writestr(name, content)
    with pytest.raises(
        TraceError,
        match=r"k\.wlt: .*launch 0 has no valid header: each of the grid dimensions must be a whole number",
    ):
        read_trace(path)
