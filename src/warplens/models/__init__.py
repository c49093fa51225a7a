"""The papers' models, one file each, and the registry that names them."""

from .base import Aspect, Model, options_of, solve
from .papers import Paper
from .prediction import Condition, Prediction
from .registry import GENERAL_MODELS, MODELS, PAPERS, get_model, model_names

__all__ = [
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
    "options_of",
    "solve",
]
