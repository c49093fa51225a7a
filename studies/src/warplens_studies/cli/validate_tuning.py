"""`warplens validate tuning`"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from warplens.cli.common import warn
from warplens.cli.options import FILE, FOLDER
from warplens.cli.progress import counting

from .validation import conclude


@dataclass(frozen=True)
class TuningOptions:
    """Which sets are predicted, and from what. Without sources, the kept predictions are shown."""

    sources: Path | None
    sets: Path | None
    gpus: tuple[str, ...]
    sample: int | None

    @property
    def given(self) -> bool:
        return self != TuningOptions(None, None, (), None)


def tuning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--sources, --sets, --gpu and --sample, as `TuningOptions`."""

    @wraps(command)
    def selected(
        *, sources: Path | None, sets: Path | None, gpus: tuple[str, ...], sample: int | None, **others: Any
    ) -> Any:
        return command(tuning=TuningOptions(sources, sets, gpus, sample), **others)

    for option in (
        click.option("--sample", type=click.IntRange(min=2), metavar="N", help="tuning: configurations of a set."),
        click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="tuning: only this GPU; repeat."),
        click.option("--sets", type=FILE, metavar="FILE", help="tuning: which spaces were measured on which GPU."),
        click.option("--sources", type=FOLDER, metavar="DIR", help="tuning: folder of kernels, spaces and times."),
    ):
        selected = option(selected)
    return selected


def validate_tuning_command(
    folder: Path,
    pattern: re.Pattern[str] | None,
    pages: Sequence[Path],
    as_json: bool,
    fresh: bool,
    how: TuningOptions,
) -> None:
    """Measured tuning spaces, predicted from source: DIR/tuning.csv, a picture, tables, and marked parts of pages."""
    from ..validate.accuracy import renew_accuracy
    from ..validate.report import update_sections, write_csv
    from ..validate.tuning import (
        SAMPLE,
        Sample,
        agreements,
        chosen_sets,
        keep_rows,
        kept_rows,
        predict_samples,
        read_sets,
    )
    from ..validate.tuning_limits import Limits
    from ..validate.tuning_tables import DATASET, all_tables, draw_all, sections

    if how.sources is None and (fresh or how.sets is not None or how.sample is not None):
        raise click.UsageError("tuning: --fresh, --sets and --sample predict anew: name the folder with --sources")
    if fresh and (how.sets is not None or how.gpus or pattern is not None):
        raise click.UsageError("tuning: --fresh keeps all open sets: leave out --sets, --gpu and --kernel")
    sets = chosen_sets(read_sets(how.sets), how.gpus)
    chosen = [each for each in sets if pattern is None or pattern.search(each.name)]
    files: list[Path] = []
    if how.sources is None:
        gpus = {each.gpu for each in chosen}
        rows, limits = [row for row in kept_rows() if row.gpu in gpus], Limits.kept(gpus)
    else:
        limits = Limits.of(chosen, how.sources)
        rows, size = [], how.sample or SAMPLE
        samples = [Sample.of(each, how.sources, size) for each in chosen]
        with counting("predicting configurations", sum(len(each.times) for each in samples)) as finished:
            known = predict_samples(samples, folder / "tuning.log.jsonl", finished)
        for each, sample in zip(chosen, samples, strict=True):
            found, failed = sample.rows(known)
            rows += found
            if failed:
                warn(f"{each.name} on {each.gpu}: {failed} configurations ran on the GPU but cannot be predicted")
        if fresh:
            files += [keep_rows(rows), limits.keep(), renew_accuracy()]
            rows = kept_rows()  # pages show what is kept, with its digits
    files.append(write_csv(folder / f"{DATASET}.csv", (row.to_dict() for row in rows)))
    files += draw_all(rows, folder)
    for page in pages:
        update_sections(page, DATASET, sections(rows, limits))
    summary = [
        {"name": name, "gpu": gpu, "clock": clock, **each.to_dict()}
        for (name, gpu, clock), each in agreements(rows).items()
    ]
    document = {"dataset": DATASET, "summary": summary, **limits.to_dict(), "rows": [row.to_dict() for row in rows]}
    conclude(document, lambda: all_tables(rows, limits), [*files, *pages], as_json)
