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
from warplens.cli.progress import counting, waiting
from warplens.cli.tune import seconds_of
from warplens.cores import usable_cores
from warplens.errors import WarplensError

from .validation import conclude


@dataclass(frozen=True)
class TuningOptions:
    """Which sets are predicted, and from what. Without sources, the kept predictions are shown."""

    sources: Path | None
    sets: Path | None
    gpus: tuple[str, ...]
    sample: int | None
    budget_seconds: float | None

    @property
    def given(self) -> bool:
        return self != TuningOptions(None, None, (), None, None)


def tuning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--sources, --sets, --gpu, --sample and --budget, as `TuningOptions`."""

    @wraps(command)
    def selected(
        *,
        sources: Path | None,
        sets: Path | None,
        gpus: tuple[str, ...],
        sample: int | None,
        budget: float | None,
        **others: Any,
    ) -> Any:
        return command(tuning=TuningOptions(sources, sets, gpus, sample, budget), **others)

    for option in (
        click.option(
            "--budget", metavar="TIME", callback=seconds_of, help="tuning: search each space for 60s, 10m instead."
        ),
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
    from ..validate.tuning_budget import kept_searches
    from ..validate.tuning_limits import Limits
    from ..validate.tuning_tables import DATASET, all_tables, draw_all, sections

    anew = how.sets is not None or how.sample is not None or how.budget_seconds is not None
    if how.sources is None and (fresh or anew):
        raise click.UsageError(
            "tuning: --fresh, --sets, --sample and --budget predict anew: name the folder with --sources"
        )
    if how.budget_seconds is not None:
        return _search(pattern, pages, as_json, fresh, how)
    if fresh and (how.sets is not None or how.gpus or pattern is not None):
        raise click.UsageError("tuning: --fresh keeps all open sets: leave out --sets, --gpu and --kernel")
    sets = chosen_sets(read_sets(how.sets), how.gpus)
    chosen = [each for each in sets if pattern is None or pattern.search(each.name)]
    files: list[Path] = []
    gpus = {each.gpu for each in chosen}
    searches = kept_searches(gpus) if how.sets is None else []
    if how.sources is None:
        rows, limits = [row for row in kept_rows() if row.gpu in gpus], Limits.kept(gpus)
    else:
        limits = Limits.of(chosen, how.sources)
        rows, size = [], how.sample or SAMPLE
        samples = [Sample.of(each, how.sources, size) for each in chosen]
        with counting("predicting configurations", sum(len(each.times) for each in samples)) as finished:
            known = predict_samples(samples, folder / "tuning.log.jsonl", finished)
        for each, sample in zip(chosen, samples, strict=True):
            found, reasons = sample.rows(known)
            rows += found
            if reasons:
                told = f"{len(reasons)} configurations ran on the GPU but cannot be predicted"
                warn(f"{each.name} on {each.gpu}: {told}, the first because: {reasons[0].splitlines()[0]}")
        if not rows:
            raise WarplensError("tuning: no configuration could be predicted")
        if fresh:
            files += [keep_rows(rows), limits.keep(), renew_accuracy()]
            rows = kept_rows()  # pages show what is kept, with its digits
    files.append(write_csv(folder / f"{DATASET}.csv", (row.to_dict() for row in rows)))
    files += draw_all(rows, folder)
    for page in pages:
        update_sections(page, DATASET, sections(rows, limits, searches))
    summary = [
        {"name": name, "gpu": gpu, "clock": clock, **each.to_dict()}
        for (name, gpu, clock), each in agreements(rows).items()
    ]
    document = {"dataset": DATASET, "summary": summary, **limits.to_dict(), "rows": [row.to_dict() for row in rows]}
    conclude(document, lambda: all_tables(rows, limits, searches), [*files, *pages], as_json)
    return None


def _search(
    pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool, fresh: bool, how: TuningOptions
) -> None:
    """One search of each set within a budget; `fresh` keeps them in place of those of the same sets."""
    from ..validate.report import update_sections
    from ..validate.tuning import chosen_sets, kept_rows, read_sets
    from ..validate.tuning_budget import keep_searches, kept_searches, search_set
    from ..validate.tuning_limits import Limits
    from ..validate.tuning_tables import DATASET, budget_table, sections

    assert how.sources is not None and how.budget_seconds is not None
    if fresh and how.sets is not None:
        raise click.UsageError("tuning: --fresh keeps open sets: leave out --sets")
    sets = read_sets(how.sets)
    made, files = [], []
    for each in chosen_sets(sets, how.gpus):
        if pattern is None or pattern.search(each.name):
            with waiting(f"searching {each.name} for {each.gpu}") as report:
                made.append(search_set(each, how.sources, how.budget_seconds, usable_cores(), report))
    if fresh:
        files.append(keep_searches(made, sets))
        gpus = {each.gpu for each in sets}
        for page in pages:
            update_sections(page, DATASET, sections(kept_rows(), Limits.kept(gpus), kept_searches(gpus)))
    document = {"dataset": DATASET, "searches": [each.to_dict() for each in made]}
    conclude(document, lambda: [budget_table(made)], [*files, *(pages if fresh else ())], as_json)
