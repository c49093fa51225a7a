"""Predictions against references: data with provenance, metrics, and the tables made of them."""

from .harness import Validation, validate_accelsim
from .metrics import cycle_error, ipc_error, log_error, mape, mape_shape, rank_correlation

__all__ = [
    "Validation",
    "cycle_error",
    "ipc_error",
    "log_error",
    "mape",
    "mape_shape",
    "rank_correlation",
    "validate_accelsim",
]
