"""A stand-in for the CUDA runtime and driver: unmodified programs run their kernels here, on the CPU."""

from .recording import LaunchInfo, Listener, Recording
from .server import Server
from .unset import MemoryBefore

__all__ = ["LaunchInfo", "Listener", "MemoryBefore", "Recording", "Server"]
