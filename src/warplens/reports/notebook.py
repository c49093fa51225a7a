"""What a notebook shows in place of a `repr`: pictures that need no network, and plotly's where it is at hand."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..errors import InputError, MissingPackageError
from .style import pyplot
from .view import View


def bundle(views: Sequence[View]) -> dict[str, Any]:
    """MIME bundle of one or more views: HTML with pictures, and the first one as a plotly figure."""
    found: dict[str, Any] = {"text/plain": "\n".join(view.summary for view in views)}
    try:
        found["text/html"] = "".join(_html(view) for view in views)
    except MissingPackageError:  # without matplotlib the sentence has to do, or plotly's figure
        found["text/html"] = "".join(f"<p>{escape(view.summary)}</p>" for view in views)
    if len(views) == 1:
        found["application/vnd.plotly.v1+json"] = views[0].figure()
    return found


def bundle_of(result: Any) -> dict[str, Any]:
    """MIME bundle of a prediction, a stack, a comparison or a sweep, whose `repr` stays its text."""
    made = {"text/plain": repr(result)}
    try:
        views = views_of(result)
    except InputError:
        return made
    return bundle(views) | made if views else made


def views_of(result: Any) -> list[View]:
    """What shows a result best; nothing where a number says it all."""
    from ..api import Comparison
    from ..models.prediction import Prediction, Stack
    from ..sweeps import Sweep
    from .curves import batch_curve
    from .stacks import cpi_stacks, stack_alone

    if isinstance(result, Stack):
        return [] if any(np.ndim(part) for part in result.values()) else [stack_alone(result)]
    if isinstance(result, Prediction):
        return [batch_curve(result)] if result.is_batch else [cpi_stacks([result])]
    if isinstance(result, Comparison):
        alone = [p for p in result.predictions if not p.is_batch]
        return [cpi_stacks(alone)] if alone else [batch_curve(p) for p in result.predictions]
    if isinstance(result, Sweep):
        from .sweep_section import sweep_views

        return sweep_views(result.table)[:1]
    return []


def _html(view: View) -> str:
    plt = pyplot()
    figure = view.draw(plt)
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    plt.close(figure)
    data = base64.b64encode(picture.getvalue()).decode("ascii")
    alternative = escape(view.summary, quote=True)
    return f'<img alt="{alternative}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
