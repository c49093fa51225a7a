"""Messages between a program and `warplens run`: fixed headers over a Unix socket, see `shim/client.h`."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

_REQUEST = struct.Struct("<II7q")
_REPLY = struct.Struct("<iI4q")
#: Bit of a message's number: no answer is awaited.
NO_ANSWER = 1 << 31
#: Longest message: a fat binary.
MOST_BYTES = 1 << 30


class Op(IntEnum):
    """Numbers of messages; `shim/client.h` has the same."""

    HELLO = 1
    ALLOCATE = 2
    FREE = 3
    MODULE = 4
    FUNCTION = 5
    SYMBOL = 6
    LAUNCH = 7
    COPIED = 8
    EVENT_RECORD = 9
    EVENT_WAIT = 10
    EVENT_ELAPSED = 11
    SYNCHRONIZE = 12
    PROPERTIES = 13
    ATTRIBUTES = 14
    OCCUPANCY = 15
    MEMORY_INFO = 16
    REFUSE = 17
    TEXTURE = 18
    LIMIT = 19


class CudaError(IntEnum):
    """Error codes that answers carry."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    INVALID_SYMBOL = 13
    INVALID_FUNCTION = 98
    INVALID_IMAGE = 200
    NO_IMAGE = 209
    INVALID_PTX = 218
    INVALID_HANDLE = 400
    NOT_FOUND = 500
    ILLEGAL_ADDRESS = 700
    OUT_OF_RESOURCES = 701
    TIMEOUT = 702
    ASSERT = 710
    MISALIGNED = 716
    LAUNCH_FAILURE = 719
    COOPERATIVE_TOO_LARGE = 720
    NOT_SUPPORTED = 801


@dataclass(frozen=True)
class Request:
    op: Op
    arguments: tuple[int, ...]
    data: bytes
    answer: bool


@dataclass(frozen=True)
class Answer:
    error: int = 0
    values: tuple[int, ...] = ()
    data: bytes = b""


def receive(connection: socket.socket) -> Request | None:
    """The next request; None when the program has closed the connection, or sends what no program should."""
    header = _exactly(connection, _REQUEST.size)
    if header is None:
        return None
    number, size, *arguments = _REQUEST.unpack(header)
    if size > MOST_BYTES or number & ~NO_ANSWER not in Op.__members__.values():
        return None
    data = _exactly(connection, size) if size else b""
    return None if data is None else Request(Op(number & ~NO_ANSWER), tuple(arguments), data, not number & NO_ANSWER)


def send(connection: socket.socket, answer: Answer, files: tuple[int, ...] = ()) -> None:
    values = (*answer.values, 0, 0, 0, 0)[:4]
    packed = _REPLY.pack(answer.error, len(answer.data), *values)
    if files:
        socket.send_fds(connection, [packed], list(files))
    else:
        connection.sendall(packed + answer.data)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    part = connection.recv(size, socket.MSG_WAITALL)
    if len(part) == size:
        return part
    parts = [part]
    while part and sum(map(len, parts)) < size:
        part = connection.recv(size - sum(map(len, parts)), socket.MSG_WAITALL)
        parts.append(part)
    joined = b"".join(parts)
    return joined if len(joined) == size else None
