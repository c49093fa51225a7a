"""The same PTX on a GPU and on the CPU: matrix products and warp instructions, bit for bit.

    compare_ptx.py prepare FOLDER       without a GPU: PTX, inputs and warplens's results
    compare_ptx.py measure FOLDER OUT   on a GPU, with CuPy: OUT gets one row per case

A case is exact if every sum is representable whatever the order; the others show
how far tensor cores, which truncate, are from sums in single precision.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[2]


def prepare(folder: Path) -> None:
    """Write each case: NAME.ptx, and NAME.npz with its launch, inputs and results."""
    sys.path[:0] = [str(HERE / "src"), str(HERE / "tests")]
    folder.mkdir(parents=True, exist_ok=True)
    from warplens.frontends.ptx import execute, parse_ptx

    for name, text, entry, blocks, threads, arguments, kinds in (*_products(), *_warpgroups(), *_snippets()):
        given = [each.copy() for each in arguments]
        execute(parse_ptx(text, name), entry, blocks, threads, arguments, record=False)
        (folder / f"{name}.ptx").write_text(text)
        inputs = {f"in{number}": each for number, each in enumerate(given)}
        results = {f"out{number}": each for number, each in enumerate(arguments)}
        launch = json.dumps({"entry": entry, "blocks": [blocks], "threads": threads, "kinds": kinds, "shared": 0})
        np.savez_compressed(folder / f"{name}.npz", launch=np.array(launch), **inputs, **results)
        print(name, flush=True)


def _products() -> list[tuple[Any, ...]]:
    """Every form of mma.sync, with small whole numbers and with any."""
    from frontends.ptx.products import forms, fragments, kernel

    found = []
    for number, form in enumerate(forms()):
        for exact in (True, False):
            words = fragments(form, np.random.default_rng(number), exact=exact)
            name = f"{'exact' if exact else 'rounded'}-{form.name.removeprefix('mma.sync.aligned.')}"
            arguments = [words, np.zeros(form.output_words, np.uint32)]
            found.append((name, kernel([form]), "products", 1, 32, arguments, [None, form.product.result_type]))
    return found


def _warpgroups() -> list[tuple[Any, ...]]:
    """Products of a warpgroup in all layouts; small whole numbers as halves, whose bits serve every type."""
    from frontends.ptx.test_products import WARPGROUPS, _warpgroup_kernel

    found = []
    for number, case in enumerate(WARPGROUPS):
        halves = np.random.default_rng(number).integers(-4, 5, 16384).astype(np.float16).view(np.uint32)
        arguments = [halves, np.zeros(128 * case[3] // 2, np.uint32)]
        kind = case[0].removeprefix("k32.satfinite").split(".")[1]
        name = f"wgmma-{number}-{case[0]}-swizzle{case[2]}-layout{case[1][0]}{case[1][1]}"
        found.append((name, _warpgroup_kernel(case), "k", 1, 128, arguments, [None, kind]))
    return found


def _snippets() -> list[tuple[Any, ...]]:
    """Instructions among lanes and on memory."""
    from frontends.ptx.test_warp_instructions import SNIPPETS, TEMPLATE, THREADS, arguments

    chosen = ("matrices", "votes", "barriers", "accesses", "overlaps")
    return [
        (f"{kind}-{number}", TEMPLATE.format(body=body), "k", 2, THREADS, arguments(), [None, None, None])
        for kind in chosen
        for number, body in enumerate(SNIPPETS[kind])
    ]


def measure(folder: Path, out: Path) -> None:
    import cupy

    rows = []
    for path in sorted(folder.glob("*.npz")):
        held = np.load(path)
        launch = json.loads(str(held["launch"]))
        count = len(launch["kinds"])
        row: dict[str, Any] = {"case": path.stem}
        try:
            function = cupy.RawModule(path=str(path.with_suffix(".ptx"))).get_function(launch["entry"])
            function.max_dynamic_shared_size_bytes = launch["shared"]
            given = [held[f"in{number}"] for number in range(count)]
            arrays = [cupy.asarray(each) if each.ndim else each[()] for each in given]
            function(tuple(launch["blocks"]), (launch["threads"],), arrays, shared_mem=launch["shared"])
            cupy.cuda.Device().synchronize()
            chosen = [number for number in range(count) if launch["kinds"][number] != "skip"]
            pairs = [(arrays[number].get(), held[f"out{number}"]) for number in chosen]
            row |= _compared(pairs, [launch["kinds"][number] for number in chosen])
        except Exception as error:  # one case that fails must not end the others
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        rows.append(row)
        out.write_text(json.dumps(rows, indent=1))
    equal = sum(row.get("different") == 0 for row in rows)
    print(f"{equal} of {len(rows)} cases are equal bit for bit")
    for row in rows:
        if row.get("different") != 0:
            print(json.dumps(row))


def _compared(pairs: list[tuple[np.ndarray, np.ndarray]], kinds: list[str | None]) -> dict[str, Any]:
    """Differing words, and for floats the largest difference relative to the largest sum."""
    different, worst = 0, 0.0
    for (gpu, cpu), kind in zip(pairs, kinds, strict=True):
        dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(kind or "")
        if dtype is None:
            different += int((gpu != cpu).sum())
            continue
        one, two = (each.reshape(-1).view(dtype).astype(np.float64) for each in (gpu, cpu))
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        different += int((~same).sum())
        scale = np.nanmax(np.abs(two[np.isfinite(two)]), initial=1e-30)
        gap = np.abs(one - two)[~same]
        worst = max(worst, float(np.nanmax(gap, initial=0.0) / scale))
    return {"different": different, "words": sum(cpu.size for _, cpu in pairs), "largest_relative": worst}


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {"prepare": prepare, "measure": measure}[command](*(Path(each) for each in paths))
