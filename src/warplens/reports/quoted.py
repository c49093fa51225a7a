"""Which of several models a report quotes where one has to do."""

from __future__ import annotations

from collections.abc import Sequence

from ..models import BEST, Prediction


def quoted(predictions: Sequence[Prediction]) -> Prediction:
    """The prediction of the best model that ran."""
    by_name = {p.model: p for p in reversed(predictions)}
    return next((by_name[name] for name in BEST if name in by_name), predictions[0])
