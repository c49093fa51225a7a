"""`warplens validate`"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warplens.cli.common import console, print_json, warn
from warplens.cli.options import FILE, json_option, pattern_of, results_option
from warplens.cli.progress import counting
from warplens.errors import MissingPackageError, UnknownNameError, nearest

from .validate_curves import validate_curves_command
from .validate_edits import validate_edits_command
from .validate_h200 import validate_h200_command
from .validate_network import validate_network_command
from .validate_pairs import validate_pairs_command
from .validate_programs import validate_programs_command
from .validate_suite import validate_suite_command
from .validate_tuning import TuningOptions, tuning_options, validate_tuning_command
from .validation import STYLES, show_tables

if TYPE_CHECKING:
    from ..validate import Validation

#: Datasets whose predictions are kept in the source tree.
KEEPING = ("curves", "edits", "h200", "pairs", "programs", "tuning")


@click.command()
@click.argument("datasets", nargs=-1, metavar="[DATASET]...")
@results_option("out/validate", "Where the CSV files and pictures go.")
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--configuration", "configurations", multiple=True, metavar="NAME", help="Only these; repeat.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only these models; repeat.")
@click.option("--order", "orders", multiple=True, metavar="ORDER", help="How warps interleave in caches; repeat.")
@click.option(
    "--markdown",
    "pages",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Bring the tables of a page up to date, or write a new one; repeat.",
)
@click.option("--fresh", is_flag=True, help=f"{', '.join(KEEPING)}: compute again and keep it in the source tree.")
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="programs: traces to predict from, with --fresh.",
)
@tuning_options
@json_option
def validate(
    datasets: tuple[str, ...],
    folder: Path,
    kernel: str | None,
    configurations: tuple[str, ...],
    models: tuple[str, ...],
    orders: tuple[str, ...],
    pages: tuple[Path, ...],
    fresh: bool,
    traces: Path | None,
    tuning: TuningOptions,
    as_json: bool,
) -> None:
    """Compare every model with references, kernel by kernel.

    DATASET is `accelsim` (the cycles of a third-party simulator), the default,
    `h200` (the kernels of `warplens suite` measured on an H200), `network` (our
    own model against both simulators, with and without each of its mechanisms),
    `edits` (verdicts of `warplens check` on small edits, measured on an H200),
    `pairs` (advice on faulty kernels against what their cures bring on an H200),
    `programs` (launches of public CUDA programs traced and measured on an H200),
    `tuning` (spaces that others measured on other GPUs, from source), `curves`
    (bandwidth and latency that others measured on other GPUs) or `suite` (no
    model: those kernels executed on this CPU against an H200). Rows go to
    DIR/DATASET.csv; with `accelsim`, miss ratios and bounds go to files beside
    it, and the figures of the MDM paper are drawn.
    """
    from warplens.api import JSON_SCHEMA

    from ..validate import find_datasets
    from ..validate.report import document

    if pages and (kernel or configurations or models or orders):
        raise click.UsageError(
            "--markdown needs all kernels, configurations, models and orders: leave out the options that select some"
        )
    _check_options(datasets, fresh, traces, tuning)
    pattern = None if kernel is None else pattern_of(kernel)
    for name, run, reason, choices in _alone(fresh, traces, tuning):
        if name in datasets:
            if len(set(datasets)) > 1 or configurations or models or orders or (name == "h200" and fresh and kernel):
                raise click.UsageError(f"{name} {reason}: use it alone, with {choices}, -o, --markdown and --json")
            run(folder, pattern, pages, as_json)
            return
    _check_names(models, orders)
    chosen = find_datasets(datasets)
    plans = [(each, each.choose_kernels(pattern), each.choose_configurations(configurations)) for each in chosen]
    documents: list[dict[str, Any]] = []
    missing: MissingPackageError | None = None
    for dataset, kernels, settings in plans:
        with counting(dataset.name, len(kernels)) as finished:
            found = dataset.run(
                kernels=kernels,
                configurations=settings,
                orders=list(dict.fromkeys(orders)) or None,
                models=list(dict.fromkeys(models)) or None,
                progress=finished,
            )
        files, error = _write(found, folder, pages)
        missing = missing or error
        if as_json:
            documents.append(document(found, files))
        else:
            _show(found)
        for path in files:
            click.echo(str(path), err=as_json)
    if as_json:
        print_json({"schema": JSON_SCHEMA, "datasets": documents})
    if missing is not None:
        raise missing


def _alone(
    fresh: bool, traces: Path | None, tuning: TuningOptions
) -> tuple[tuple[str, Callable[..., None], str, str], ...]:
    """Datasets that are no grid of kernels, models and configurations: name, command, why, and their options."""

    def kept(command: Callable[..., None], **more: Any) -> Callable[..., None]:
        return partial(command, fresh=fresh, **more)

    return (
        ("suite", validate_suite_command, "runs no model", "--kernel"),
        ("network", validate_network_command, "runs one model", "--kernel"),
        ("h200", kept(validate_h200_command), "runs every model", "--kernel or --fresh"),
        ("pairs", kept(validate_pairs_command), "runs one model", "--kernel, --fresh"),
        ("edits", kept(validate_edits_command), "runs one model", "--kernel, --fresh"),
        (
            "programs",
            kept(validate_programs_command, traces=traces),
            "runs every model",
            "--kernel, --fresh, --traces",
        ),
        ("tuning", kept(validate_tuning_command, how=tuning), "runs one model", "--sources, --fresh"),
        ("curves", kept(validate_curves_command), "runs one model", "--fresh"),
    )


def _check_options(datasets: Sequence[str], fresh: bool, traces: Path | None, tuning: TuningOptions) -> None:
    """Refuse options of datasets that are not asked for."""
    if fresh and not set(KEEPING) & set(datasets):
        raise click.UsageError(f"--fresh works with the datasets {', '.join(KEEPING)} only")
    if traces is not None and not (fresh and "programs" in datasets):
        raise click.UsageError("--traces works with programs --fresh only")
    if tuning.given and "tuning" not in datasets:
        raise click.UsageError("--sources, --sets, --gpu, --sample and --budget work with the dataset tuning only")


def _write(found: Validation, folder: Path, pages: tuple[Path, ...]) -> tuple[list[Path], MissingPackageError | None]:
    """The written files, and the error if Matplotlib is missing: numbers do not need it."""
    from ..validate.figures import draw_all
    from ..validate.report import sections, update_sections, write_files

    files = write_files(found, folder)
    missing = None
    try:
        drawn, left_out = draw_all(found, folder)
        files += drawn
        for text in left_out:
            warn(text)
    except MissingPackageError as error:
        missing = error
    for name, reason in {row.model: row.reason for row in found.skipped}.items():
        warn(f"{name} is left out: {reason}")
    for page in pages:
        update_sections(page, found.dataset, sections(found))
        files.append(page)
    return files, missing


def _check_names(models: tuple[str, ...], orders: tuple[str, ...]) -> None:
    from warplens.analysis import order_window

    from ..validate.harness import model_names

    for name in models:
        if name not in model_names():
            raise UnknownNameError(f"no model is named {name!r}; {nearest(name, model_names())}")
    for order in orders:
        order_window(order)


def _show(found: Validation) -> None:
    from rich.text import Text

    from ..validate.tables import all_tables

    show_tables(all_tables(found))
    console().print(
        Text.assemble(
            "errors above 30 % are ",
            ("yellow", STYLES[1]),
            ", above 100 % ",
            ("red", STYLES[2]),
            "; miss ratios off by more than 0.05 and 0.2 likewise",
        )
    )
