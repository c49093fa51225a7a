"""Energies from the power of micro-benchmarks, as measured on the H200 and as made up by hand."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from warplens.characterize.energy import NEEDED, power_values, read_energy
from warplens.cli.characterize import characterize
from warplens.errors import FileError
from warplens.machine import load_gpu

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "h200"
MEASURED = BENCHMARKS / "energy.json"


def made_up(**watts: float) -> dict[str, Any]:
    """100 W whatever runs but for what is given; a second and 10^12 instructions or bytes of each, so 1 W is 1 pJ."""
    counts = {"seconds": 1.0, "warp_instructions": 1e12, "bytes": 1e12, "others": 0.0}
    rows = [{"kind": "micro", "name": name, "watts": watts.get(name, 100.0), **counts} for name in NEEDED]
    return {"gpu": "made up", "limit_watts": 300, "rows": rows}


def test_power_above_that_of_idle_warps_is_energy() -> None:
    found = power_values(
        made_up(idle=40.0, fp32=350.0, dram_read=150.0, dram_write=170.0, l2_read=110.0, l2_write=110.0)
    )
    assert (found["idle_watts"], found["active_watts"], found["limit_watts"]) == (40, 100, 300)
    assert found["fp32_picojoules"] == pytest.approx(250) and found["fp64_picojoules"] == 0
    assert found["dram_picojoules_per_byte"] == pytest.approx(60 - 10)  # the nearer level goes off


def test_instructions_beside_an_access_go_off() -> None:
    document = made_up(int32=110.0, load_shared=190.0)
    next(row for row in document["rows"] if row["name"] == "load_shared")["others"] = 2e12
    assert power_values(document)["shared_picojoules"] == pytest.approx(90 - 2 * 10)


def test_the_description_has_what_ships(tmp_path: Path) -> None:
    """The power of the machine file comes from these measurements."""
    output = tmp_path / "gpu.toml"
    arguments = ["--from", "h200", "--energy", str(MEASURED), "-o", str(output)]
    result = CliRunner().invoke(characterize, arguments)
    assert result.exit_code == 0, result.output
    made, ships = load_gpu(str(output)), load_gpu("h200")
    for name in power_values(json.loads(MEASURED.read_text())):
        assert made.get(f"power.{name}") == ships.get(f"power.{name}"), name
        assert made.sources[f"power.{name}"].text.endswith("(measure_energy.py)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not what measure_energy.py writes"),
        ("[]", "not what measure_energy.py writes"),
        (json.dumps(made_up() | {"rows": made_up()["rows"][:-1]}), f"lacks the micro-benchmarks {NEEDED[-1]}"),
        (json.dumps(made_up()), "measured on 'made up', the other benchmarks on 'NVIDIA H200'"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "energy.json"
    path.write_text(text)
    with pytest.raises(FileError, match=re.escape(message)):
        read_energy(path, "NVIDIA H200")


@pytest.mark.slow
def test_the_suite_on_the_h200(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked: a mean error of at most 15 %, and a rank correlation of at least 0.95."""
    spec = importlib.util.spec_from_file_location("fit_energy", BENCHMARKS / "fit_energy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.check(MEASURED)
    found = re.search(
        r"^predicted: mean error ([\d.]+)%, rank ([\d.]+), (\d+) kernels", capsys.readouterr().out, re.M
    )
    assert found is not None
    error, rank, kernels = map(float, found.groups())
    assert error <= 15 and rank >= 0.95 and kernels >= 40
