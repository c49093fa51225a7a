"""What the API says about the device: answered from the machine description."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ...machine import Gpu

#: Memory of a GPU: descriptions do not say.
MEMORY_BYTES = 64 << 30
#: Width of the memory bus. Programs compute the bandwidth from it and the clock, which is set to give what it is.
_BUS_BITS = 512

#: Fields of cudaDeviceProp: (name, format, number). CUDA 13 has none of those whose number is negative.
_FIELDS = (
    ("name", "256s", 1), ("uuid", "16s", 1), ("luid", "8s", 1), ("luidDeviceNodeMask", "I", 1),
    ("totalGlobalMem", "N", 1), ("sharedMemPerBlock", "N", 1), ("regsPerBlock", "i", 1), ("warpSize", "i", 1),
    ("memPitch", "N", 1), ("maxThreadsPerBlock", "i", 1), ("maxThreadsDim", "i", 3), ("maxGridSize", "i", 3),
    ("clockRate", "i", -1), ("totalConstMem", "N", 1), ("major", "i", 1), ("minor", "i", 1),
    ("textureAlignment", "N", 1), ("texturePitchAlignment", "N", 1), ("deviceOverlap", "i", -1),
    ("multiProcessorCount", "i", 1), ("kernelExecTimeoutEnabled", "i", -1), ("integrated", "i", 1),
    ("canMapHostMemory", "i", 1), ("computeMode", "i", -1), ("maxTexture1D", "i", 1), ("maxTexture1DMipmap", "i", 1),
    ("maxTexture1DLinear", "i", -1), ("maxTexture2D", "i", 2), ("maxTexture2DMipmap", "i", 2),
    ("maxTexture2DLinear", "i", 3), ("maxTexture2DGather", "i", 2), ("maxTexture3D", "i", 3),
    ("maxTexture3DAlt", "i", 3), ("maxTextureCubemap", "i", 1), ("maxTexture1DLayered", "i", 2),
    ("maxTexture2DLayered", "i", 3), ("maxTextureCubemapLayered", "i", 2), ("maxSurface1D", "i", 1),
    ("maxSurface2D", "i", 2), ("maxSurface3D", "i", 3), ("maxSurface1DLayered", "i", 2),
    ("maxSurface2DLayered", "i", 3), ("maxSurfaceCubemap", "i", 1), ("maxSurfaceCubemapLayered", "i", 2),
    ("surfaceAlignment", "N", 1), ("concurrentKernels", "i", 1), ("ECCEnabled", "i", 1), ("pciBusID", "i", 1),
    ("pciDeviceID", "i", 1), ("pciDomainID", "i", 1), ("tccDriver", "i", 1), ("asyncEngineCount", "i", 1),
    ("unifiedAddressing", "i", 1), ("memoryClockRate", "i", -1), ("memoryBusWidth", "i", 1), ("l2CacheSize", "i", 1),
    ("persistingL2CacheMaxSize", "i", 1), ("maxThreadsPerMultiProcessor", "i", 1),
    ("streamPrioritiesSupported", "i", 1), ("globalL1CacheSupported", "i", 1), ("localL1CacheSupported", "i", 1),
    ("sharedMemPerMultiprocessor", "N", 1), ("regsPerMultiprocessor", "i", 1), ("managedMemory", "i", 1),
    ("isMultiGpuBoard", "i", 1), ("multiGpuBoardGroupID", "i", 1), ("hostNativeAtomicSupported", "i", 1),
    ("singleToDoublePrecisionPerfRatio", "i", -1), ("pageableMemoryAccess", "i", 1),
    ("concurrentManagedAccess", "i", 1), ("computePreemptionSupported", "i", 1),
    ("canUseHostPointerForRegisteredMem", "i", 1), ("cooperativeLaunch", "i", 1),
    ("cooperativeMultiDeviceLaunch", "i", -1), ("sharedMemPerBlockOptin", "N", 1),
    ("pageableMemoryAccessUsesHostPageTables", "i", 1), ("directManagedMemAccessFromHost", "i", 1),
    ("maxBlocksPerMultiProcessor", "i", 1), ("accessPolicyMaxWindowSize", "i", 1),
    ("reservedSharedMemPerBlock", "N", 1),
)  # fmt: skip
#: Those that CUDA 12 added.
_LATER = (
    ("hostRegisterSupported", "i", 1), ("sparseCudaArraySupported", "i", 1),
    ("hostRegisterReadOnlySupported", "i", 1), ("timelineSemaphoreInteropSupported", "i", 1),
    ("memoryPoolsSupported", "i", 1),
)  # fmt: skip


def device_properties(gpu: Gpu, version: int) -> bytes:
    """The bytes of cudaDeviceProp as CUDA 11, 12 or 13 lays it out; what lies behind them is left alone."""
    known = _properties(gpu)
    fields = _FIELDS if version < 12 else (*_FIELDS, *_LATER)
    layout, values = "@", list[object]()
    for name, code, number in fields:
        if number < 0 and version >= 13:
            continue
        layout += code if abs(number) == 1 else f"{number}{code}"
        value = known.get(name, b"" if code.endswith("s") else 0)
        given = value if isinstance(value, tuple) else (value,) * abs(number)
        values += given
    return struct.pack(layout, *values)


def _properties(gpu: Gpu) -> Mapping[str, int | bytes | tuple[int, ...]]:
    attributes = device_attributes(gpu)
    return {
        "name": f"{gpu.name} (predicted by warplens)".encode()[:255],
        "uuid": b"warplens",
        "totalGlobalMem": memory_bytes(gpu),
        "sharedMemPerBlock": attributes[8],
        "regsPerBlock": attributes[12],
        "warpSize": attributes[10],
        "memPitch": attributes[11],
        "maxThreadsPerBlock": attributes[1],
        "maxThreadsDim": (1024, 1024, 64),
        "maxGridSize": (2**31 - 1, 65535, 65535),
        "clockRate": attributes[13],
        "totalConstMem": attributes[9],
        "major": attributes[75],
        "minor": attributes[76],
        "textureAlignment": attributes[14],
        "texturePitchAlignment": attributes[51],
        "deviceOverlap": 1,
        "multiProcessorCount": attributes[16],
        "canMapHostMemory": 1,
        "maxTexture1D": 131072,
        "maxTexture1DMipmap": 32768,
        "maxTexture1DLinear": 268435456,
        "maxTexture2D": (131072, 65536),
        "maxTexture2DMipmap": (32768, 32768),
        "maxTexture2DLinear": (131072, 65000, 2097120),
        "maxTexture2DGather": (32768, 32768),
        "maxTexture3D": (16384, 16384, 16384),
        "maxTexture1DLayered": (32768, 2048),
        "maxTexture2DLayered": (32768, 32768, 2048),
        "maxSurface1D": 32768,
        "maxSurface2D": (131072, 65536),
        "maxSurface3D": (16384, 16384, 16384),
        "surfaceAlignment": 512,
        "concurrentKernels": 1,
        "ECCEnabled": 1,
        "pciBusID": 1,
        "asyncEngineCount": attributes[40],
        "unifiedAddressing": 1,
        "memoryClockRate": attributes[36],
        "memoryBusWidth": attributes[37],
        "l2CacheSize": attributes[38],
        "maxThreadsPerMultiProcessor": attributes[39],
        "streamPrioritiesSupported": 1,
        "globalL1CacheSupported": 1,
        "localL1CacheSupported": 1,
        "sharedMemPerMultiprocessor": attributes[81],
        "regsPerMultiprocessor": attributes[82],
        "managedMemory": 1,
        "singleToDoublePrecisionPerfRatio": 2,
        "concurrentManagedAccess": 1,
        "computePreemptionSupported": 1,
        "cooperativeLaunch": 1,
        "sharedMemPerBlockOptin": attributes[97],
        "maxBlocksPerMultiProcessor": attributes[106],
        "reservedSharedMemPerBlock": attributes[111],
        "hostRegisterSupported": 1,
        "memoryPoolsSupported": 1,
    }


def device_attributes(gpu: Gpu) -> dict[int, int]:
    """Values by the number of cudaDeviceAttr, which is that of CUdevice_attribute."""
    full = gpu.with_defaults
    major, minor = capability(gpu)
    rules = full.occupancy
    bandwidth = float(full.dram.bandwidth_bytes_per_s or 0.0)
    shared_optin = int(rules.shared_memory_per_block_bytes or full.shared_memory_bytes or 49152)
    return {
        1: int(rules.max_threads_per_block or 1024),
        2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535,
        8: 49152, 9: 65536, 10: int(full.warp_size), 11: 2**31 - 1,
        12: int(rules.registers_per_block or full.registers or 65536),
        13: int(float(full.clock_hz) / 1e3), 14: 512, 15: 1, 16: int(full.sms), 17: 0, 18: 0, 19: 1, 20: 0,
        30: 512, 31: 1, 32: 1, 33: 1, 34: 0, 35: 0,
        36: int(bandwidth / (2 * _BUS_BITS / 8) / 1e3), 37: _BUS_BITS,
        38: int(full.llc.size_bytes or 0), 39: int(full.max_warps) * int(full.warp_size), 40: 3, 41: 1,
        51: 32, 75: major, 76: minor, 78: 1, 79: 1, 80: 1, 81: int(full.shared_memory_bytes or shared_optin),
        82: int(full.registers or 65536), 83: 1, 84: 0, 85: 0, 86: 0, 87: 2, 88: 0, 89: 1, 90: 1, 91: 0, 95: 1,
        97: shared_optin, 99: 1, 100: 0, 101: 1, 106: int(full.max_blocks or 32),
        111: int(rules.shared_memory_reserved_bytes or 0), 115: 1, 120: int(major >= 9),
    }  # fmt: skip


def capability(gpu: Gpu) -> tuple[int, int]:
    """Compute capability; 9.0 where the description has none."""
    major, _, minor = str(gpu.compute_capability or "9.0").partition(".")
    return int(major), int(minor or 0)


def memory_bytes(gpu: Gpu) -> int:
    return MEMORY_BYTES
