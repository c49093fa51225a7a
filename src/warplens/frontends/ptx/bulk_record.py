"""Bulk copies in a warp's record: after the copy itself, one access per 32 sectors that it moves."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from ...traces._codes import IRREGULAR
from .codegen.layout import Context, Frame

#: Bytes that each lane of such an access has: a sector.
SECTOR_BYTES = 32
#: The same where shared memory is cleared: a lane of the widest store has as many.
PIECE_BYTES = 16
_LANES = 32
#: Boxes whose words are kept: blocks copy those of their row or column again.
_MOST_KNOWN = 1 << 12


class BulkRecord:
    """Appends to records that generated code writes too.

    `segments` are the numbers of the segments that stand for the accesses of each
    copy; `slack_words` is the room that generated code may count on at any time;
    `context` says how many words all records may still take.
    """

    def __init__(self, segments: Mapping[int, int], slack_words: int, context: NDArray[np.int64]) -> None:
        self.segments, self.slack_words, self.context = segments, slack_words, context
        self.known: dict[Hashable, NDArray[np.int64]] = {}
        library = ctypes.CDLL(None) if os.name != "nt" else ctypes.cdll.msvcrt
        self.realloc = library.realloc
        self.realloc.argtypes, self.realloc.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p

    def add(
        self,
        frame_address: int,
        instruction: int,
        starts: NDArray[np.int64],
        size: int,
        box: Hashable = None,
        piece: int = SECTOR_BYTES,
    ) -> None:
        """Record accesses to `size` bytes at each of the addresses, if there is a frame to record them in.

        The addresses of a `box` are always the same.
        """
        if not frame_address or instruction not in self.segments or not size or not len(starts):
            return
        words = None if box is None else self.known.get((instruction, box))
        if words is None:
            words = self._all_words(self.segments[instruction], self._pieces(starts, size, piece))
            if box is not None and len(self.known) < _MOST_KNOWN:
                self.known[instruction, box] = words
        self._append(frame_address, words)

    @staticmethod
    def _pieces(starts: NDArray[np.int64], size: int, piece: int) -> NDArray[np.int64]:
        first, last = starts // piece, (starts + size - 1) // piece
        most = int((last - first).max()) + 1
        pieces = first[:, None] + np.arange(most)
        return pieces[pieces <= last[:, None]] * piece

    def _all_words(self, segment: int, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """One access after the other. Those of boxes are alike: written at once, they take a tenth of the time."""
        whole = len(addresses) // _LANES * _LANES
        accesses = addresses[:whole].reshape(-1, _LANES)
        steps = np.diff(accesses, axis=1)
        if whole and not (steps == steps[:, :1]).all(axis=1).any():
            words = np.empty((len(accesses), 3 + _LANES), dtype=np.int64)
            words[:, :3] = segment << 32 | ((1 << _LANES) - 1), 0, IRREGULAR
            words[:, 3:] = accesses
            found, rest = [words.reshape(-1)], addresses[whole:]
        else:
            found, rest = [], addresses
        found += [self._words(segment, rest[at : at + _LANES]) for at in range(0, len(rest), _LANES)]
        return np.concatenate(found)

    @staticmethod
    def _words(segment: int, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        head = segment << 32 | ((1 << len(addresses)) - 1)
        steps = np.diff(addresses)
        if len(steps) == 0 or (steps == steps[0]).all():
            return np.array([head, addresses[0], steps[0] if len(steps) else 0], dtype=np.int64)
        return np.concatenate([np.array([head, 0, IRREGULAR], dtype=np.int64), addresses])

    def _append(self, frame_address: int, words: NDArray[np.int64]) -> None:
        frame = ctypes.cast(frame_address, ctypes.POINTER(ctypes.c_int64))
        length = frame[Frame.RECORD_LENGTH]
        needed = length + len(words) + self.slack_words
        if needed > frame[Frame.RECORD_ROOM]:
            more = 2 * needed - frame[Frame.RECORD_ROOM]
            fits = more <= self.context[Context.ROOM_LEFT]
            moved = self.realloc(frame[Frame.RECORD] or None, 16 * needed) if fits else None
            if not moved:
                raise MemoryError("there is no room for its record")
            self.context[Context.ROOM_LEFT] -= more
            frame[Frame.RECORD] = moved
            frame[Frame.RECORD_ROOM] = 2 * needed
        ctypes.memmove(frame[Frame.RECORD] + 8 * length, words.ctypes.data, words.nbytes)
        frame[Frame.RECORD_LENGTH] = length + len(words)
