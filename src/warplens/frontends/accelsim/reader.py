"""Kernel traces of Accel-Sim, read as a stream: groups of thread blocks, with memory bounded by a block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ...errors import TraceError
from ...traces import LaunchHeader, StaticTable, WarpGroup
from ...traces.block_set import BlockSet
from ..sass_opcodes import decode_opcode
from ._parser_state import (
    FAILED,
    GROUP_END,
    NEEDS_ROOM,
    NEEDS_STATIC_ROOM,
    NOTE,
    OUTSIDE,
    STATE,
    InstructionColumns,
    Parser,
    TraceFormat,
    WarpColumns,
)
from .header import HeaderParser, KernelHeader
from .messages import explain
from .static_keys import StaticKeys
from .text_source import TextSource

#: Called with the bytes read so far and the size of the file.
Progress = Callable[[int, int], None]

#: A group ends with the block that reaches either limit.
GROUP_INSTRUCTIONS = 1 << 19
GROUP_LANES = 1 << 22
_LINE_LIMIT = 1 << 16
_HEADER_LIMIT = 1 << 20
_UNKNOWN_SHOWN = 20
#: Fields of the parser's state with the used length of each column.
_USED = ("warps", "instructions", "accesses", "lanes")
#: Last line of a partial trace, as the writer writes it.
PARTIAL_NOTE = "#warplens: {blocks} of the blocks are recorded"
_PARTIAL = re.compile(PARTIAL_NOTE.format(blocks=r"(\d{1,18})").encode())


class KernelReader:
    """One kernel trace. Iterate over `groups` once; the statistics are complete after that."""

    def __init__(
        self,
        path: str | Path,
        *,
        progress: Progress | None = None,
        group_instructions: int = GROUP_INSTRUCTIONS,
        group_lanes: int = GROUP_LANES,
    ) -> None:
        self.path = Path(path)
        self._progress = progress
        self._source = TextSource(self.path)
        try:
            self.header, self._rest, line = self._read_header()
        except BaseException:
            self._source.close()
            raise
        self._state = np.zeros(1, dtype=STATE)[0]
        self._state["line"] = line
        self._format = TraceFormat(
            version=self.header.tracer_version,
            lineinfo=self.header.lineinfo,
            grid=self.header.grid,
            threads=prod(self.header.block),
            group_instructions=group_instructions,
            group_lanes=group_lanes,
        )
        self._statics = StaticKeys(self.path, self.header.tracer_version, self.header.lineinfo)
        self._warps = WarpColumns(*(np.zeros(1 << 8, dtype=np.int64) for _ in WarpColumns._fields))
        rows = InstructionColumns(static=1 << 12, mask=1 << 12, base=1 << 10, stride=1 << 10, lanes=1 << 10)
        self._columns = InstructionColumns(*(np.zeros(count, dtype=np.int64) for count in rows))
        self._seen = BlockSet()
        self._blocks_before = 0
        self._promised_blocks = prod(self.header.grid)
        self._noted_blocks: int | None = None
        self._counts = np.zeros(0, dtype=np.int64)
        #: Bytes of text so far.
        self.text_bytes = 0

    def __enter__(self) -> KernelReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()

    # -- header --------------------------------------------------------------------

    def _read_header(self) -> tuple[KernelHeader, bytes, int]:
        """The header, the text after it, and the number of its last line."""
        parser = HeaderParser(self.path)
        text, at, number = b"", 0, 0
        while True:
            end = text.find(b"\n", at)
            if end < 0:
                if len(text) > _HEADER_LIMIT:
                    raise TraceError(f"{self.path}:{number + 1}: no header ends here; is this a kernel trace?")
                more = self._source.read()
                if not more:
                    raise TraceError(
                        f"{self.path}:{number + 1}: the file ends inside the header; trace or copy the kernel again"
                    )
                text, at = text[at:] + more, 0
                continue
            line = text[at:end].strip()
            number += 1
            if line.startswith(b"#"):
                if line.split()[0] == b"#BEGIN_TB":
                    return parser.finish(number), text[at:], number - 1
                return parser.finish(number), text[end + 1 :], number
            if line:
                parser.add(line, number)
            at = end + 1

    # -- body ----------------------------------------------------------------------

    def groups(self) -> Iterator[WarpGroup]:
        """Groups of whole thread blocks, in the order of the file."""
        text, self._rest = self._rest, b""
        while True:
            stop = text.rfind(b"\n") + 1
            yield from self._parse(text, stop)
            self.text_bytes += stop
            left = text[stop:]
            if len(left) > _LINE_LIMIT:
                raise self._error(f"a line of more than {_LINE_LIMIT} characters; the trace is damaged", 1)
            piece = self._source.read()
            if self._progress is not None:
                self._progress(self._source.done, self._source.size)
            if not piece:
                break
            text = left + piece
        if left.strip():
            if self._state["place"] != OUTSIDE and left.strip() != b"#END_TB":
                raise self._error("the file ends inside a line; trace or copy the kernel again", 1)
            yield from self._parse(left + b"\n", len(left) + 1)
        if self._state["place"] != OUTSIDE:
            raise self._error("the file ends inside a thread block; trace or copy the kernel again")
        last = self._take_group() if self._state["warps"] else None
        self._check_complete()
        if last is not None:
            yield last

    def _parse(self, text: bytes, stop: int) -> Iterator[WarpGroup]:
        from ._parser_kernels import parse

        buffer = np.frombuffer(text, dtype=np.uint8)
        at = 0
        state = self._state
        while at < stop:
            parser = Parser(state, self._format, self._warps, self._columns, self._statics.keys)
            status, at = parse(buffer, at, stop, parser)
            self._statics.decode(int(state["keys"]))
            if status == FAILED:
                line = text[at : text.find(b"\n", at)]
                raise self._error(explain(state, self.header.tracer_version, line))
            if status == GROUP_END:
                yield self._take_group()
            elif status == NEEDS_ROOM:
                self._grow()
            elif status == NEEDS_STATIC_ROOM:
                self._statics.grow(int(state["keys"]), int(state["key_bytes"]))
            elif status == NOTE:
                start = int(state["detail"])
                found = _PARTIAL.fullmatch(text[start : text.find(b"\n", start)].strip())
                self._noted_blocks = int(found[1]) if found else self._noted_blocks

    def _grow(self) -> None:
        """Enlarge the columns that are nearly full."""
        warps, instructions, accesses, lanes = (int(self._state[name]) for name in _USED)
        self._warps = WarpColumns(*(_larger(each, warps) for each in self._warps))
        used = InstructionColumns(static=instructions, mask=instructions, base=accesses, stride=accesses, lanes=lanes)
        self._columns = InstructionColumns(*map(_larger, self._columns, used))

    def _take_group(self) -> WarpGroup:
        warps, instructions, accesses, lanes = (int(self._state[name]) for name in _USED)
        each, columns = self._warps, self._columns
        self._check_blocks(each.block[:warps], each.warp[:warps], each.line[:warps])
        rows = self._statics.rows_of(columns.static[:instructions])
        counts = np.bincount(rows, minlength=len(self._statics.rows))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        group = WarpGroup(
            block=each.block[:warps].copy(),
            warp=each.warp[:warps].astype(np.int32),
            start=np.append(each.start[:warps], instructions),
            static=rows,
            mask=columns.mask[:instructions].astype(np.uint32),
            access_start=np.append(each.access_start[:warps], accesses),
            base=columns.base[:accesses].copy().view(np.uint64),
            stride=columns.stride[:accesses].copy(),
            lane_start=np.append(each.lane_start[:warps], lanes),
            lanes=columns.lanes[:lanes].copy().view(np.uint64),
        )
        for name in _USED:
            self._state[name] = 0
        return group

    # -- checks --------------------------------------------------------------------

    def _error(self, text: str, lines_on: int = 0) -> TraceError:
        return TraceError(f"{self.path}:{int(self._state['line']) + lines_on}: {text}")

    def _check_blocks(self, block: Any, warp: Any, line: Any) -> None:
        """Check that no block, and no warp of a block, occurs twice."""
        begins = np.append(True, block[1:] != block[:-1])
        first = np.flatnonzero(begins)
        for row in first.tolist():
            if not self._seen.add(int(block[row])):
                raise TraceError(
                    f"{self.path}:{line[row]}: thread block {self._name(int(block[row]))} occurs twice; "
                    "trace or copy the kernel again"
                )
        ended = int(self._state["blocks"])
        if len(first) != ended - self._blocks_before:
            raise self._error("a thread block occurs twice in a row; trace or copy the kernel again")
        self._blocks_before = ended
        order = np.lexsort((warp, np.cumsum(begins)))
        again = (warp[order][1:] == warp[order][:-1]) & (block[order][1:] == block[order][:-1])
        if again.any():
            row = int(order[1:][again][0])
            raise TraceError(
                f"{self.path}:{line[row]}: warp {warp[row]} of thread block {self._name(int(block[row]))} "
                "occurs twice; trace or copy the kernel again"
            )

    def _check_complete(self) -> None:
        ended = int(self._state["blocks"])
        wanted = self._promised_blocks if self._noted_blocks is None else self._noted_blocks
        if ended != wanted:
            raise self._error(
                f"the file has {ended} thread blocks and should have {wanted}; trace or copy the kernel again"
            )

    def _name(self, block: int) -> str:
        x, y = self.header.grid[0], self.header.grid[1]
        return f"{block % x},{block // x % y},{block // (x * y)}"

    # -- after the last group ------------------------------------------------------

    def static_table(self) -> StaticTable:
        return self._statics.table()

    def launch_header(self, launch_index: int = 0, extra: Mapping[str, Any] | None = None) -> LaunchHeader:
        """The launch's header with the share of instructions whose opcode is known."""
        found: dict[str, Any] = dict(extra or {})
        unknown: dict[str, int] = {}
        for row, count in zip(self._statics.rows, self._counts.tolist(), strict=False):
            if not decode_opcode(row.opcode).known:
                unknown[row.opcode] = unknown.get(row.opcode, 0) + count
        total = int(self._counts.sum())
        found["opcode_coverage"] = 1.0 - sum(unknown.values()) / total if total else 1.0
        if unknown:
            most = sorted(unknown.items(), key=lambda item: (-item[1], item[0]))[:_UNKNOWN_SHOWN]
            found["unknown_opcodes"] = dict(most)
        widths = {
            str(index): width
            for index, (row, width) in enumerate(zip(self._statics.rows, self._statics.widths, strict=True))
            if width != row.access_bytes
        }
        if widths:
            found["memory_widths"] = widths
        if self._noted_blocks is not None:
            found["recorded_blocks"] = self._noted_blocks
        return self.header.launch_header(launch_index, found)


def _larger(column: Any, used: int) -> Any:
    """The column, doubled in length if it is nearly full."""
    if len(column) - used > 32:
        return column
    grown = np.zeros(2 * len(column), dtype=column.dtype)
    grown[:used] = column[:used]
    return grown
