"""Measures how exactly the tensor cores of this machine's GPU sum products of fp8, and of half precision beside it.

    python3 benchmarks/h200/measure_fp8.py > benchmarks/h200/fp8.csv

Values are those of the Triton examples. An error is the distance from a sum in double precision; `relative` is over
the largest result, as the examples' tolerance is, and `of_terms` over the sum of the absolute products, in powers
of two: what a sum keeps of its terms. `depth` is the number of products in a sum.
"""

from __future__ import annotations

import numpy as np
from measure_triton import case_of, on_gpu

LABELS = ("matmul", "matmul size=2048 config=0", "fp8_matmul", "fp8_matmul size=2048 config=0")


def main() -> None:
    import torch
    import triton

    print(f"# {torch.cuda.get_device_name()}, Triton {triton.__version__}; command: in measure_fp8.py")
    print("example,depth,tolerance,relative,of_terms_mean,of_terms_most")
    for label in LABELS:
        case = case_of(label)
        given = on_gpu(case)
        case.kernel[case.grid](*given, **case.options)
        torch.cuda.synchronize()
        ((index, _),) = case.expected.items()
        found = given[index].cpu().numpy().astype(np.float64)
        a, b = (np.asarray(each, dtype=np.float64) for each in case.arguments[:2])
        exact, terms = a @ b, np.abs(a) @ np.abs(b)
        error = np.abs(found - exact)
        relative = error.max() / np.abs(exact).max()
        of_terms = np.log2(error.mean() / terms.mean()), np.log2((error / terms).max())
        print(label, a.shape[1], case.tolerance, f"{relative:.3g}", *(f"{each:.1f}" for each in of_terms), sep=",")


if __name__ == "__main__":
    main()
