"""Kernels have the names that their source gives them."""

from dataclasses import replace

import pytest

from warplens.formatting import bare_name
from warplens.workload.workload import workload_of_trace

from .traces import made_trace


@pytest.mark.parametrize(
    ("readable", "shown"),
    [
        ("price(float const*, float*, int)", "price"),
        ("void scan<float, (Op)1>(float*)", "scan<float, (Op)1>"),
        ("void (anonymous namespace)::run<A<int> >(void (*)(int))", "(anonymous namespace)::run<A<int> >"),
        ("plain", "plain"),
        ("", ""),
        (")", ")"),
    ],
)
def test_types_and_parameters_are_left_out(readable, shown):
    assert bare_name(readable) == shown


def test_a_trace_that_tells_it_has_the_name_in_the_source():
    trace = made_trace()
    header = replace(trace.header, kernel="_Z3runPi", extra={**trace.header.extra, "readable_name": "run(int*)"})
    assert workload_of_trace(replace(trace, header=header)).name == "run"
    assert workload_of_trace(trace).name == trace.header.kernel
