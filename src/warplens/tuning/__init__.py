"""Tuning spaces: find the fastest configurations of a kernel without measuring them."""

from .kernel_tuner import Measured, PredictedFirst, read_results, write_cache
from .result import Candidate, Effect, Tuning
from .run import hash_order, run_tuning
from .space import TuningSpace, read_space

__all__ = [
    "Candidate",
    "Effect",
    "Measured",
    "PredictedFirst",
    "Tuning",
    "TuningSpace",
    "hash_order",
    "read_results",
    "read_space",
    "run_tuning",
    "write_cache",
]
