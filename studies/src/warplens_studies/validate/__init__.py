"""Predictions against references: data with provenance, metrics, and the tables made of them."""

from .datasets import DATASETS, Dataset, find_datasets
from .harness import Validation, validate_accelsim
from .metrics import cycle_error, ipc_error, log_error, mape, mape_shape, rank_correlation

__all__ = [
    "DATASETS",
    "Dataset",
    "Validation",
    "cycle_error",
    "find_datasets",
    "ipc_error",
    "log_error",
    "mape",
    "mape_shape",
    "rank_correlation",
    "validate_accelsim",
]
