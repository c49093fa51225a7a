"""`kernelslist.g`: the copies and kernels of a program, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...errors import TraceError

_SUFFIXES = (".traceg", ".traceg.xz", ".traceg.gz")
_COPY = re.compile(r"MemcpyHtoD\s*,\s*(?:0[xX])?([0-9a-fA-F]{1,16})\s*,\s*(\d{1,18})", re.ASCII)
_LINE_LIMIT = 4096


@dataclass(frozen=True)
class ListedKernel:
    """A kernel trace, and the copies (address, bytes) to the device since the previous kernel."""

    path: Path
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class KernelList:
    """The content of a list; `copies_after` follow the last kernel."""

    kernels: tuple[ListedKernel, ...]
    copies_after: tuple[tuple[int, int], ...] = ()


def is_kernel_trace(path: str | Path) -> bool:
    """Whether a path names a kernel trace rather than a list."""
    return str(path).endswith(_SUFFIXES)


def read_list(path: str | Path) -> KernelList:
    """The commands of a list. Kernel files must lie beside it."""
    path = Path(path)
    kernels: list[ListedKernel] = []
    copies: list[tuple[int, int]] = []
    for number, line in enumerate(_lines(path), 1):
        if not line:
            continue
        where = f"{path}:{number}"
        copy = _COPY.fullmatch(line)
        if copy is not None:
            copies.append((int(copy[1], 16), int(copy[2])))
        elif is_kernel_trace(line) and PurePosixPath(line).name.startswith("kernel"):
            name = PurePosixPath(line)
            if name.is_absolute() or ".." in name.parts or "\\" in line or ":" in line:
                raise TraceError(f"{where}: {_short(line)} is not beside the list; name files in its own folder only")
            kernels.append(ListedKernel(path.parent / name, tuple(copies)))
            copies = []
        else:
            raise TraceError(
                f"{where}: {_short(line)} is not a command; expected 'MemcpyHtoD,0xADDRESS,BYTES' or a file "
                "kernel*.traceg, .traceg.xz or .traceg.gz"
            )
    if not kernels:
        raise TraceError(f"{path}: lists no kernel; is this a kernelslist.g?")
    return KernelList(tuple(kernels), tuple(copies))


def write_list(path: Path, entries: Iterable[str | tuple[int, int]]) -> None:
    """File names and copies, one a line."""
    lines = (each if isinstance(each, str) else f"MemcpyHtoD,0x{each[0]:016x},{each[1]}" for each in entries)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _lines(path: Path) -> Iterable[str]:
    try:
        with path.open("rb") as file:
            while raw := file.readline(_LINE_LIMIT):
                line = raw.decode("utf-8").strip()
                if len(raw) == _LINE_LIMIT or not line.isprintable():
                    raise TraceError(f"{path}: is not a list of kernels; expected kernelslist.g or a kernel trace")
                yield line
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not text; expected kernelslist.g or a kernel trace") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None


def _short(line: str) -> str:
    return repr(line if len(line) <= 70 else line[:67] + "...")
