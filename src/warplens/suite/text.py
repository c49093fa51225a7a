"""Counting and selecting: page views and words from text, histograms, stream compaction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warplens.suite.inputs import blocks, generator, launch_1d, offsets_of, pieces, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
_SPACE = ord(" ")


def fnv1a(text: NDArray[np.uint8], starts: Array, lengths: Array) -> NDArray[np.uint32]:
    """32-bit FNV-1a hashes of pieces of a text."""
    hashes = np.full(len(starts), 2166136261, np.uint32)
    for position in range(int(lengths.max(initial=0))):
        going = np.flatnonzero(lengths > position)
        hashes[going] = (hashes[going] ^ text[starts[going] + position]) * np.uint32(16777619)
    return hashes


def _join(vocabulary: Array, lengths: Array, chosen: Array) -> NDArray[np.uint8]:
    """The chosen words of a vocabulary (word, letter) one after the other."""
    width = vocabulary.shape[1]
    return vocabulary.ravel()[pieces(chosen.astype(np.int64) * width, lengths[chosen])]


def _page_view_count(records: int, table_size: int) -> SuiteLaunch:
    """A log of addresses, some far more frequent than others.

    No two addresses share a slot of the table, so its content does not depend on their order.
    """
    rng = generator()
    candidates = table_size // 4
    addresses = rng.choice(_LETTERS, (candidates, 28))
    lengths = rng.integers(12, 29, candidates)
    hashes = fnv1a(addresses.ravel(), np.arange(candidates) * 28, lengths)
    _, distinct = np.unique(hashes & np.uint32(table_size - 1), return_index=True)
    distinct = distinct[hashes[distinct] != 0]
    skewed = (len(distinct) * rng.random(records) ** 2).astype(np.int64)
    chosen = distinct[skewed]
    log, offsets = _join(addresses, lengths, chosen), offsets_of(lengths[chosen])
    table = (zeros(table_size, np.uint32), zeros(table_size, np.uint32))
    return launch_1d(records, log, offsets, *table, np.uint32(table_size - 1), np.int32(records))


def _page_view_count_reference(launch: SuiteLaunch) -> dict[int, Array]:
    log, offsets, keys, counts, mask, _ = launch.arguments
    hashes, views = np.unique(fnv1a(log, offsets[:-1], np.diff(offsets)), return_counts=True)
    keys, counts = keys.copy(), counts.copy()
    keys[hashes & mask] = hashes
    counts[hashes & mask] += views.astype(np.uint32)
    return {2: keys, 3: counts}


def _inverted_index(documents: int, average_words: int) -> SuiteLaunch:
    rng = generator()
    vocabulary = np.full((5000, 12), _SPACE, np.uint8)
    letters = rng.integers(2, 12, len(vocabulary))
    vocabulary[np.arange(12) < letters[:, None]] = rng.choice(_LETTERS, int(letters.sum()))
    lengths = letters + 1  # and the space behind the word
    words = rng.integers(average_words // 2, average_words + average_words // 2 + 1, documents)
    chosen = rng.integers(0, len(vocabulary), int(words.sum()))
    pair_offsets = offsets_of(words)
    text = _join(vocabulary, lengths, chosen)
    offsets = offsets_of(np.add.reduceat(lengths[chosen], pair_offsets[:-1]))
    pairs = (zeros(len(chosen), np.uint32), zeros(len(chosen), np.int32))
    return launch_1d(documents, text, offsets, pair_offsets, *pairs, np.int32(documents))


def _inverted_index_reference(launch: SuiteLaunch) -> dict[int, Array]:
    text, offsets = launch.arguments[:2]
    document = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    is_letter = text != _SPACE
    joined = is_letter[1:] & is_letter[:-1] & (document[1:] == document[:-1])  # a byte and the one before it
    starts = np.flatnonzero(is_letter & ~np.concatenate([[False], joined]))
    ends = np.flatnonzero(is_letter & ~np.concatenate([joined, [False]])) + 1
    return {3: fnv1a(text, starts, ends - starts), 4: document[starts]}


def _histogram(n: int, bins: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    return generator().integers(0, bins, n, dtype=np.uint32), np.zeros(bins, np.uint32)


def _histogram_global(n: int, bins: int) -> SuiteLaunch:
    return launch_1d(n, *_histogram(n, bins), np.int32(n))


def _histogram_shared(n: int, bins: int, grid: int) -> SuiteLaunch:
    arguments = (*_histogram(n, bins), np.int32(n), np.int32(bins))
    return SuiteLaunch((grid, 1, 1), (256, 1, 1), arguments, dynamic_shared_memory_bytes=4 * bins)


def _histogram_reference(launch: SuiteLaunch) -> dict[int, Array]:
    values, counts = launch.arguments[:2]
    return {1: counts + np.bincount(values, minlength=len(counts)).astype(np.uint32)}


def _stream_compaction(n: int) -> SuiteLaunch:
    values = generator().integers(0, 1000, n, dtype=np.uint32)
    grid = blocks(n, 256)
    outputs = (zeros(256 * grid, np.uint32), zeros(grid, np.int32))
    return launch_1d(n, values, *outputs, np.uint32(300), np.int32(n))


def _stream_compaction_reference(launch: SuiteLaunch) -> dict[int, Array]:
    values, kept, counts, limit, _ = launch.arguments
    chosen = np.flatnonzero(values < limit)
    block = chosen // 256
    counts = np.bincount(block, minlength=len(counts)).astype(counts.dtype)
    kept = kept.copy()
    kept[pieces(256 * np.arange(len(counts)), counts)] = values[chosen]
    return {1: kept, 2: counts}


KERNELS = (
    SuiteKernel(
        name="page_view_count",
        source="text_search.cu",
        entry="page_view_count",
        group="divergent",
        stands_for="Mars PageView Count: bytes of records hashed, atomic compare-and-swap and add in a table",
        prepare=Sized(_page_view_count, (3000, 4096), (500_000, 1 << 17), (4_000_000, 1 << 20)),
        reference=_page_view_count_reference,
    ),
    SuiteKernel(
        name="inverted_index",
        source="text_search.cu",
        entry="inverted_index",
        group="divergent",
        stands_for="Mars Inverted Index: a thread per document splits bytes into words and scatters pairs",
        prepare=Sized(_inverted_index, (600, 8), (100_000, 12), (1_000_000, 12)),
        reference=_inverted_index_reference,
    ),
    SuiteKernel(
        name="histogram_global",
        source="histogram.cu",
        entry="histogram_global",
        group="divergent",
        stands_for="histogram of many bins: a warp's atomics go to up to 32 places of global memory",
        prepare=Sized(_histogram_global, (20_000, 1 << 12), (4_000_000, 1 << 20), (16_000_000, 1 << 22)),
        reference=_histogram_reference,
    ),
    SuiteKernel(
        name="histogram_shared",
        source="histogram.cu",
        entry="histogram_shared",
        group="non-divergent",
        stands_for="histogram of few bins: atomics in dynamic shared memory, added to the global one at the end",
        prepare=Sized(_histogram_shared, (20_000, 256, 8), (8_000_000, 256, 1056), (64_000_000, 256, 1056)),
        reference=_histogram_reference,
    ),
    SuiteKernel(
        name="stream_compaction",
        source="stream_compaction.cu",
        entry="stream_compaction",
        group="non-divergent",
        stands_for="selection of values: votes of warps, bit counts, a barrier, stores side by side",
        prepare=Sized(_stream_compaction, (15_000,), (8_000_000,), (40_000_000,)),
        reference=_stream_compaction_reference,
    ),
)
