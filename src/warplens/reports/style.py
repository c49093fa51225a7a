"""One look for all pictures: colours of CPI categories, figure sizes, and saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..categories import CATEGORIES
from ..errors import InputError, MissingPackageError, install_command, writing

CATEGORY_COLOURS = {name: category.colour for name, category in CATEGORIES.items()}
PLAIN_COLOUR = "#8c8c8c"
#: Colours of lines, one per model or machine.
LINE_COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93", "#00798c", "#8d5524", "#5c5c5c")
FORMATS = (".png", ".svg", ".pdf")
#: Families of models: one colour each; members differ in their dashes.
_FAMILIES = (
    ("pipeline",),
    ("mdm", "mdm-cal2019", "mdm-mshr", "mdm-queue", "gcom"),
    ("volkov", "roofline", "instruction-roofline", "zhang-owens"),
    ("mwp-cwp-corrected", "mwp-cwp", "gpuperf"),
    ("gpumech", "gpumech-plus", "gpumech-rr-corrected", "gpumech-mt-mshr", "gpumech-mt"),
    ("transit",),
    ("wfg-corrected", "wfg"),
    ("naive-interval", "markov-chain"),
)
#: Models that belong to none of them.
_ALONE = {"warplens": "#c2185b", "crisp": "#9aa82f"}
#: (plotly's name, matplotlib's name) of dashes.
_DASHES = (("solid", "-"), ("dash", "--"), ("dot", ":"), ("dashdot", "-."), ("longdash", (0, (8, 3))))


def model_style(name: str) -> tuple[str, str, Any]:
    """(colour, plotly's dash, matplotlib's dash) of a model, the same in every picture."""
    for colour, family in zip(LINE_COLOURS, _FAMILIES, strict=True):
        if name in family:
            return colour, *_DASHES[family.index(name)]
    return _ALONE.get(name, PLAIN_COLOUR), *_DASHES[0]


def pyplot() -> Any:
    """matplotlib.pyplot, drawing to files only; a clear error where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise MissingPackageError(f"pictures need matplotlib; install it with: {install_command('plots')}") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#e5e5e5",
            "legend.frameon": False,
            "figure.constrained_layout.use": True,
            "savefig.dpi": 160,
            "svg.hashsalt": "warplens",
        }
    )
    return plt


def save(figure: Any, path: Path, *, dpi: float | None = None) -> None:
    """Write the figure and close it."""
    check_format(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
        figure.savefig(path, metadata=metadata, **({} if dpi is None else {"dpi": dpi}))
    pyplot().close(figure)


def check_format(path: Path) -> None:
    """Refuse a file name that no picture can have, before any work is done."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: pictures end in {', '.join(FORMATS)}")
