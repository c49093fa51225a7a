"""Compiler options of workload files: those that neither read nor write files of their own, and trust in the rest."""

from __future__ import annotations

import os
import re

#: Set by `--trust`, for this process and those it starts.
TRUST_VARIABLE = "WARPLENS_TRUST"

_FLAGS = (
    "G|device-debug|lineinfo|generate-line-info|dopt|use_fast_math|extra-device-vectorization|ewp|restrict|w"
    "|disable-warnings|default-device|device-as-default-execution-space|device-int128|device-float128|minimal"
    "|brief-diagnostics|no-source-include|relocatable-device-code|rdc|Wreorder|inline-cache-stats"
)
_VALUES = (
    "std|maxrregcount|ftz|prec-sqrt|prec-div|fmad|dopt|rdc|relocatable-device-code|modify-stack-limit|brief-diagnostics"
    "|builtin-move-forward|builtin-initializer-list|diag-error|diag-suppress|diag-warn|extra-device-vectorization"
    "|optimization-info|device-int128|device-float128"
)
#: NVRTC's options that change the code or its warnings, and folders for `#include`.
_HARMLESS = re.compile(
    rf"-[DUI].*|--(define-macro|undefine-macro)=.*|--include-path(=.*)?|--?({_FLAGS})|--?({_VALUES})=[\w+,.-]*", re.S
)


def is_trusted() -> bool:
    """Whether the user vouches for the files that this process reads."""
    return os.environ.get(TRUST_VARIABLE, "") not in ("", "0")


def refused_option(options: list[str]) -> str | None:
    """The first option that needs the user's trust: it may read or write any file."""
    if is_trusted():
        return None
    found = (option for option in options if option.startswith("-") and not _HARMLESS.fullmatch(option))
    return next(found, None)
