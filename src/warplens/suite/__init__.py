"""CUDA kernels that ship with warplens: source, inputs at three sizes, NumPy reference."""
