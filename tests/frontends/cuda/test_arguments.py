"""Arguments of launches: values, fills, files, functions and limits."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.errors import InputError, WorkloadError
from warplens.frontends.cuda import arguments as arguments_module
from warplens.frontends.cuda.arguments import (
    ArrayArgument,
    ScalarArgument,
    build_arguments,
    function_of,
    scalar_of,
)
from warplens.frontends.cuda.dtypes import DTYPES

F32, I32, U8 = np.dtype("float32"), np.dtype("int32"), np.dtype("uint8")


@given(st.sampled_from(sorted(DTYPES)), st.one_of(st.booleans(), st.integers(), st.floats()))
def test_a_scalar_is_its_value_or_refused(name: str, value: bool | int | float) -> None:
    dtype = DTYPES[name]
    try:
        scalar = scalar_of(dtype, value)
    except ValueError as error:
        assert repr(value) in str(error)
        return
    assert scalar.dtype == dtype
    if dtype.kind in "iub":
        assert int(scalar) == value  # type: ignore[call-overload]
    elif math.isfinite(value):
        assert math.isfinite(float(scalar))  # type: ignore[arg-type]
        assert abs(float(scalar) - value) <= abs(value) * 2.0**-10 + 2.0**-24  # type: ignore[arg-type]


def test_arrays_are_filled_as_asked() -> None:
    def filled(**how: object) -> np.ndarray:
        array = ArrayArgument(**{"dtype": F32, "shape": (2, 3)} | how).build()  # type: ignore[arg-type]
        assert isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable
        return array

    assert not filled().any()
    assert (filled(fill="ones") == 1).all()
    assert (filled(fill="constant", value=np.float32(2.5)) == 2.5).all()
    assert filled(fill="arange", start=1, step=0.5).tolist() == [[1, 1.5, 2], [2.5, 3, 3.5]]
    assert filled(dtype=np.dtype("int64"), fill="arange", start=2**62, step=-3)[1, 2] == 2**62 - 15
    big = filled(dtype=np.dtype("uint64"), fill="arange", start=2**64 - 6)
    assert big[1, 2] == np.uint64(2**64 - 1)


def test_random_arrays_repeat_and_stay_in_range() -> None:
    floats = ArrayArgument(F32, (1000,), "random", seed=3, low=-2, high=5)
    assert np.array_equal(floats.build(), floats.build())
    assert not np.array_equal(floats.build(), ArrayArgument(F32, (1000,), "random", seed=4, low=-2, high=5).build())
    assert floats.build().min() >= -2 and floats.build().max() < 5 and floats.build().dtype == F32  # type: ignore[union-attr]
    whole = ArrayArgument(U8, (5000,), "random", low=250, high=256).build()
    assert set(np.unique(whole)) == set(range(250, 256))  # type: ignore[arg-type]
    assert set(np.unique(ArrayArgument(np.dtype("bool"), (100,), "random").build())) == {False, True}  # type: ignore[arg-type]
    assert ArrayArgument(np.dtype("float16"), (9,), "random").build().dtype == np.float16


def test_a_range_that_does_not_fit_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"here: .*arange.*256.*uint8"):
        ArrayArgument(U8, (257,), "arange", where="here").build()


def test_files_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    values = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    np.save(path, values)
    built = ArrayArgument(fill="file", path=path).build()
    assert np.array_equal(built, values) and built.flags.c_contiguous and built.flags.writeable  # type: ignore[union-attr]

    def refused(match: str, **wrong: object) -> None:
        with pytest.raises(WorkloadError, match=match):
            ArrayArgument(**{"fill": "file", "path": path, "where": "here"} | wrong).build()  # type: ignore[arg-type]

    refused("int32, not float32", dtype=F32)
    refused(r"shape \[2, 3\], not \[6\]", shape=(6,))
    refused("cannot be read", path=tmp_path / "none.npy")
    refused("cannot be read", path=tmp_path)
    path.write_bytes(b"PK\3\4 not an array")
    refused("not a .npy file")
    path.write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'")
    refused("not a usable .npy file")
    np.save(path, np.array([{"pickled": 1}], dtype=object))
    refused("not a usable .npy file")
    np.save(path, np.array(["text"]))
    refused("dtype <U4; valid: bool")


def test_functions_get_the_shape_and_dtype(tmp_path: Path) -> None:
    path = tmp_path / "fill.py"
    path.write_text(
        "import numpy as np\n"
        "def ramp(shape, dtype): return np.linspace(0, 1, shape[0]).astype(dtype)\n"
        "def free(shape, dtype): assert shape is None and dtype is None; return np.ones(3, np.int32)\n"
        "def broken(shape, dtype): raise KeyError('lost')\n"
        "def wide(shape, dtype): return [1.0, 2.0]\n"
    )

    def call(name: str, **how: object) -> object:
        return ArrayArgument(fill="function", path=path, function=name, where="here", **how).build()  # type: ignore[arg-type]

    assert np.array_equal(call("ramp", dtype=F32, shape=(5,)), np.linspace(0, 1, 5, dtype=np.float32))
    assert np.array_equal(call("free"), [1, 1, 1])
    for name, match in (("broken", "broken failed: KeyError"), ("wide", "float64, not float32"), ("rmp", "'ramp'")):
        with pytest.raises(WorkloadError, match=match):
            call(name, dtype=F32)
    path.write_text("import nothing_of_this_name\n")
    with pytest.raises(WorkloadError, match="cannot be imported: ModuleNotFoundError"):
        call("ramp")
    with pytest.raises(WorkloadError, match="no such Python file"):
        function_of(tmp_path / "none.py", "f", "here")


def test_the_arrays_of_a_launch_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments_module, "MOST_ARGUMENT_BYTES", 1000)
    array = ArrayArgument(F32, (200,))
    assert len(build_arguments([array, ScalarArgument(np.int32(1))], "here")) == 2
    with pytest.raises(InputError, match=r"here: .*1,600 bytes together; at most 1,000"):
        build_arguments([array, array], "here")
    np.save(tmp_path / "x.npy", np.zeros(200, np.float32))
    kept = ArrayArgument(fill="file", path=tmp_path / "x.npy")
    with pytest.raises(InputError, match="1,600 bytes together"):
        build_arguments([array, kept], "here")
