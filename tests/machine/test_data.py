"""The machines that ship with warplens: complete, sourced, and equal to the papers' tables."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import warplens.machine
from warplens.machine import compute_capabilities, gpu_names, load_gpu, parameters

DATA = Path(warplens.machine.__file__).parent / "data"
NAMES = """
    hong-kim-example 8800gtx fx5600 8800gt gtx280 lemeire-example gpumech2014 mdm2019 mdm2020 tesla-c2050
    gtx650ti k620 gtx1060 rtx2070 r9-380 accelsim-mdm h200 v100 rtx2080ti titan-rtx a100-40gb a100-40gb-pcie a100-80gb
    rtx3060 rtx3080 rtx3090 rtx-a4000 rtx-a6000 l40s rtx4080 rtx4090 h100-pcie h100-sxm b200 rtx5090
"""


def test_the_machines_of_the_interface_are_there():
    assert gpu_names() == sorted(NAMES.split())


@pytest.mark.parametrize("name", gpu_names())
def test_every_number_has_a_source(name):
    gpu = load_gpu(name)
    assert gpu.name == name
    assert gpu.description.endswith(".")
    for path in parameters():
        if gpu.get(path) is not None:
            assert gpu.sources[path].kind in {"datasheet", "paper", "measured", "derived", "assumed"}, path
            assert len(gpu.sources[path].text) > 10, path
    assert set(gpu.sources) == {path for path in parameters() if gpu.get(path) is not None}


@pytest.mark.parametrize("name", [*gpu_names(), *(f"capabilities/{each}" for each in compute_capabilities())])
def test_every_declared_source_is_used(name):
    data = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
    used = set()

    def walk(table):
        if "value" in table:
            used.add(table["source"])
        else:
            for value in table.values():
                if isinstance(value, dict):
                    walk(value)

    declared = data.pop("sources")
    walk(data)
    assert used == set(declared)


@pytest.mark.parametrize("name", gpu_names())
def test_every_machine_times_computation_and_memory(name):
    gpu = load_gpu(name)
    for instruction_class in ("fp32", "int32", "barrier", "load_shared", "load_global", "store_global"):
        timing = gpu.timing(instruction_class)
        assert timing.latency_cycles > 0
        assert timing.interval_cycles > 0
        assert timing.subsystem


# -- Hong & Kim, Tables 1 to 3 and 6 -------------------------------------------------------


def dram(gpu):
    d = gpu.dram
    return (
        d.bandwidth_bytes_per_s / 1e9,
        d.latency_cycles,
        d.departure_coalesced_cycles,
        d.departure_uncoalesced_cycles,
        d.uncoalesced_transactions,
    )


@pytest.mark.parametrize(
    ("name", "sms", "clock", "memory"),
    [
        ("hong-kim-example", 16, 1e9, (80, 420, 4, 10, 32)),
        ("8800gtx", 16, 1.35e9, (86.4, 420, 4, 10, 32)),
        ("fx5600", 16, 1.35e9, (76.8, 420, 4, 10, 32)),
        ("8800gt", 14, 1.5e9, (57.6, 420, 4, 10, 32)),
        ("gtx280", 30, 1.3e9, (141.7, 450, 4, 40, 4)),
    ],
)
def test_hong_and_kim_tables_3_and_6(name, sms, clock, memory):
    gpu = load_gpu(name)
    assert (gpu.sms, gpu.clock_hz, gpu.warp_size) == (sms, clock, 32)
    assert dram(gpu) == memory
    assert gpu.timing("fp32").interval_cycles == 4  # Issue_cycles, Table 1
    assert gpu.issue_rate == 0.25
    assert gpu.instructions.keys() == {"comp"}
    assert gpu.l1.line_bytes == 128  # Load_bytes_per_warp


def test_the_compute_capabilities_of_table_3():
    cc10, cc13 = load_gpu("8800gt"), load_gpu("gtx280")
    assert (cc10.registers, cc10.max_warps, cc10.max_blocks, cc10.shared_memory_bytes) == (8192, 24, 8, 16384)
    assert (cc13.registers, cc13.max_warps, cc13.max_blocks, cc13.shared_memory_bytes) == (
        16384,
        32,
        8,
        16384,
    )
    assert (cc10.occupancy.register_unit, cc13.occupancy.register_unit) == (256, 512)


def test_the_transactions_of_the_gtx280_are_marked_as_assumed():
    assert load_gpu("gtx280").sources["dram.uncoalesced_transactions"].kind == "assumed"
    assert load_gpu("fx5600").sources["dram.uncoalesced_transactions"].kind == "paper"


# -- GPUMech, Table I ------------------------------------------------------------------------


def test_gpumech_table_i():
    gpu = load_gpu("gpumech2014")
    assert (gpu.sms, gpu.clock_hz, gpu.issue_rate, gpu.scheduler) == (16, 1e9, 1, "rr")
    assert gpu.max_warps * gpu.warp_size == 1024
    assert (gpu.l1.size_bytes, gpu.l1.ways, gpu.l1.line_bytes) == (32 * 1024, 8, 128)
    assert (gpu.l1.latency_cycles, gpu.l1.mshrs) == (25, 32)
    assert (gpu.llc.size_bytes, gpu.llc.ways, gpu.llc.line_bytes) == (768 * 1024, 8, 128)
    assert (gpu.llc.latency_cycles, gpu.memory_latency_cycles_now("gpumech")) == (120, 420)
    assert gpu.dram.bandwidth_bytes_per_s == 192e9
    assert gpu.timing("fp32").latency_cycles == 25
    assert gpu.shared_memory_bytes == 16 * 1024


# -- MDM, Table 1 (CAL 2019) and Table III (MICRO 2020) ----------------------------------------


@pytest.mark.parametrize("name", ["mdm2019", "mdm2020", "accelsim-mdm"])
def test_what_the_mdm_machines_share(name):
    gpu = load_gpu(name)
    assert (gpu.sms, gpu.clock_hz, gpu.max_warps, gpu.warp_size) == (28, 1.4e9, 64, 32)
    assert (gpu.l1.size_bytes, gpu.l1.ways, gpu.l1.line_bytes, gpu.l1.mshrs) == (48 * 1024, 6, 128, 128)
    assert (gpu.llc.size_bytes, gpu.llc.ways, gpu.llc.banks, gpu.llc.mshrs) == (3 * 2**20, 8, 24, 128)
    assert (gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s) == (1050e9, 480e9)
    assert (gpu.llc.latency_cycles, gpu.dram.latency_cycles, gpu.dram.channels) == (120, 220, 24)
    assert gpu.l1.write_policy == "through"
    assert not gpu.l1.streaming


def test_how_the_mdm_machines_differ():
    cal, micro, simulated = load_gpu("mdm2019"), load_gpu("mdm2020"), load_gpu("accelsim-mdm")
    assert (cal.schedulers, cal.issue_width, cal.scheduler) == (4, 2, "lrr")
    assert (micro.schedulers, micro.issue_width, micro.scheduler) == (1, 1, "gto")
    assert micro.sources["schedulers"].kind == "assumed"
    assert micro.noc.queue_entries is None
    assert (simulated.schedulers, simulated.issue_width, simulated.scheduler) == (1, 1, "gto")


def test_the_accel_sim_machine_follows_its_readme():
    gpu = load_gpu("accelsim-mdm")
    assert (gpu.max_blocks, gpu.registers, gpu.shared_memory_bytes) == (32, 65536, 96 * 1024)
    assert (gpu.l1.latency_cycles, gpu.l1.mshr_merges) == (24, 8)
    assert gpu.llc.write_policy == "back"
    expected = {"int32": (4, 1), "fp32": (4, 1), "sfu": (20, 4), "shared": (20, 1)}
    for name, (latency, interval) in expected.items():
        timing = gpu.timing(name)
        assert (timing.latency_cycles, timing.interval_cycles) == (latency, interval)


# -- Lemeire, Tables 4 to 6 ----------------------------------------------------------------------

LEMEIRE = ["tesla-c2050", "gtx650ti", "k620", "gtx1060", "rtx2070", "r9-380"]
TABLE_4 = {  # λ_ALU, λ_SFU, issue limit (Maxwell's 0.25 is not used: Table 5 measures 0.375)
    "tesla-c2050": (1, 8, 1),
    "gtx650ti": (0.25, 1, 4),
    "k620": (0.375, 1, 4),
    "gtx1060": (0.25, 1, 4),
    "rtx2070": (0.5, 2, 2),
    "r9-380": (1, 5, 1),
}
TABLE_5 = """
    sfu        8/40    1/18       1/15        1/15     2/21      5/24
    fp32       1/18    0.25/9     0.375/6     0.25/6   0.5/4     1/5.25
    fp64       2/22    4/22       7.5/42      8/43     19/45     8/76
    int32      2/18    0.5/5      0.875/12.5  0.75/12  0.25/2    1/5.25
    fp32_div   3/45    0.75/28.5  1.125/20    0.75/18  1.5/12.5  2.25/14
    fp64_div   19/253  26/260     47/376      47/376   -/-       155/740
    int32_div  20/200  3/96       7/105       5/100    5/65      24/192
    barrier    2/40    0.75/24    4.5/125     2.25/70  1.5/17    7.5/150
    mem        23/475  7.5/300    18/440      12/345   18/450    42/136
    shared     2/28    1/28       1/28        1/25     2/32      2/60
