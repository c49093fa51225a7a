"""Warnings about a trace recorded on a GPU: what it lacks, and how exact it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...traces import CLASS_NAMES
from ..sass_opcodes import WARPGROUP_PRODUCTS, coverage
from .counts import Counts
from .raw import RawLaunch
from .reconstruct import Reconstruction

#: What a trace lacks for asynchronous instructions and other units.
_NOT_MODELLED = (
    (WARPGROUP_PRODUCTS,
     "warpgroup matrix products are timed by their shape; the trace lacks their reads of shared memory and "
     "their asynchrony"),
    (("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"),
     "each matrix product of Blackwell's tensor cores counts as one matrix instruction, which is far too little"),
    (("UBLKCP", "UBLKRED", "UBLKPF", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF"),
     "the trace has at most one access per bulk copy: most of their traffic is missing"),
    (("LDGSTS",),
     "asynchronous copies count as loads from global memory; their stores to shared memory are missing"),
    (("TEX", "TEXS", "TLD", "TLDS", "TLD4", "TLD4S", "TXD", "SULD", "SUST", "SUATOM", "SURED"),
     "texture and surface accesses have no addresses: their traffic is missing"),
    (("SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT", "NANOSLEEP"),
     "waits on barriers in memory and between blocks spin more often than in an untraced run"),
)  # fmt: skip


def not_counted(launches: Sequence[RawLaunch], counted: Mapping[tuple[str, int], Counts]) -> list[str]:
    """Launches whose executions the profiler did not count."""
    without = [launch.readable for launch in launches if (launch.kernel, launch.occurrence) not in counted]
    kernels = list(dict.fromkeys(name.partition("(")[0] for name in without))
    names = ", ".join(kernels[:3]) + (", …" if len(kernels) > 3 else "")
    words = f"Nsight Compute counted nothing for {len(without)} of {len(launches)} launches ({names})"
    return [f"{words}: their exactness is unknown"] if without else []


def warnings_of(launch: RawLaunch, work: Reconstruction) -> list[str]:
    """Warnings about a launch."""
    found = []
    exact = work.exactness
    name = launch.readable.partition("(")[0]
    ran = {work.static.opcode[i] for i in exact.replayed.nonzero()[0].tolist()}
    mnemonics = {opcode.partition(".")[0] for opcode in ran}
    for known, words in _NOT_MODELLED:
        if hit := sorted(mnemonics & set(known)):
            found.append(f"{name}: {', '.join(hit)}: {words}")
    known_share = coverage(
        (work.static.opcode[i], int(exact.replayed[i])) for i in exact.replayed.nonzero()[0].tolist()
    )
    if known_share < 1:
        other = sorted(
            {
                work.static.opcode[i]
                for i in exact.replayed.nonzero()[0].tolist()
                if CLASS_NAMES[work.static.class_id[i]] == "other"
            }
        )
        found.append(f"{name}: unknown opcodes count as class 'other': {', '.join(other[:8])}")
    executed = [item for item, count in zip(work.kernel.instructions, exact.replayed, strict=True) if count]
    calls = [item for item in executed if item.mnemonic == "CALL" and not item.targets]
    called = {item.outside for item in calls}
    if any("LaunchDevice" in each for each in called):
        found.append(f"{name}: kernels that it launches from the device are not in the trace")
    if outside := ", ".join(sorted(each for each in called if each and not each.startswith("__cuda"))):
        found.append(f"{name}: instructions of functions outside the kernel are not in the trace: {outside}")
    if "" in called:
        found.append(f"{name}: functions called through pointers, such as printf and malloc, are not in the trace")
    if launch.foreign:
        found.append(f"{name}: {launch.foreign} accesses of functions outside the kernel are not in the trace")
    if exact.share is not None and exact.share < 0.98:
        found.append(f"{name}: {100 * exact.share:.1f} % of the reconstructed executions agree with the counted ones")
    if exact.counted is None and exact.guessed:
        found.append(f"{name}: {exact.guessed} branches are guessed, because executions were not counted")
    if exact.jumped or exact.lost:
        found.append(f"{name}: {exact.jumped} lanes were off their path, and {exact.lost} exited without a record")
    return found
