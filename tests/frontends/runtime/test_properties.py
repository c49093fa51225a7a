"""What programs are told about the device: CUDA's limits, and what the machine description says."""

import struct

import pytest

from warplens.frontends.runtime.properties import _FIELDS, _LATER, device_attributes, device_properties
from warplens.machine import load_gpu

#: Of an H200, by the number of cudaDeviceAttr.
ATTRIBUTES = {
    1: 1024,
    2: 1024,
    3: 1024,
    4: 64,
    5: 2147483647,
    6: 65535,
    7: 65535,
    8: 49152,
    9: 65536,
    10: 32,
    11: 2147483647,
    12: 65536,
    14: 512,
    15: 1,
    16: 132,
    17: 0,
    18: 0,
    19: 1,
    20: 0,
    30: 512,
    31: 1,
    32: 1,
    33: 1,
    34: 0,
    35: 0,
    37: 512,
    38: 62914560,
    39: 2048,
    40: 3,
    41: 1,
    51: 32,
    75: 9,
    76: 0,
    78: 1,
    79: 1,
    80: 1,
    81: 233472,
    82: 65536,
    83: 1,
    84: 0,
    85: 0,
    86: 0,
    87: 2,
    88: 0,
    89: 1,
    90: 1,
    91: 0,
    95: 1,
    97: 232448,
    99: 1,
    100: 0,
    101: 1,
    106: 32,
    111: 1024,
    115: 1,
    120: 1,
}
#: Fields of cudaDeviceProp that are the same for all GPUs.
LIMITS = {
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2147483647, 65535, 65535),
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
}
SWITCHES = (
    *("deviceOverlap", "canMapHostMemory", "concurrentKernels", "ECCEnabled", "pciBusID", "unifiedAddressing"),
    *("streamPrioritiesSupported", "globalL1CacheSupported", "localL1CacheSupported", "managedMemory"),
    *("concurrentManagedAccess", "computePreemptionSupported", "cooperativeLaunch", "hostRegisterSupported"),
    "memoryPoolsSupported",
)


def unpacked(raw, version):
    """Fields by name."""
    kept = [each for each in (*_FIELDS, *(_LATER if version >= 12 else ())) if each[2] > 0 or version < 13]
    values = iter(struct.unpack("@" + "".join(c if abs(n) == 1 else f"{n}{c}" for _, c, n in kept), raw))
    found = {}
    for name, _, number in kept:
        row = tuple(next(values) for _ in range(abs(number)))
        found[name] = row[0] if len(row) == 1 else row
    return found


def test_attributes_of_an_h200():
    gpu = load_gpu("h200")
    found = device_attributes(gpu)
    assert found.pop(13) == 1980000, "kHz"
    assert found.pop(36) * 1e3 * 2 * found[37] / 8 == pytest.approx(gpu.dram.bandwidth_bytes_per_s, rel=1e-4)
    assert found == ATTRIBUTES


def test_what_a_description_lacks_is_usual():
    found = device_attributes(load_gpu("mdm2020"))
    assert (found[39], found[111]) == (32 * int(load_gpu("mdm2020").max_warps), 0)


@pytest.mark.parametrize("version", [11, 12, 13])
def test_properties_in_the_layout_of_each_toolkit(version):
    found = unpacked(device_properties(load_gpu("h200"), version), version)
    assert found["name"].rstrip(b"\0") == b"h200 (predicted by warplens)"
    assert {name: found[name] for name in LIMITS if name in found} == {n: v for n, v in LIMITS.items() if n in found}
    assert all(found[name] == 1 for name in SWITCHES if name in found)
    assert found.get("singleToDoublePrecisionPerfRatio", 2) == 2
    assert ("clockRate" in found) == (version < 13) and ("memoryPoolsSupported" in found) == (version >= 12)
    assert (found["sharedMemPerBlockOptin"], found["maxBlocksPerMultiProcessor"]) == (232448, 32)
