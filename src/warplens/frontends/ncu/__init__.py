"""Reports of Nsight Compute."""

from .profile import KernelProfile, profiles_by_kernel, read_profiles
from .stalls import STALL_GROUPS, stall_shares

__all__ = ["STALL_GROUPS", "KernelProfile", "profiles_by_kernel", "read_profiles", "stall_shares"]
