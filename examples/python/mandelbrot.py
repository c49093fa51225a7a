"""A numba-cuda kernel that counts the steps until each point of a plane escapes."""

from numba import cuda


@cuda.jit
def mandelbrot(left, top, step, most, counts):
    column, row = cuda.grid(2)
    if row >= counts.shape[0] or column >= counts.shape[1]:
        return
    c_x = left + column * step
    c_y = top + row * step
    x = y = step * 0  # of the same type as the arguments
    taken = 0
    while taken < most and x * x + y * y < 4:
        x, y = x * x - y * y + c_x, 2 * x * y + c_y
        taken += 1
    counts[row, column] = taken
