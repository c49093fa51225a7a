"""The papers' models, one file each, and the registry that names them."""

from .base import Aspect, Model, options_of, solve
from .papers import Paper
from .prediction import Condition, Prediction
from .registry import (
    BEST,
    GENERAL_MODELS,
    MODELS,
    PAPERS,
    get_model,
    model_names,
    no_model,
    solve_best,
    usable_models,
)

__all__ = [
    "BEST",
    "GENERAL_MODELS",
    "MODELS",
    "PAPERS",
    "Aspect",
    "Condition",
    "Model",
    "Paper",
    "Prediction",
    "get_model",
    "model_names",
    "no_model",
    "options_of",
    "solve",
    "solve_best",
    "usable_models",
]
