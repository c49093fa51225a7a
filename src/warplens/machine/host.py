"""What lies between a GPU and its host: the link that copies use, and what issuing work costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .fields import number


@dataclass(frozen=True)
class Host:
    """The side of the host. Defaults are those of a current server with PCIe 4.0."""

    bandwidth_bytes_per_s: Any = number(
        "bandwidth of long copies between pinned memory of the host and the device, each way", above=0.0, default=25e9
    )
    pageable_bytes_per_s: Any = number("the same for pageable memory of the host", above=0.0, default=10e9)
    latency_seconds: Any = number("time of a copy besides its bytes", minimum=0.0, default=6e-6)
    issue_seconds: Any = number("time of the host for a launch or copy", minimum=0.0, default=2.5e-6)
