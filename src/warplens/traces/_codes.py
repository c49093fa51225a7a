"""Numbers in traces that compiled code knows too."""

from __future__ import annotations

import numpy as np

#: Stride of an access whose lanes are not evenly spaced: their addresses are listed.
IRREGULAR = np.iinfo(np.int64).min
#: An address of shared memory of another block of the cluster has the block's number from this bit on.
SHARED_BITS = 24
