"""Compiled code is never stale: it is kept under a digest of all that it is made from."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warplens
from warplens import jit

PACKAGE = Path(warplens.__file__).parent
#: Prints what a kernel counts with a function of another module: lines that the bytes of two full warps may touch.
COUNT = """
import numpy as np, warplens
from warplens.analysis._coalesce_kernels import LOAD, count_events
start, static, mask = np.array([0, 1, 2]), np.zeros(2, np.int64), np.full(2, 0xFFFFFFFF, np.uint32)
events, lines = count_events(start, static, np.full(1, LOAD, np.uint8), np.ones(1, np.int64), mask, 128)
print(warplens.__file__, lines)
"""
LEAF = "warplens/traces/_bit_kernels.py"


def counted(root: Path, kept: Path, before: str = "", **setting: str) -> int:
    """What the kernel counts in the package below a folder, with settings of the environment and code before."""
    environment = os.environ | {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(kept), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= setting
    made = subprocess.run(
        [sys.executable, "-c", before + COUNT], env=environment, check=True, capture_output=True, text=True
    )
    used, found = made.stdout.split()
    assert Path(used).is_relative_to(root)
    return int(found)


def spoil(root: Path) -> None:
    """Let the leaf count no bits; its size and its time of change stay the same."""
    leaf = root / LEAF
    before = leaf.stat()
    leaf.write_text(leaf.read_text(encoding="utf-8").replace("& 0xFF\n", "& 0x00\n"), encoding="utf-8")
    os.utime(leaf, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert leaf.stat().st_size == before.st_size


def test_a_change_in_a_leaf_reaches_the_kernels_that_call_it(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "warplens", ignore=shutil.ignore_patterns("__pycache__", "data", "static"))
    kept = tmp_path / "kept"
    assert counted(tmp_path, kept) == counted(tmp_path, kept) == 64
    assert len(list(kept.iterdir())) == 1
    spoil(tmp_path)
    assert counted(tmp_path, kept) == 0
    assert len(list(kept.iterdir())) == 2


def test_kernels_run_as_plain_python_for_debugging(tmp_path):
    assert counted(PACKAGE.parent, tmp_path / "kept", NUMBA_DISABLE_JIT="1") == 64
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_an_upgraded_wheel_compiles_anew(tmp_path):
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "studies", "docs", "tests", "out", "site")
    shutil.copytree(PACKAGE.parents[1], source, ignore=ignored)
    counts = []
    for _ in range(2):
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--upgrade"]
        command += ["--disable-pip-version-check", "--target", str(tmp_path / "installed"), str(source)]
        subprocess.run(command, check=True)
        counts.append(counted(tmp_path / "installed", tmp_path / "kept"))
        spoil(source / "src")
    assert counts == [64, 0]


def test_old_folders_go(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "MOST_FOLDERS", 3)
    for age in range(5):
        old = tmp_path / f"warplens-{age}"
        old.mkdir()
        os.utime(old, (age, age))
    (tmp_path / "another").mkdir()
    jit.folder.cache_clear()
    try:
        found = jit.folder()
    finally:
        jit.folder.cache_clear()
    assert {path.name for path in tmp_path.iterdir()} == {"another", "warplens-3", "warplens-4", found.name}


def test_a_folder_that_cannot_be_written_costs_time_alone(tmp_path):
    (tmp_path / "file").touch()
    assert counted(PACKAGE.parent, tmp_path / "file") == 64
    assert (tmp_path / "file").is_file()


def test_a_full_disk_costs_time_alone(tmp_path):
    pytest.importorskip("resource", reason="limits of files are POSIX")
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))"
    assert counted(PACKAGE.parent, tmp_path, small) == 64


def test_damaged_files_of_compiled_code_are_made_again(tmp_path):
    assert counted(PACKAGE.parent, tmp_path) == 64
    for suffix, content in ((".nbi", b""), (".nbc", b"damaged")):
        files = list(tmp_path.rglob(f"*{suffix}"))
        assert files
        for path in files:
            path.write_bytes(content)
        assert counted(PACKAGE.parent, tmp_path) == 64


def modules() -> dict[str, Path]:
    """The modules that the digest covers, by their names."""
    paths = [path for path in jit.kernel_sources() if path.name != "jit.py"]
    return {module_name(path): path for path in paths}


def module_name(path: Path) -> str:
    return ".".join(["warplens", *path.relative_to(PACKAGE).with_suffix("").parts])


def imported(name: str, path: Path) -> set[str]:
    """The modules that a module imports, anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = name.rsplit(".", node.level)[0] + "." if node.level else ""
            found.add(base + (node.module or ""))
    return found


def test_numba_is_named_in_one_module():
    naming = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] in ("numba", "llvmlite") for name in imported("warplens.x", path))
    }
    generators = {name for name in naming if name.startswith("frontends/ptx/")}  # these write LLVM code themselves
    assert naming - generators == {"jit.py", "frontends/cuda/python.py"}  # the other reads users' Numba kernels


@pytest.mark.parametrize("name", sorted(modules()))
def test_kernels_depend_on_nothing_that_the_digest_does_not_cover(name):
    compiled = {each for each, path in modules().items() if "jit import" in path.read_text(encoding="utf-8")}
    reached, front = set(), {name} & compiled
    while front:
        reached |= front
        front = {below for each in front for below in imported(each, modules()[each])} & set(modules()) - reached
    outside = {below for each in reached for below in imported(each, modules()[each])} - set(modules())
    assert outside <= {"__future__", "math", "typing", "numpy", "numpy.typing", "warplens.jit"}


def test_every_module_of_kernels_is_covered():
    covered = set(modules().values())
    using = {path for path in PACKAGE.rglob("*.py") if "warplens.jit" in imported(module_name(path), path)}
    assert not using - covered
