"""The GPU in this machine: micro-benchmarks, their analysis, and a machine description made from them."""
