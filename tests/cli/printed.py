"""A workload for commands to run on, and what they print."""

from __future__ import annotations

import json

WORKLOAD = """\
name = "mine"

[machine]
name = "mdm2020"

[launch]
warps_per_sm = 8

[[interval_profile.intervals]]
instructions = 4
stall_cycles = 340
read_misses = 32
"""


def document(out):
    """The JSON on stdout, and nothing else; NaN and Infinity are not JSON."""

    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    return json.loads(out, parse_constant=refuse)


def rows(text):
    """First word of a line -> the line."""
    return {line.split()[0]: line for line in text.splitlines() if line.split()}
