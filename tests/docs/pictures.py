"""The pictures of the documentation that a command can draw, and the mkdocs hook that draws them.

    python tests/docs/pictures.py [NAME...]

draws those that are missing or out of date to build/pictures, or those that are
named (`reproduce/mdm-fig9.png`). docs/img holds only what no command here can draw:
screenshots, and the pictures of the README and the gallery.

WARPLENS_DOCS_PICTURES=blank puts an empty picture in place of each, so that the
site builds at once.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KEPT = ROOT / "build" / "pictures"
STYLE = ROOT / "src" / "warplens" / "reports" / "style.py"
#: A picture of one white pixel.
BLANK = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a4944415478da63f80f00010101001bb6ee560000000049454e44ae426082"
)
_PICTURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)*img/([^)]+\.png)\)")


@dataclass(frozen=True)
class Drawing:
    """How some pictures are drawn into a folder, and the files that decide what they show, code first."""

    names: tuple[str, ...]
    draw: Callable[[Path], object]
    sources: tuple[Path, ...]

    @property
    def digest(self) -> str:
        """Changes with the sources."""
        found = hashlib.sha256()
        for path in (*self.sources, STYLE):
            found.update(path.read_bytes())
        return found.hexdigest()[:12]

    def kept(self, name: str) -> Path:
        """Where a picture of these sources is."""
        path = KEPT / name
        return path.with_name(f"{path.stem}.{self.digest}{path.suffix}")


# -- recipes -------------------------------------------------------------------------------


@cache
def drawings() -> Mapping[str, Drawing]:
    """Every picture that can be drawn, by its path below docs/img."""
    found = [*_reproductions(), _accelsim(), _h200(), _tuning(), _curves(), _characterize()]
    return {name: each for each in found for name in each.names}


def _reproductions() -> Iterable[Drawing]:
    from warplens_studies.reproduce import RECIPES, base, drawing

    shared = tuple(Path(inspect.getfile(module)) for module in (base, drawing))
    for name, recipe in RECIPES.items():
        if recipe.timed:  # another run would draw other numbers than those of the page
            continue
        numbers = DOCS / "reproductions" / f"{name}.csv"
        own = Path(inspect.getfile(recipe.compute))
        yield Drawing((f"reproduce/{name}.png",), partial(_draw_reproduction, name), (own, numbers, *shared))


def _draw_reproduction(name: str, folder: Path) -> None:
    from warplens_studies.reproduce import RECIPES, draw

    draw(RECIPES[name](), folder)


def _accelsim() -> Drawing:
    from warplens_studies.validate import figures

    data = DOCS / "validation" / "data"
    names = ("validation/mdm-fig5.png", "validation/miss-ratios.png")
    sources = (Path(inspect.getfile(figures)), data / "accelsim-errors.csv", data / "accelsim-misses.csv")
    return Drawing(names, _draw_accelsim, sources)


def _draw_accelsim(folder: Path) -> None:
    from warplens_studies.validate import validate_accelsim
    from warplens_studies.validate.figures import draw_all
    from warplens_studies.validate.paper import CAPPED, MODELS

    draw_all(validate_accelsim(configurations=["base"], models=[*MODELS, *CAPPED]), folder)


def _h200() -> Drawing:
    from warplens_studies.validate import h200_figures
    from warplens_studies.validate.h200_profiles import PREDICTIONS

    names = ("validation/h200-scatter.png", "validation/h200-sweeps.png")
    return Drawing(names, _draw_h200, (Path(inspect.getfile(h200_figures)), PREDICTIONS))


def _draw_h200(folder: Path) -> None:
    from warplens_studies.validate.h200 import compare
    from warplens_studies.validate.h200_figures import draw_all
    from warplens_studies.validate.h200_profiles import kept_predictions

    draw_all(compare(kept_predictions()), folder)


def _tuning() -> Drawing:
    from warplens_studies.validate import tuning, tuning_tables

    names = (f"validation/{tuning_tables.PICTURE}",)
    return Drawing(names, _draw_tuning, (Path(inspect.getfile(tuning_tables)), tuning.KEPT))


def _draw_tuning(folder: Path) -> None:
    from warplens_studies.validate.tuning import kept_rows
    from warplens_studies.validate.tuning_tables import draw_all

    draw_all(kept_rows(), folder)


def _curves() -> Drawing:
    from warplens_studies.validate import curves, curves_tables

    names = (f"validation/{curves_tables.PICTURE}",)
    return Drawing(names, _draw_curves, (Path(inspect.getfile(curves_tables)), curves.KEPT))


def _draw_curves(folder: Path) -> None:
    from warplens_studies.validate import curves, curves_tables

    curves_tables.draw_all(curves.read_points(curves.KEPT), folder)


def _characterize() -> Drawing:
    from warplens.characterize import plots
    from warplens.characterize.machine_file import bundled

    found = bundled("h200")
    assert found is not None
    kinds = ("latency", "occupancy", "mixes", "bandwidth", "in-flight", "patterns", "products")
    sources = (Path(inspect.getfile(plots)), found.raw)
    return Drawing(
        tuple(f"characterize/{kind}.png" for kind in kinds), partial(_draw_characterize, found.raw), sources
    )


def _draw_characterize(raw: Path, folder: Path) -> None:
    from warplens.characterize.machine_file import read_raw
    from warplens.characterize.plots import draw_all

    draw_all(read_raw(raw), folder)


# -- drawing -------------------------------------------------------------------------------


def wanted() -> set[str]:
    """Pictures that pages show, below docs/img."""
    return {name for page in DOCS.rglob("*.md") for name in _PICTURE.findall(page.read_text(encoding="utf-8"))}


def draw(names: Iterable[str]) -> None:
    """Draw pictures to where they are kept, in place of those of other sources."""
    for drawing in dict.fromkeys(drawings()[name] for name in names):
        with tempfile.TemporaryDirectory() as folder:
            drawing.draw(Path(folder))
            for name in drawing.names:
                kept = drawing.kept(name)
                kept.parent.mkdir(parents=True, exist_ok=True)
                for old in kept.parent.glob(f"{Path(name).stem}.*.png"):
                    old.unlink()
                shutil.move(Path(folder) / Path(name).name, kept)


def missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if not drawings()[name].kept(name).is_file()]


def draw_missing(names: Iterable[str], processes: int = os.cpu_count() or 1) -> None:
    """Draw what is missing in some processes. One process draws all pictures of a module: they share work."""
    modules: dict[Path, list[str]] = {}
    for name in missing(names):
        modules.setdefault(drawings()[name].sources[0], []).append(name)
    shares: list[list[str]] = [[] for _ in range(min(processes, len(modules)))]
    for module in sorted(modules.values(), key=len, reverse=True):
        min(shares, key=len).extend(module)

    def run(share: list[str]) -> None:
        subprocess.run([sys.executable, __file__, *share], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(run, shares))


def on_files(files: Files, *, config: Any) -> Files:
    """The mkdocs hook: adds the pictures that pages show and that docs/img does not hold."""
    from mkdocs.structure.files import File

    names = sorted(wanted() & set(drawings()))
    blank = os.environ.get("WARPLENS_DOCS_PICTURES") == "blank"
    if not blank:
        draw_missing(names)
    for name in names:
        source = {"content": BLANK} if blank else {"abs_src_path": str(drawings()[name].kept(name))}
        files.append(File.generated(config, f"img/{name}", **source))
    return files


def main() -> None:
    names = sys.argv[1:]
    if unknown := sorted(set(names) - set(drawings())):
        sys.exit(f"{', '.join(unknown)}: no picture is drawn under that name")
    if names:
        draw(names)
    else:
        draw_missing(sorted(wanted() & set(drawings())))


if __name__ == "__main__":
    main()
