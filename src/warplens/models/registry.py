"""All models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UnknownNameError, nearest
from .base import Model, parse_options
from .crisp import Crisp
from .interval import INTERVAL_MODELS
from .markov_chain import MarkovChain
from .mwp_cwp import CorrectedMwpCwp, MwpCwp
from .pipeline import Pipeline
from .roofline import Roofline
from .transit import Transit
from .volkov import Volkov
from .warplens_model import Warplens
from .wfg import CorrectedWorkFlow, WorkFlow

_NAIVE, *_INTERVAL = INTERVAL_MODELS.values()
_ALL: tuple[type[Model], ...] = (
    Roofline,
    Volkov,
    Transit,
    MwpCwp,
    CorrectedMwpCwp,
    WorkFlow,
    CorrectedWorkFlow,
    _NAIVE,
    MarkovChain,
    *_INTERVAL,
    Pipeline,
    Crisp,
    Warplens,
)
#: In the order in which tables show them.
MODELS: dict[str, type[Model]] = {model.name: model for model in _ALL}
#: The papers of all models, by key.
PAPERS = {model.paper.key: model.paper for model in MODELS.values()}

#: Those that predict from a kernel alone, without a run that was measured.
GENERAL_MODELS = {name: model for name, model in MODELS.items() if model.needs != "measured_run"}


def model_names() -> list[str]:
    """Names of the registered models, in the order in which tables show them."""
    return list(MODELS)


def get_model(name: str, options: Mapping[str, Any] | None = None) -> Model:
    """A model by name, with options as typed (`{"clamp": "false"}`) or as values."""
    if name not in MODELS:
        raise UnknownNameError(f"no model is named {name!r}; {nearest(name, MODELS)}")
    model = MODELS[name]
    return model(**parse_options(model, options or {}))
