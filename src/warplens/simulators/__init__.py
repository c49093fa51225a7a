"""Simulators that run a kernel's warps event by event."""
