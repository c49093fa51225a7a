"""What sizes usually are, by their names: guesses for a draft where the source shows none."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SMALL = re.compile(
    r"(?i).*(stride|step|offset|radius|iter|level|pad|dilation|shift|seed|rank|flag|mode|depth|repeat|per_?sm).*"
)
#: Sizes that are seldom like others.
_USUAL_SIZES = (
    (re.compile(r"B|(?i:batch(_?size)?|bsz?)"), 8),
    (re.compile(r"(?i)n_?h|(n|num)_?((kv|q)_?)?heads?"), 16),
    (re.compile(r"(?i)head_?(dim|size)|hs"), 64),
)
#: What the runtime says of the GPU that the program runs on: an H100 SXM's.
DEVICE = {
    "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048,
    "maxBlocksPerMultiProcessor": 32, "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536,
}  # fmt: skip
_MULTIPROCESSORS = re.compile(r"(?i)(n|num|number)?(_?of)?_?(sms?|multi_?processors?)(_?(count|num))?")
_BLOCKS = re.compile(r"(?i)(n|num|number_of|grid)?_?(blocks?|grid)_?(n|num|count|size|dim)?|block_?num")
_THREADS = re.compile(r"(?i)(n|num|number_of)?_?threads?(_?per_?block)?|(block|tb)_?(size|dim)|(threads|tpb)")
_COUNT = re.compile(r"(?i)n|\w*(size|len|length|count|total|elements?|numel|num|nnz)\w*|n_\w+|num_?\w+")


@dataclass(frozen=True)
class Sizes:
    """Guesses where a source shows no size: elements of arrays, the extent of one dimension, and the block."""

    elements: int = 1 << 20
    extent: int = 1024
    block: tuple[int, ...] = ()
    """Empty: what the kernel suggests."""


USUAL = Sizes()


def is_small(name: str) -> bool:
    """Whether a name is one of numbers that are no size."""
    return _SMALL.fullmatch(name) is not None


def usual_size(name: str, sizes: Sizes, *, is_flat: bool, has_dimensions: bool) -> int:
    """A guess for a name, in a kernel of one dimension or more that takes the sizes of several or not."""
    if _THREADS.fullmatch(name):
        return 256 if is_flat else 16
    if _BLOCKS.fullmatch(name):
        return -(-sizes.elements // 256)
    if _MULTIPROCESSORS.fullmatch(name):
        return DEVICE["multiProcessorCount"]
    if is_small(name):
        return 1
    for names, usual in _USUAL_SIZES:
        if names.fullmatch(name):
            return usual
    is_count = is_flat and _COUNT.fullmatch(name) and not (len(name) == 1 and has_dimensions)
    return sizes.elements if is_count else sizes.extent
