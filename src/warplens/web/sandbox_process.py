"""The sandboxed process that compiles and runs a visitor's kernel.

`python -m warplens.web.sandbox_process FOLDER < request` writes FOLDER/trace.wlt and prints the outcome as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import site
import sys
from pathlib import Path
from typing import Any

from .process_limits import limit_resources, restrict_access

MEMORY_BYTES = 4 * 2**30
CPU_SECONDS = 60
FILE_BYTES = 256 * 2**20
#: Time and thread instructions of the launch itself.
RUN_SECONDS = 20.0
RUN_INSTRUCTIONS = 400_000_000


def main(folder: Path) -> None:
    request = json.loads(sys.stdin.read())
    limit_resources(memory_bytes=MEMORY_BYTES, cpu_seconds=CPU_SECONDS, file_bytes=FILE_BYTES)
    package = Path(__file__).parents[2]
    readable: list[Path | str] = [sys.prefix, sys.base_prefix, *site.getsitepackages(), package]
    readable += ["/usr", "/lib", "/lib64", "/etc/ld.so.cache"]
    readable += ["/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"]
    own: list[Path | str] = [folder, os.environ["WARPLENS_CACHE_DIR"], os.environ["NUMBA_CACHE_DIR"]]
    confined = restrict_access([*readable, "/dev/urandom"], [*own, "/dev/null"])
    print(json.dumps({"confined": confined, **_run(request, folder)}))


def _run(request: Any, folder: Path) -> dict[str, Any]:
    from ..errors import WarplensError
    from ..traces import TraceWriter
    from ..workload.source import RecordLimit, record_launch
    from .errors import FieldError
    from .kernels import MOST_BLOCKS
    from .sources import launch_of

    try:
        record = RecordLimit(blocks=MOST_BLOCKS, most_instructions=RUN_INSTRUCTIONS, most_seconds=RUN_SECONDS)
        launch = dataclasses.replace(launch_of(request), record=record)
        with TraceWriter(folder / "trace.wlt") as writer:
            execution = record_launch(launch, consume=writer.write)
            writer.end_launch(execution.header, execution.static)
    except FieldError as error:
        return {"field": error.field, "error": str(error)}
    except MemoryError:
        return {
            "field": "source",
            "error": f"needs more than {MEMORY_BYTES >> 30} GiB of memory, the limit for kernels of a page",
        }
    except WarplensError as error:
        return {"field": "source", "error": str(error).replace("Raise the limit", "Use a smaller problem")}
    return {"instructions": execution.instructions}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
