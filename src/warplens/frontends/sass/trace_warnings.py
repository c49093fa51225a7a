"""What a reader of a trace that was made on a GPU has to know about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...traces import CLASS_NAMES
from ..sass_opcodes import WARPGROUP_PRODUCTS, coverage
from .counts import Counts
from .raw import RawLaunch
from .reconstruct import Reconstruction

#: What traces do not say about instructions that do their work later or elsewhere.
_NOT_MODELLED = (
    (WARPGROUP_PRODUCTS,
     "warpgroup matrix products take the time of their shape; their reads of shared memory and that they end later "
     "are not in the trace"),
    (("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"),
     "matrix products of Blackwell's tensor cores count as one matrix instruction each, far less than they are"),
    (("UBLKCP", "UBLKRED", "UBLKPF", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF"),
     "bulk copies are in the trace as one access at most: most of their traffic is missing"),
    (("LDGSTS",),
     "asynchronous copies are loads from global memory: their stores to shared memory are not in the trace"),
    (("TEX", "TEXS", "TLD", "TLDS", "TLD4", "TLD4S", "TXD", "SULD", "SUST", "SUATOM", "SURED"),
     "textures and surfaces are in the trace without addresses: their traffic is missing"),
    (("SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT", "NANOSLEEP"),
     "waits on barriers in memory and between blocks spin more often while being traced"),
)  # fmt: skip


def not_counted(launches: Sequence[RawLaunch], counted: Mapping[tuple[str, int], Counts]) -> list[str]:
    """Launches whose executions the profiler did not count."""
    without = [launch.readable for launch in launches if (launch.kernel, launch.occurrence) not in counted]
    kernels = list(dict.fromkeys(name.partition("(")[0] for name in without))
    names = ", ".join(kernels[:3]) + (", …" if len(kernels) > 3 else "")
    words = f"Nsight Compute counted nothing for {len(without)} of {len(launches)} launches ({names})"
    return [f"{words}: how exact they are is not known"] if without else []


def warnings_of(launch: RawLaunch, work: Reconstruction) -> list[str]:
    """What a reader of this launch's trace has to know."""
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
        found.append(f"{name}: opcodes that are not known are of class 'other': {', '.join(other[:8])}")
    executed = [item for item, count in zip(work.kernel.instructions, exact.replayed, strict=True) if count]
    calls = [item for item in executed if item.mnemonic == "CALL" and not item.targets]
    called = {item.outside for item in calls}
    if any("LaunchDevice" in each for each in called):
        found.append(f"{name}: the kernels that it launches are not in the trace")
    if outside := ", ".join(sorted(each for each in called if each and not each.startswith("__cuda"))):
        found.append(f"{name}: instructions of functions outside the kernel are not in the trace: {outside}")
    if "" in called:
        found.append(f"{name}: what is called through pointers, as printf and malloc are, is not in the trace")
    if launch.foreign:
        found.append(f"{name}: {launch.foreign} accesses of functions outside the kernel are not in the trace")
    if exact.share is not None and exact.share < 0.98:
        found.append(f"{name}: reconstructed executions fit the counted ones by {100 * exact.share:.1f} %")
    if exact.counted is None and exact.guessed:
        found.append(f"{name}: {exact.guessed} branches are guesses, for want of counted executions")
    if exact.jumped or exact.lost:
        found.append(f"{name}: {exact.jumped} lanes were found off their path, {exact.lost} ended without a record")
    return found
