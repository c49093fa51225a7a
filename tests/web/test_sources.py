"""Sources that visitors paste: no file of this machine gets into them."""

from __future__ import annotations

import time

import pytest

from warplens.frontends.cuda.signatures import signatures
from warplens.web.errors import FieldError
from warplens.web.sources import check_source, launch_of

KERNEL = 'extern "C" __global__ void scale(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }\n'
LAUNCH = {
    "source": KERNEL,
    "grid": [4],
    "block": [32],
    "arguments": [{"dtype": "float32", "shape": [128]}, {"dtype": "int32", "value": 128}],
}


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '#include "../../etc/passwd"',
        '  #  include\t"secret.h"',
        '#/**/include "/etc/passwd"',
        '# /* a\n b */ include "/etc/passwd"',
        '#inc\\\nlude "/etc/passwd"',
        '#inc\\ \nlude "/etc/passwd"',
        '#inc??/\nlude "/etc/passwd"',
        '%:include "/etc/passwd"',
        '??=include "/etc/passwd"',
        '#define FILE "/etc/passwd"\n#include FILE',
        '#include_next "/etc/passwd"',
        '#import "/etc/passwd"',
        'const char s[] = {\n#embed "/etc/passwd"\n};',
        '#if __has_include("/etc/passwd")\n#endif',
        'const char *s = R"(/*)";\n#include "/etc/passwd"\nconst char *t = R"(*/)";',
        '/* // */ #include "/etc/passwd"',
        '#include <cuda_fp16.h> /*\n*/ \n#include "/etc/passwd"',
        '#\\u0069nclude "/etc/passwd"',
        '#include "cuda_fp16.h/../../../etc/passwd"',
        '#include "/etc/passwd"\r#pragma once',
    ],
)
def test_files_cannot_be_included(line: str) -> None:
    with pytest.raises(FieldError) as caught:
        check_source(f"{line}\n{KERNEL}")
    assert caught.value.field == "source"


@pytest.mark.parametrize(
    "line",
    [
        "#include <cuda_fp16.h>",
        '#include "stdint.h"',
        "#include <cuda/std/cstdint>  // types",
        "#include <cuda/pipeline>",
        "#include <cooperative_groups/memcpy_async.h>",
        "#include <cuda_pipeline.h>",
        "#include <thrust/tuple.h>",
        '#include "cuda_pipeline.h"',
        "// include the borders",
        "int import_count = 0; // embed nothing",
        "#define N 4",
    ],
)
def test_headers_of_the_compiler_and_ordinary_words_are_fine(line: str) -> None:
    check_source(f"{line}\n{KERNEL}")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": ""}, "source"),
        ({"source": 7}, "source"),
        ({"source": "x" * 70_000}, "source"),
        ({"source": "int x;"}, "kernel"),
        ({"source": KERNEL + "\0"}, "source"),
        ({"kernel": "a(); system"}, "kernel"),
        ({"grid": [0]}, "grid"),
        ({"grid": None}, "grid"),
        ({"grid": ["many"]}, "grid"),
        ({"block": [1024, 2]}, "block"),
        ({"dynamic_shared_memory_bytes": -1}, "dynamic_shared_memory_bytes"),
        ({"arguments": [{"dtype": "float32", "shape": [2**31]}]}, "arguments.0.shape"),
        (
            {"arguments": [{"dtype": "float32", "shape": [2**26]}, {"dtype": "int8", "shape": [1]}]},
            "arguments.0.shape",
        ),
        ({"arguments": [{"dtype": "complex", "shape": [1]}]}, "arguments.0.dtype"),
        ({"arguments": [{"dtype": "int32", "value": "x"}]}, "arguments.0.value"),
        ({"arguments": [{"dtype": "int8", "shape": [4], "fill": "file", "file": "/etc/passwd"}]}, "arguments.0.fill"),
        ({"arguments": [{"file": "/etc/passwd"}]}, "arguments.0.fill"),
        ({"arguments": [{"function": "x.py:f", "shape": [1], "dtype": "int8"}]}, "arguments.0.fill"),
        ({"arguments": [3]}, "arguments.0.fill"),
        ({"arguments": [{"members": 3}]}, "arguments.0"),
        ({"arguments": [{"members": [{"file": "/etc/passwd"}]}]}, "arguments.0.fill"),
        ({"arguments": [{"members": [{"members": [{"file": "/etc/passwd"}]}]}]}, "arguments.0"),
        ({"arguments": [{}] * 40}, "arguments"),
    ],
)
def test_launches_are_checked_field_by_field(change: dict, field: str) -> None:
    with pytest.raises(FieldError) as caught:
        launch_of(LAUNCH | change)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "text",
    ["__global__ ", "/*", "f(", "__launch_bounds__(", "\\ ", "# ", "__global__ void f(", "a" * 99 + "*"],
)
def test_no_text_takes_long_to_look_at(text: str) -> None:
    source = (text * 64_000)[:64_000]
    began = time.thread_time()
    for look in (check_source, signatures):
        look(source)
    assert time.thread_time() - began < 3.0


def test_keys_that_name_files_are_not_taken_over() -> None:
    launch = launch_of(LAUNCH | {"python": "x.py:f", "ptx": "/etc/passwd", "options": ["-I/etc"]})
    assert launch.language == "cuda" and not launch.options
