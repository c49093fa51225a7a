"""Requests of the suite's kernels to L2, and the part of the L1 that their shared memory takes, by Nsight Compute.

On the machine with the GPU, in this folder:

    ncu --clock-control none --csv --page raw --print-units base --log-file ncu.csv \
        --metrics "$(python3 measure_requests.py metrics)" -k "regex:$(python3 measure_suite.py kernels)" \
        python3 measure_suite.py run plan.json --parts medium --repeats 1

and here, to make the committed table of it:

    python benchmarks/h200/measure_requests.py plan.json ncu.csv requests.csv  # for validate/data/h200
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

METRICS = {
    "requests": "lts__t_requests_srcunit_tex.sum",
    "tag_lookups": "lts__t_tag_requests.sum",
    "tag_percent": "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
    "port_percent": "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "l1_percent": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "shared_memory_bytes": "launch__shared_mem_config_size",
}


def main(plan: Path, report: Path, output: Path) -> None:
    document = json.loads(plan.read_text())
    rows = list(csv.DictReader(line for line in report.read_text().splitlines() if line.startswith('"')))[1:]
    if len(rows) != len(document["launches"]):
        raise SystemExit(f"{len(rows)} rows of ncu for {len(document['launches'])} launches")
    with output.open("w", encoding="utf-8", newline="") as file:
        print(f"# gpu: {document['gpu']}\n# clocks: {document['nvidia_smi']}", file=file)
        print("# command: benchmarks/h200/measure_requests.py", file=file)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", *METRICS])
        for launch, row in zip(document["launches"], rows, strict=True):
            values = (float(row[name].replace(",", "")) for name in METRICS.values())
            writer.writerow([launch["kernel"], *(f"{value:g}" for value in values)])


if __name__ == "__main__":
    if sys.argv[1:] == ["metrics"]:
        print(",".join(METRICS.values()))
    else:
        main(*map(Path, sys.argv[1:4]))
