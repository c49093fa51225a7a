"""What a notebook shows in place of a `repr`: pictures that need no network, and plotly's where it is at hand."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import Any

from ..errors import MissingPackageError
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


def _html(view: View) -> str:
    plt = pyplot()
    figure = view.draw(plt)
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    plt.close(figure)
    data = base64.b64encode(picture.getvalue()).decode("ascii")
    alternative = escape(view.summary, quote=True)
    return f'<img alt="{alternative}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
