"""Trip counts that the suite's kernels need for static counting, and why a kernel is off."""

from __future__ import annotations

from collections.abc import Mapping

#: By kernel and source line, for the suite's small inputs: average trips of the longest of a warp's 32 threads.
#: The probes of the hash table (page_view_count, line 19) are a guess.
GIVEN: Mapping[str, Mapping[str, float]] = {
    "bfs": {"10": 25},
    "inverted_index": {"36": 100},
    "page_view_count": {"15": 28, "19": 4},
    "spmv_csr": {"9": 62},
}

REASONS: Mapping[str, str] = {
    "bfs": "rows end at different times: few lanes are left in late iterations, and touch few lines; "
    "both sides of `if (!visited)` count whole",
    "black_scholes": "both sides of a choice by data count whole",
    "btree_search": "one lane of four warps finds the key, but the branch counts whole in all of them",
    "cfd_flux": "neighbours are near each other, but nothing in the PTX says so",
    "inverted_index": "documents end at different times; words end in few iterations, but the branch counts whole",
    "linear_filter": "the last block is counted once for each way there, where lanes of two ways leave together",
    "needleman_wunsch": "lanes read few of the entries of a table by letters that nobody knows",
    "page_view_count": "records and probes end at different times: few lanes are left in late iterations",
    "ray_tracing": "rays that hit nothing leave the loop early; both sides of data-dependent branches count whole",
    "spmv_csr": "rows end at different times: few lanes are left in late iterations, and touch few lines",
    "stream_compaction": "places come from a scan and lie side by side, but nothing in the PTX says so",
}
