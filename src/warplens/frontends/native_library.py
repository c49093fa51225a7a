"""Native libraries that programs preload: built once from sources of the package, kept in the cache folder."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import MissingPackageError
from ..result_cache import cache_folder


def built_once(
    what: str, place: tuple[str, str], sources: Mapping[str, bytes], library: str, build: Callable[[Path], None]
) -> Path:
    """The folder with the library, from the cache or built now.

    `place` is the kind of the library and the hash of all it depends on. `build`
    gets a folder with the sources and leaves what is to be kept in its folder `out`.
    """
    kept = cache_folder().joinpath(*place)
    if " " in str(kept) or ":" in str(kept):
        raise MissingPackageError(
            f"{kept}: libraries below folders with a space or colon in their name cannot be preloaded; "
            "set WARPLENS_CACHE_DIR to another folder"
        )
    if (kept / library).is_file():
        return kept
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=kept.parent) as name:
            folder = Path(name)
            for source, content in sources.items():
                (folder / source).write_bytes(content)
            (folder / "out").mkdir()
            build(folder)
            try:
                (folder / "out").rename(kept)
            except OSError:
                if not (kept / library).is_file():  # unless another process was faster
                    raise
    except OSError as error:
        raise MissingPackageError(
            f"{kept}: {what} cannot be kept there ({error.strerror or error}); "
            "set WARPLENS_CACHE_DIR to a folder that can be written"
        ) from None
    return kept


def call_compiler(what: str, command: list[str], folder: Path) -> None:
    """Run a compiler in a folder; the error has its words."""
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        words = " ".join((ran.stderr or ran.stdout).split())[:600]
        raise MissingPackageError(f"{what} cannot be built: {Path(command[0]).name} says: {words}")
