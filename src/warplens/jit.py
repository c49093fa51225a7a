"""How kernels are compiled: the first prediction on a machine waits for it.

Neither kind makes arrays: whoever calls has them made, which spares the compiler
the counting of references. Nothing raises on a division by zero.
"""

from __future__ import annotations

from numba import njit

#: What Python calls; kept on disk.
kernel = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
#: What only kernels call: typed once, without wrappers for Python, and inlined by LLVM wherever it is called.
inlined = njit(
    nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True
)
