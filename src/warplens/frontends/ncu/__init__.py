"""Nsight Compute: what its reports say of kernels."""

from .profile import KernelProfile, read_profiles
from .stalls import GROUPS, STALL_GROUPS, stall_shares

__all__ = ["GROUPS", "STALL_GROUPS", "KernelProfile", "read_profiles", "stall_shares"]
