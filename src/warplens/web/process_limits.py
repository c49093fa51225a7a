"""Limits of the sandboxed process: memory, CPU time, file sizes, and which files it can reach.

Landlock (Linux 5.13 and newer) blocks TCP and every file outside a few
folders. Without Landlock the other limits still hold; nothing that a visitor
writes names a file, and the code that runs is checked PTX.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
#: Rights over files by version of the interface: 13, then linking, truncating, and controlling devices.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1
_BIND_TCP, _CONNECT_TCP = 1, 2


def limit_resources(*, memory_bytes: int, cpu_seconds: int, file_bytes: int) -> None:
    """Limit address space, CPU time and the size of written files; no core dumps."""
    import resource

    for what, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        hard = resource.getrlimit(what)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # The hard limit of CPU time kills without a word, so the soft one, whose signal says why, comes first.
        most = least + 2 if what == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else least
        with suppress(ValueError):  # macOS does not limit address space
            resource.setrlimit(what, (least, most))


def restrict_access(readable: Iterable[Path | str], writable: Iterable[Path | str]) -> bool:
    """Give this process access to some folders only, and block TCP. Returns False if the kernel cannot do that."""
    if sys.platform != "linux":
        return False
    try:
        library = ctypes.CDLL(None, use_errno=True)
        version = library.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    except (AttributeError, OSError):
        return False
    if version < 1:
        return False
    rights = _RIGHTS.get(version, _ALL_RIGHTS)
    network = _BIND_TCP | _CONNECT_TCP if version >= 4 else 0
    attributes = struct.pack("QQ", rights, network)[: 16 if version >= 4 else 8]
    rules = library.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            _allow(library, rules, path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in writable:
            _allow(library, rules, path, rights)
        if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            return False
        return bool(library.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(library: ctypes.CDLL, rules: int, path: Path | str, rights: int) -> None:
    with suppress(OSError):  # what does not exist needs no rule
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not Path(path).is_dir():
                rights &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
            rule = struct.pack("=Qi", rights, place)
            library.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0)
        finally:
            os.close(place)