"""


@pytest.mark.parametrize("row", TABLE_5.split("\n")[1:-1], ids=lambda row: row.split()[0])
def test_lemeire_table_5(row):
    name, *cells = row.split()
    for machine, cell in zip(LEMEIRE, cells, strict=True):
        instructions = load_gpu(machine).instructions
        if cell == "-/-":
            assert name not in instructions
            continue
        interval, latency = (float(part) for part in cell.split("/"))
        assert instructions[name].interval_cycles == interval, machine
        assert instructions[name].latency_cycles == latency, machine


@pytest.mark.parametrize("name", LEMEIRE)
def test_lemeire_table_4(name):
    gpu = load_gpu(name)
    alu, sfu, issue_limit = TABLE_4[name]
    assert gpu.instructions["fp32"].interval_cycles == gpu.instructions["comp"].interval_cycles == alu
    assert gpu.instructions["sfu"].interval_cycles == sfu
    assert gpu.issue_rate == issue_limit


@pytest.mark.parametrize("name", LEMEIRE)
def test_lemeire_subsystems(name):
    gpu = load_gpu(name)
    compute = {gpu.timing(c).subsystem for c in ("comp", "fp32", "fp64", "int32", "int32_div", "barrier", "move")}
    assert compute == {"compute"}
    assert gpu.timing("sfu").subsystem == ("compute" if name == "r9-380" else "sfu")
    assert gpu.timing("store_global").subsystem == "memory"
    assert gpu.timing("load_shared").subsystem == "shared"


@pytest.mark.parametrize(("name", "throughput"), [("tesla-c2050", 89.6), ("k620", 22.6), ("gtx1060", 160.6)])
def test_lemeire_table_6_follows_from_table_5(name, throughput):
    gpu = load_gpu(name)
    gigabytes = gpu.sms * gpu.warp_size * 4 / gpu.timing("mem").interval_cycles * gpu.clock_hz / 1e9
    assert gigabytes == pytest.approx(throughput, abs=0.05)
    assert gigabytes < gpu.dram.bandwidth_bytes_per_s / 1e9


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("tesla-c2050", 144),
        ("gtx650ti", 86.4),
        ("k620", 29),
        ("gtx1060", 192),
        ("rtx2070", 448),
        ("r9-380", 182.4),
    ],
)
def test_bandwidths_of_lemeires_machines(name, bandwidth):
    assert load_gpu(name).dram.bandwidth_bytes_per_s == bandwidth * 1e9


@pytest.mark.parametrize(
    ("name", "sms", "warps", "blocks", "registers", "shared", "per_thread"),
    [
        ("tesla-c2050", 14, 48, 8, 32768, 48, 63),
        ("gtx650ti", 4, 64, 16, 65536, 48, 63),
        ("k620", 3, 64, 32, 65536, 64, 255),
        ("gtx1060", 10, 64, 32, 65536, 96, 255),
        ("rtx2070", 36, 32, 16, 65536, 64, 255),
        ("r9-380", 28, 40, 40, 65536, 64, 256),
        ("h200", 132, 64, 32, 65536, 228, 255),
    ],
)
def test_limits_of_the_compute_capabilities(name, sms, warps, blocks, registers, shared, per_thread):
    gpu = load_gpu(name)
    assert (gpu.sms, gpu.max_warps, gpu.max_blocks, gpu.registers) == (sms, warps, blocks, registers)
    assert gpu.shared_memory_bytes == shared * 1024
    assert gpu.occupancy.max_registers_per_thread == per_thread
    assert gpu.warp_size == (64 if name == "r9-380" else 32)


# -- H200 ------------------------------------------------------------------------------------------


def test_the_h200_is_near_the_hopper_notes():
    """Its values are measured (tests/characterize); others have measured them too."""
    gpu = load_gpu("h200")
    assert (gpu.schedulers, gpu.issue_width, gpu.clock_hz) == (4, 1, 1.98e9)
    assert 5.0e12 <= gpu.noc.bandwidth_bytes_per_s <= 9.9e12 and 4.4e12 <= gpu.dram.bandwidth_bytes_per_s <= 4.8e12
    assert (gpu.l1.line_bytes, gpu.l1.sector_bytes, gpu.l1.streaming) == (128, 32, True)
    assert 32 <= gpu.l1.latency_cycles <= 41 and 272 <= gpu.llc.latency_cycles <= 294
    assert 610 <= gpu.memory_latency_cycles_now("a test") <= 690
    assert gpu.llc.size_bytes % gpu.llc.banks == 0
    assert 23 <= gpu.timing("load_shared").latency_cycles <= 29 and 17 <= gpu.timing("sfu").latency_cycles <= 23
    for warps, cycles in ((1, 15), (8, 29), (32, 77)):  # BAR
        barrier = gpu.timing("barrier")
        assert barrier.latency_cycles + (warps - 1) * barrier.interval_cycles == pytest.approx(cycles, abs=3)


def test_what_nobody_has_measured_on_the_h200_says_so():
    sources = load_gpu("h200").sources
    for path in ("l1.ways", "llc.ways", "scheduler"):
        assert sources[path].kind == "assumed"
    for path in ("llc.latency_cycles", "noc.bandwidth_bytes_per_s", "l1.latency_cycles"):
        assert sources[path].kind == "measured"


@pytest.mark.parametrize("name", [name for name in gpu_names() if load_gpu(name).compute_capability])
def test_atomics_take_turns_at_one_word_on_every_gpu(name):
    """Absent ones would count as none, and a GPU that nobody measured as many times faster than the measured one."""
    gpu = load_gpu(name)
    assert gpu.noc.float_atomic_word_cycles >= gpu.noc.atomic_word_cycles > 0 and gpu.noc.atomic_lane_cycles > 0
    assert gpu.swap_lane_cycles > gpu.swap_word_cycles > gpu.swap_port_cycles > 0
