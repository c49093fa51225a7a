"""A sparse matrix for spmv.toml: a few long rows among many short ones."""

import numpy as np

ROWS = 8192


def _lengths():
    return np.minimum(np.random.default_rng(1).zipf(1.8, ROWS), 512)


def starts(shape, dtype):
    return np.concatenate([[0], np.cumsum(_lengths())]).astype(dtype)


def columns(shape, dtype):
    return np.random.default_rng(2).integers(0, ROWS, _lengths().sum()).astype(dtype)


def values(shape, dtype):
    return np.random.default_rng(4).random(_lengths().sum()).astype(dtype)
