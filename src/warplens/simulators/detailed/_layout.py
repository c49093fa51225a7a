"""Names of the numbers that compiled code reads by index: parameters, totals, kinds and causes."""

from __future__ import annotations

NEVER = 1e300
REGISTERS = 256

# What an instruction does.
NOTHING, LOAD, STORE, ATOMIC, BARRIER, SHARED = range(6)

# Scheduling policies.
GREEDY_THEN_OLDEST, ROUND_ROBIN, OLDEST, TWO_LEVEL = range(4)

# Where a request is when its event is due.
AT_BANK, AT_REPLY, AT_SM, FILLED = range(4)

# How a run ends.
FINISHED, NEEDS_BLOCKS, STUCK = range(3)

# Whole parameters.
(
    I_SMS,
    I_BLOCKS_PER_SM,
    I_WARPS_PER_BLOCK,
    I_SCHEDULERS,
    I_ISSUE_COUNT,
    I_ISSUE_PERIOD,
    I_POLICY,
    I_ACTIVE_WARPS,
    I_LSU_QUEUE,
    I_COLLECTORS,
    I_PIPE,
    I_L1_SETS,
    I_L1_WAYS,
    I_L1_MSHRS,
    I_L1_MERGES,
    I_STREAMING,
    I_SECTORS,
    I_NOC_QUEUE,
    I_STORES,
    I_LLC_BANKS,
    I_LLC_SETS,
    I_LLC_WAYS,
    I_LLC_MSHRS,
    I_L1_WRITE_BACK,
    I_L1_ALLOCATE,
    I_LLC_WRITE_BACK,
    I_LLC_ALLOCATE,
    I_CHANNELS,
    I_DRAM_QUEUE,
) = range(29)
INTEGERS = 29

# Times in cycles.
(
    F_L1_LATENCY,
    F_SHARED_LATENCY,
    F_HOP,
    F_DRAM_LATENCY,
    F_SM_FLIT,
    F_BANK_FLIT,
    F_TRANSFER_FLITS,
    F_CHANNEL_SERVICE,
) = range(8)
FLOATS = 8

# Totals. Issue slots by what became of them come first among equals: they sum to cycles × slots.
(
    T_CYCLES,
    T_ISSUED,
    T_L1_ACCESSES,
    T_L1_MISSES,
    T_LLC_ACCESSES,
    T_LLC_MISSES,
    T_DRAM_READS,
    T_DRAM_WRITES,
    T_SLOT_BASE,
    T_SLOT_DEP,
    T_SLOT_UNIT,
    T_SLOT_MEMORY,
    T_SLOT_L1,
    T_SLOT_MSHR,
    T_SLOT_NOC,
    T_SLOT_SYNC,
    T_SLOT_IDLE,
    T_MISS_COUNT,
    T_MISS_PATH,
    T_MISS_MSHR,
    T_MISS_NOC,
    T_MISS_LLC,
    T_MISS_DRAM_QUEUE,
    T_MISS_DRAM,
    T_REQUESTS,
    T_RETURNED,
) = range(26)
TOTALS = 26
SLOTS = T_SLOT_IDLE - T_SLOT_BASE + 1

#: Bins of the traffic over time; their width doubles when a run outgrows them.
BINS = 512
DRAM_TRAFFIC, NOC_TRAFFIC = range(2)
