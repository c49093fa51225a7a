"""Sizes in the table of a `.wlt` file are not believed."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_trace_store import made_launch

from warplens.errors import TraceError
from warplens.traces import TraceWriter, read_trace


def test_no_room_is_made_for_an_entry_that_is_longer_than_the_file(tmp_path: Path) -> None:
    path, launch = tmp_path / "a.wlt", made_launch()
    with TraceWriter(path) as writer:
        writer.write(launch.held[0])
        writer.end_launch(launch.header, launch.static)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\1\2")
    content[entry + 20 : entry + 28] = (2**31 - 1).to_bytes(4, "little") * 2  # sizes in the file's table
    path.write_bytes(content)
    with pytest.raises(TraceError, match="an entry is longer than the file"):
        read_trace(path)
