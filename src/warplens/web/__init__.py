"""The interactive page of `warplens serve`: sliders for a machine, models side by side, a visitor's own kernels."""
