"""Matrix product of eight-bit floating point (e4m3) with fp32 accumulation: the kernel of `matmul`."""

import ml_dtypes
from example import Example
from matmul import example as product


def example(size: int = 512, config: int = 1) -> Example:
    return product(size, ml_dtypes.float8_e4m3fn, config)
