"""The only module that names Numba: how kernels are compiled, and where compiled code is kept.

Numba's own cache notices a change only in the file of the function that is
called, not in the functions that it calls. Compiled code therefore lives in a
folder named by a digest of all kernel sources, the versions of what compiles
them and the CPU. Modules of kernels, and of the constants and records that
kernels use, begin with `_` and import only each other: the digest covers all
that a kernel depends on.

Four decorators, by who calls a function and what it does:

- `kernel`: Python calls it; it makes no arrays, which spares the compiler the
  counting of references;
- `allocating_kernel`: Python or kernels call it, and it makes arrays;
- `helper`: only kernels call it; it is compiled once for all of them;
- `inlined`: only kernels call it; LLVM inlines it wherever it is called.

No kernel raises on a division by zero.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from .result_cache import cache_folder, content_hash

#: Folders of compiled code that are kept: this one, and those of other checkouts or environments used last.
MOST_FOLDERS = 16
_PACKAGE = Path(__file__).parent
_COMPILERS = ("numpy", "numba", "llvmlite")
_setting = Lock()


def kernel_sources() -> list[Path]:
    """The modules whose names begin with `_`, and this one."""
    return [*sorted(_PACKAGE.rglob("_[!_]*.py")), Path(__file__)]


@cache
def folder() -> Path | None:
    """Where compiled code is kept (below `$NUMBA_CACHE_DIR` if that is set); None where nothing can be written."""
    from llvmlite.binding import get_host_cpu_name

    built_by = [platform.python_version(), *(version(name) for name in _COMPILERS), get_host_cpu_name()]
    built_by.append(os.environ.get("NUMBA_BOUNDSCHECK", ""))  # code with checks is other code
    sources = (part for path in kernel_sources() for part in (path.name, path.read_bytes()))
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder() / "compiled")
    found = base / f"warplens-{content_hash([*built_by, *sources])[:32]}"
    try:
        found.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=found).close()
        os.utime(found)  # used just now
    except OSError:
        return None
    _remove_old(base)
    return found


def _remove_old(base: Path) -> None:
    """Leave the folders that were used last."""
    used = []
    for path in base.glob("warplens-*"):
        with suppress(OSError):  # another process may have removed it
            used.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(used, reverse=True)[MOST_FOLDERS:]:
        shutil.rmtree(path, ignore_errors=True)


def _compiled(*, kept: bool, **options: Any) -> Callable[[Any], Any]:
    """A decorator; `kept` says whether compiled code goes to disk."""

    def decorate(function: Any) -> Any:
        from numba import config, njit

        place = folder() if kept and not config.DISABLE_JIT else None
        with _setting:  # Numba reads the setting when it decorates
            before, config.CACHE_DIR = config.CACHE_DIR, str(place or "")
            try:
                made = njit(nogil=True, error_model="numpy", cache=place is not None, **options)(function)
            finally:
                config.CACHE_DIR = before
        return made if place is None else _with_tolerant_cache(made)

    return decorate


def _with_tolerant_cache(dispatcher: Any) -> Any:
    """Damaged files of compiled code count as none: Numba passes on whatever their bytes make `pickle` raise.

    Nor does a full disk keep a kernel from running.
    """
    files = dispatcher._cache._cache_file
    load_index, load_data, save = files._load_index, files._load_data, files.save

    def index() -> Any:
        try:
            return load_index()
        except Exception:
            return {}

    def data(name: str) -> Any:
        try:
            return load_data(name)
        except Exception as error:
            raise OSError(f"{name}: damaged") from error

    def kept(key: Any, compiled: Any) -> None:
        with suppress(OSError):
            save(key, compiled)

    files._load_index, files._load_data, files.save = index, data, kept
    return dispatcher


_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

kernel = _compiled(kept=True, _nrt=False)
allocating_kernel = _compiled(kept=True)
helper = _compiled(kept=True, _nrt=False, **_NO_WRAPPERS)
inlined = _compiled(kept=False, _nrt=False, forceinline=True, **_NO_WRAPPERS)
