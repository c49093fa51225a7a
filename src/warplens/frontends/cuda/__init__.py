"""CUDA C++ and Python kernels: sources to PTX, and the arguments of their launches."""
