"""Drafts of workload files, tried out: a kernel that leaves its arrays or takes too long gets others."""

from __future__ import annotations

import math
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import CompileError, InputError, KernelFault, LimitReached, OutOfBounds
from ..frontends.cuda.arguments import Argument, Built
from ..frontends.cuda.draft import Draft, draft_of
from ..frontends.cuda.draft_rows import GUESSED
from ..frontends.cuda.usual_sizes import Sizes
from ..tomlfile import TomlFile
from .source import compile_launch, cuda_launch_of

#: Seconds for one run, and for all runs of a draft. What takes longer is limited to some thread blocks.
RUN_SECONDS = 4.0
TRIAL_SECONDS = 90.0
_MOST_RUNS = 64
_MOST_LAUNCHES = 8
_MOST_ARRAY_BYTES = 1 << 30
_MOST_SHARED_BYTES = 200 * 1024
#: Between arrays, so that an access beyond the end of one does not reach another.
_APART_BYTES = 1 << 28
#: Where the usual guesses fail.
_FEW_ELEMENTS, _SMALL_EXTENT = 1 << 14, 128
_OTHER_BLOCKS = ((32, 8), (128,), (32,), (16, 16), (64,), (512,), (8, 8, 8))


@dataclass(frozen=True)
class Trial:
    """A draft after its trial, and why it does not run, if it does not."""

    draft: Draft
    failure: InputError | None = None
    runs: int = 0


def tried_draft(path: Path, kernel: str | None = None, *, run_seconds: float = RUN_SECONDS) -> Trial:
    """A draft for a kernel of a source that runs on the CPU as it is, or the first one with the reason why not."""
    deadline = time.monotonic() + TRIAL_SECONDS
    first: Trial | None = None
    for draft in _drafts(path, kernel):
        trial = try_draft(draft, deadline, run_seconds)
        if trial.failure is None:
            return trial
        first = first or trial
        if isinstance(trial.failure, CompileError) or time.monotonic() > deadline:
            break
    assert first is not None
    return first


def _drafts(path: Path, kernel: str | None) -> Iterator[Draft]:
    """The launches of the source, then guesses that are smaller or have other blocks."""
    first = draft_of(path, kernel)
    yield first
    for which in range(1, min(first.launch_count, _MOST_LAUNCHES)):
        yield draft_of(path, kernel, which)
    if first.guesses:
        yield draft_of(path, kernel, 0, Sizes(_FEW_ELEMENTS, _SMALL_EXTENT))
    if first.launch_source == GUESSED:
        for block in _OTHER_BLOCKS:
            yield draft_of(path, kernel, 0, Sizes(_FEW_ELEMENTS, _SMALL_EXTENT, block))


def try_draft(draft: Draft, deadline: float = math.inf, run_seconds: float = RUN_SECONDS) -> Trial:
    """Run a draft, and change it until it runs."""
    held: dict[Argument, Built] = {}
    run = 0
    while True:
        run += 1
        try:
            _run(draft, run_seconds, held)
            return Trial(draft, None, run)
        except InputError as error:
            late = time.monotonic() > deadline and not isinstance(error, LimitReached)
            following = None if late or run >= _MOST_RUNS else _mended(draft, error)
            if following is None:
                return Trial(draft, error, run)
            draft = following


def _run(draft: Draft, run_seconds: float, held: dict[Argument, Built]) -> None:
    """One run. `held` are the arrays of the run before, which a failure leaves as they were."""
    from ..frontends.ptx import execute, parse_ptx

    text = draft.toml()
    launch = cuda_launch_of(TomlFile(str(draft.path.with_suffix(".toml")), text, tomllib.loads(text)))
    compiled = compile_launch(launch)
    built = {each: held.get(each) for each in launch.arguments}
    held.clear()
    held |= {each: each.build() if value is None else value for each, value in built.items()}
    execute(
        parse_ptx(compiled.ptx, name=compiled.name),
        compiled.entry,
        launch.grid,
        launch.block,
        [held[each] for each in launch.arguments],
        dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
        constants={name: np.asarray(each.build()) for name, each in launch.constants.items()},
        record=False,
        blocks=draft.blocks,
        most_seconds=run_seconds,
        apart_bytes=_APART_BYTES,
    )


def _mended(draft: Draft, error: InputError) -> Draft | None:
    """The draft without the cause of a failure; None if there is no remedy."""
    if isinstance(error, OutOfBounds):
        if error.argument is None or not 0 < error.array_bytes <= _MOST_ARRAY_BYTES:
            smaller = draft.with_lower_highs()  # so far away lies no array: a guessed index is multiplied
            return None if smaller == draft else smaller
        row = draft.rows[error.argument]
        lower = draft if row.members or row.is_guessed else draft.with_lower_highs()
        if lower != draft:  # the size is in the source: what is wrong is a guessed index
            return lower
        # Powers of two, as the next access may go further: few runs find the end.
        larger = draft.with_array_bytes(error.argument, 1 << (error.array_bytes - 1).bit_length())
        return None if larger == draft else larger
    if isinstance(error, LimitReached):
        blocks = draft.blocks or math.prod(draft.grid)
        return replace(draft, blocks=max(blocks // 8, 1)) if blocks > 1 else None
    # A kernel may get its dynamic shared memory from a function that it calls.
    larger_bytes = max(2 * draft.shared_bytes, 8 * math.prod(draft.block))
    grows = draft.shared_source in ("", GUESSED) and larger_bytes <= _MOST_SHARED_BYTES
    if grows and isinstance(error, KernelFault) and "of shared memory out of bounds" in str(error):
        return replace(draft, shared_bytes=larger_bytes, shared_source=GUESSED)
    return None
