"""The interval models: GPUMech (Huang et al., MICRO 2014), MDM (Wang et al., CAL 2019 and MICRO 2020) and ablations.

A warp issues the instructions of an interval, then stalls. All models add up the
same parts; `VARIANTS` says which terms each of them has (Table II of GPUMech,
Table V of MDM). Where the papers leave a choice:

- G-7 is an IPC, G-15 a minimum and G-16 a maximum: the authors confirmed these
  misprints through Volkov (2016).
- All warps of an SM share the contention delays; `normalization=literal` has
  G-17 as printed.
- The MSHR term counts L1 read misses. `dram_requests` says what the DRAM term counts.
- MDM's bandwidths are those of all channels together, so M-7 and M-8 are not
  divided by the number of channels again. The saturation test M-10 looks at the
  NoC, and M-9 uses it for the NoC and for DRAM.
- With a streaming L1 the SM's NoC queue takes the place of the MSHRs (footnote 2 of MDM).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..analysis import STALL_CAUSES, ProfileBatch
from ..machine import INSTRUCTION_CLASSES, Gpu
from ..workload import Needs, Workload, analyse, bank_cycles
from . import _interval_records as k
from .base import Array, Aspect, Case, Model, Outcome, option
from .papers import GPUMECH, LEMEIRE, MDM, MDM_CAL, Paper
from .pipeline_load import pipeline_load
from .prediction import Condition

#: Scheduling policies modelled with the greedy-then-oldest equations.
_GREEDY = ("gto", "oldest")
_POLICIES = {"rr": k.ROUND_ROBIN, "gto": k.GREEDY_THEN_OLDEST}
_MDM_QUEUES = (k.MDM_QUEUE, k.MDM_QUEUE_CAL2019)
#: CPI categories of the representative warp.
WARP_CATEGORIES = ("BASE", *STALL_CAUSES)

#: Options that a variant may have: default, help, allowed values.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "policy": (None, "scheduling equations; auto follows the machine", (None, "rr", "gto")),
    "clamp": (True, "never predict more than the issue rate, or one instruction per cycle and warp"),
    "compute_latency": (
        True,
        "intervals of a graph or a trace stall on compute latencies too (Lemeire's do not)",
    ),
    "min_gap": (1.0, "intervals of a graph or a trace close at stalls of this many cycles"),
    "normalization": (
        "shared",
        "contention per core (shared by its warps), or G-17 as printed",
        ("shared", "literal"),
    ),
    "dram_requests": (
        "l2-misses",
        "requests in the DRAM queue: all that miss L2, or reads capped by the MSHRs as the MDM authors do",
        ("l2-misses", "mshr-capped"),
    ),
    "unit_contention": (
        False,
        "warps queue for functional units that instructions hold for longer than an issue slot, as for DRAM (G-21)",
    ),
    "streaming": (
        None,
        "streaming L1: the NoC queue limits misses in flight; auto follows the machine",
        (None, True, False),
    ),
}
_ALWAYS = ("policy", "clamp", "compute_latency", "min_gap")
#: The option `policy` of variants that have equations of their own.
_FIXED_POLICY: dict[int, tuple[Any, ...]] = {
    k.OPTIMISTIC: (None, "the optimistic overlap has no policy", (None,)),
    k.ROUND_ROBIN_CORRECTED: ("rr", "the correction applies to round robin only", ("rr",)),
}


@dataclass(frozen=True)
class Variant:
    """A row of the table: which terms a model has, and what it says about itself."""

    name: str
    title: str
    summary: str
    paper: Paper
    equations: str
    policy: int | None = None
    mshr: int = k.NO_MSHR
    queue: int = k.NO_QUEUE
    options: tuple[str, ...] = ()
    has_stack: bool = True

    @property
    def is_mdm(self) -> bool:
        """Whether a term is MDM's: the model then reports MDM's quantities."""
        return self.mshr == k.MDM_MSHR or self.queue in _MDM_QUEUES

    @property
    def has_noc_queue(self) -> bool:
        return self.queue not in (k.NO_QUEUE, k.GPUMECH_DRAM)

    @property
    def categories(self) -> tuple[str, ...] | None:
        if not self.has_stack:
            return None
        contention = {"MSHR": self.mshr != k.NO_MSHR, "NOC": self.has_noc_queue, "QUEUE": self.queue != k.NO_QUEUE}
        return (*WARP_CATEGORIES, *(name for name, present in contention.items() if present))


_GPUMECH_OPTIONS = ("normalization", "dram_requests")
VARIANTS = (
    Variant(
        "naive-interval",
        "Naive interval",
        "Optimistic overlap: one warp's IPC times the number of warps.",
        GPUMECH,
        "G-1",
        policy=k.OPTIMISTIC,
        has_stack=False,
    ),
    Variant(
        "gpumech-mt",
        "GPUMech MT",
        "GPUMech's multithreading model alone (MT).",
        GPUMECH,
        "G-5 … G-16",
    ),
    Variant(
        "gpumech-mt-mshr",
        "GPUMech MT_MSHR",
        "Multithreading and MSHR contention (MT_MSHR).",
        GPUMECH,
        "G-5 … G-20",
        mshr=k.GPUMECH_MSHR,
        options=("normalization",),
    ),
    Variant(
        "gpumech",
        "GPUMech",
        "Multithreading, MSHR and DRAM bandwidth contention (MT_MSHR_BAND).",
        GPUMECH,
        "G-3, G-5 … G-23",
        mshr=k.GPUMECH_MSHR,
        queue=k.GPUMECH_DRAM,
        options=(*_GPUMECH_OPTIONS, "unit_contention"),
    ),
    Variant(
        "gpumech-rr-corrected",
        "GPUMech, RR corrected",
        "GPUMech with Lemeire's round robin, which agrees with the paper's own Fig. 8.",
        LEMEIRE,
        "L §2.5.1 in place of G-10, G-11; G-17 … G-23",
        policy=k.ROUND_ROBIN_CORRECTED,
        mshr=k.GPUMECH_MSHR,
        queue=k.GPUMECH_DRAM,
        options=(*_GPUMECH_OPTIONS, "unit_contention"),
    ),
    Variant(
        "gpumech-plus",
        "GPUMech+",
        "GPUMech with a NoC queue, and queueing delays inside the MSHR term (GPUMech+).",
        MDM,
        "Table V; G-17 … G-23",
        mshr=k.GPUMECH_MSHR_WITH_QUEUES,
        queue=k.GPUMECH_NOC_AND_DRAM,
        options=_GPUMECH_OPTIONS,
    ),
    Variant(
        "mdm-queue",
        "MDM-Queue",
        "MDM's queues with GPUMech+'s MSHR term.",
        MDM,
        "Table V; M-7 … M-10, G-19, G-20",
        mshr=k.GPUMECH_MSHR_WITH_QUEUES,
        queue=k.MDM_QUEUE,
        options=_GPUMECH_OPTIONS,
    ),
    Variant(
        "mdm-mshr",
        "MDM-MSHR",
        "MDM's MSHR batches with GPUMech+'s queues.",
        MDM,
        "Table V; M-6, G-21 … G-23",
        mshr=k.MDM_MSHR,
        queue=k.GPUMECH_NOC_AND_DRAM,
        options=_GPUMECH_OPTIONS,
    ),
    Variant(
        "mdm-cal2019",
        "MDM (CAL 2019)",
        "The first MDM: every divergent interval is exposed to the full queues.",
        MDM_CAL,
        "C-1 … C-8",
        mshr=k.MDM_MSHR,
        queue=k.MDM_QUEUE_CAL2019,
        options=("streaming",),
    ),
    Variant(
        "mdm",
        "MDM",
        "Batches of MSHRs behind saturated NoC and DRAM queues.",
        MDM,
        "M-1 … M-10",
        mshr=k.MDM_MSHR,
        queue=k.MDM_QUEUE,
        options=("streaming",),
    ),
)


@dataclass(frozen=True)
class IntervalModel(Model):
    """IPC = W·Σinstructions / (Σ C_i + S_i^MSHR + S_i^NoC + S_i^DRAM), Eq. (M-1) and, with its terms, Eq. (G-3)."""

    variant: ClassVar[Variant]

    needs = "interval_profile"
    # G-4 sees which instructions wait for which, so independent ones shorten the stalls.
    aspects = frozenset(
        {
            Aspect.ILP,
            Aspect.COMPUTE_LATENCY,
            Aspect.MEMORY_LATENCY,
            Aspect.DIVERGENT_WARPS,
            Aspect.ISSUE_LIMIT,
            Aspect.SCHEDULER,
        }
    )

    # Values for variants that lack an option. A variant that has it overrides them with a field.
    policy: ClassVar[str | None] = None
    clamp: ClassVar[bool] = True
    compute_latency: ClassVar[bool] = True
    min_gap: ClassVar[float] = 1.0
    normalization: ClassVar[str] = "shared"
    dram_requests: ClassVar[str] = "l2-misses"
    unit_contention: ClassVar[bool] = False
    streaming: ClassVar[bool | None] = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name: the class is generated from a row of the table."""
        options = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return _of_variant, (self.name, options)

    def check(self, workload: Workload, gpu: Gpu) -> None:
        super().check(workload, gpu)
        if not workload.sends_requests:
            return  # the model has no contention terms
        for path in self._memory_needs(gpu):
            gpu.require(path, f"model {self.name!r}")

    def _memory_needs(self, gpu: Gpu) -> list[str]:
        """Machine parameters that the contention terms read."""
        variant, paths = self.variant, []
        if variant.mshr != k.NO_MSHR or variant.queue in _MDM_QUEUES:
            paths += [self._outstanding_limit(gpu), "llc.latency_cycles", "dram.latency_cycles"]
        if variant.queue != k.NO_QUEUE:
            paths += ["l1.line_bytes", "dram.bandwidth_bytes_per_s"]
        if variant.has_noc_queue:
            paths += ["noc.bandwidth_bytes_per_s"]
        return paths

    def _outstanding_limit(self, gpu: Gpu) -> str:
        """Path of the parameter that limits an SM's misses in flight."""
        streaming = gpu.l1.streaming if self.streaming is None else self.streaming
        return "noc.queue_entries" if streaming else "l1.mshrs"

    def _terms(self, gpu: Gpu) -> k.Terms:
        variant, policy = self.variant, self.variant.policy
        if policy is None:
            policy = _POLICIES[self.policy or ("gto" if is_greedy(gpu) else "rr")]
        requests = k.MSHR_CAPPED if self.dram_requests == "mshr-capped" else k.ALL_REQUESTS
        return k.Terms(policy, variant.mshr, variant.queue, requests)

    def _machines(self, case: Case) -> Any:
        """One record per machine; fields that the model does not use hold a harmless 1 or 0."""
        gpu = case.gpu
        machines = np.zeros(case.size, k.MACHINE)
        machines["warps"] = case.W
        machines["sms"] = case.active_sms
        machines["issue_rate"] = case.issue_rate
        limit = gpu.get(self._outstanding_limit(gpu))
        machines["mshrs"] = 1.0 if limit is None else limit
        if gpu.llc.latency_cycles is not None:
            machines["llc_latency"] = gpu.llc.latency_cycles
        if gpu.dram.latency_cycles is not None:
            machines["dram_latency"] = gpu.dram_latency_cycles_now(case.model_name)
        for level, cycles in _service_cycles(case).items():
            machines[f"{level}_service"] = cycles
        return machines

    @property
    def requirements(self) -> Needs:
        return Needs(self.needs, min_gap=self.min_gap, compute_latency=self.compute_latency)

    def evaluate(self, case: Case) -> Outcome:
        from ._interval_kernels import add_unit_waits, evaluate_batch

        found = np.zeros(case.size, k.RESULT)
        # Indexing rows of a plain table is many times faster than indexing records.
        results, machines = _table(found), _table(self._machines(case))
        instructions = 0.0
        stalls = np.zeros((len(STALL_CAUSES), case.size))
        stall_cycles, waits = np.zeros(case.size), np.zeros(case.size)
        units = _unit_cycles(case) if self.unit_contention else []
        terms = self._terms(case.gpu)
        for rows, profiles in case.facts.profiles:
            of_machine = profiles.of_machine
            some = np.ascontiguousarray(machines[rows]).view(k.MACHINE)[:, 0]
            some["miss_latency"] = _miss_latency(profiles, some)
            part = np.zeros(len(some), k.RESULT)
            intervals = np.ascontiguousarray(profiles.matrix).view(k.INTERVAL)[:, 0]
            evaluate_batch(intervals, profiles.start, of_machine, some, terms, part)
            results[rows] = _table(part)
            some_waits = np.zeros(len(some))
            for service in units:
                add_unit_waits(intervals, profiles.start, of_machine, some, service[rows], some_waits)
            waits[rows] = some_waits
            instructions = profiles.total_instructions
            stalls[:, rows] = profiles.stall_by_cause[of_machine].T
            stall_cycles[rows] = profiles.stall_cycles[of_machine]
        return self._outcome(case, instructions, stall_cycles, stalls, found, waits)

    def _outcome(
        self, case: Case, instructions: float, stall_cycles: Array, stalls: Array, found: Any, waits: Array
    ) -> Outcome:
        W, issue_rate = case.W, case.issue_rate
        representative = instructions / issue_rate + stall_cycles
        multithreaded = representative + found["nonoverlapped"] / issue_rate  # Σ C_i; Eq. (G-7) inverted
        contention = found["mshr"] + found["noc"] + found["dram"] + waits
        # The W warps of an SM share its contention delays (docs/conventions.md §4), unless as printed in G-17.
        share = W if self.normalization == "literal" else np.ones_like(W)  # Eq. (G-17)
        raw_cpi = (multithreaded + share * contention) / (W * instructions)  # Eqs. (M-1), (G-3)
        cpi = np.maximum(raw_cpi, 1.0 / np.minimum(issue_rate, W)) if self.clamp else raw_cpi
        stack = None
        if self.categories is not None:
            # Categories of the representative warp, shrunk by CPI_mt / CPI_warp (GPUMech §VII). What the clamp adds
            # is time in which the SM issues at its full rate: BASE.
            shrink = multithreaded / representative / (W * instructions)
            stack = {"BASE": instructions / issue_rate * shrink + (cpi - raw_cpi)}
            stack |= {cause: stalls[index] * shrink for index, cause in enumerate(STALL_CAUSES)}
            delays = {"MSHR": found["mshr"], "NOC": found["noc"], "QUEUE": found["dram"]}
            per_instruction = share / (W * instructions)
            stack |= {name: delays[name] * per_instruction for name in delays if name in self.categories}
            stack["DEP"] = stack["DEP"] + waits * per_instruction
        return Outcome(
            instructions_per_warp=instructions,
            ipc_sm=1.0 / cpi,
            stack=stack,
            terms={
                "IPC_raw": case.active_sms / raw_cpi,
                "C": multithreaded,
                "nonoverlapped_insts": found["nonoverlapped"],
                **({"Unit_delay": waits} if self.unit_contention else {}),
                **(self._mdm_terms(case, found) if self.variant.is_mdm else self._gpumech_terms(found)),
            },
            conditions=self._conditions(case, raw_cpi, found),
        )

    def _gpumech_terms(self, found: Any) -> dict[str, Any]:
        terms: dict[str, Any] = {}
        if self.variant.mshr != k.NO_MSHR:
            terms |= {
                "MSHR_delay": found["mshr"],
                "exp_queuing_delay": found["queue_wait"],
                "core_reqs": found["requests"],
            }
        if self.variant.queue != k.NO_QUEUE:
            terms |= {"Bandwidth_delay": found["dram"], "rho": found["utilisation"]}
        return terms

    def _mdm_terms(self, case: Case, found: Any) -> dict[str, Any]:
        """Sums of S over the intervals; M, S_Mem and batches of the interval with most concurrent misses."""
        names = {"noc": "L_NoC", "dram": "L_DRAM"}
        return {
            "S_MSHR": found["mshr"],
            "S_NoC": found["noc"],
            "S_DRAM": found["dram"],
            "M": found["concurrent"],
            "S_Mem": found["memory_stall"],
            "batches": found["batches"],
            "MD_intervals": found["divergent"],
            "saturated_intervals": found["saturated"],
            # Eq. (M-7), before the miss ratio of M-8
            **{names[level]: cycles for level, cycles in _service_cycles(case).items()},
        }

    def _conditions(self, case: Case, raw_cpi: Array, found: Any) -> tuple[Condition, ...]:
        limits = {
            "the issue rate": case.issue_rate,
            "one instruction per cycle and warp": np.where(case.issue_rate > case.W, case.W, np.inf),
        }
        clamped = "; the prediction is clamped to it" * self.clamp
        return (
            *(
                Condition(f"the equations exceed {words}{clamped}", raw_cpi < (1.0 / limit) * (1 - 1e-12))
                for words, limit in limits.items()
            ),
            *given_stalls(case),
            *without_banks(case),
            Condition(
                "DRAM demand exceeds its bandwidth (ρ ≥ 1); the queueing delay is the paper's cap",
                found["utilisation"] >= 1.0,
            ),
        )


def is_greedy(gpu: Gpu) -> bool:
    """Whether the machine's scheduler follows the greedy equations; the others follow round robin."""
    return gpu.scheduler in _GREEDY


def _service_cycles(case: Case) -> dict[str, Any]:
    """Cycles that the NoC and DRAM take for one L1 miss, where the machine gives their bandwidth. Eq. (M-7)"""
    gpu = case.gpu
    if gpu.l1.line_bytes is None:
        return {}
    return {
        level: gpu.service_cycles_now(level, case.model_name)
        for level in ("noc", "dram")
        if gpu.get(f"{level}.bandwidth_bytes_per_s") is not None
    }


def _unit_cycles(case: Case) -> list[Array]:
    """Cycles for which an average instruction holds each functional unit that limits more than issue does."""
    if not case.workload.offers("instruction_mix"):
        return []
    facts = analyse(case.workload, case.gpu, Needs("instruction_mix"), case.model_name)
    load = pipeline_load(dataclasses.replace(case, facts=facts))
    memory = {case.timing(name).subsystem for name in load.mix.entries if INSTRUCTION_CLASSES[name].kind == "memory"}
    held = [busy / load.mix.total for unit, busy in load.busy.items() if unit not in memory]
    return [np.where(cycles * case.issue_rate > 1.0, cycles, 0.0) for cycles in held]


def _table(records: Any) -> Array:
    """View records of numbers as rows of a table, without a copy."""
    return records.view(np.float64).reshape(len(records), -1)


def _miss_latency(profiles: ProfileBatch, machines: Any) -> Array:
    """Average latency of an L1 miss on each machine: as given, or weighted by the share that goes to DRAM."""
    given = profiles.average_miss_latency_cycles[profiles.of_machine]
    fraction = profiles.dram_fraction[profiles.of_machine]
    derived = machines["llc_latency"] + fraction * machines["dram_latency"]
    return np.where(np.isnan(given), derived, given)


def given_stalls(case: Case) -> tuple[Condition, ...]:
    """A warning if the profile gives its stalls but the machine's latencies were changed."""
    changed = [key for key in case.gpu.overrides if key == "clock" or key.endswith(".latency")]
    if case.workload.profile is None or not changed:
        return ()
    return (Condition(f"the profile's stall cycles are given and do not follow {', '.join(changed)}"),)


def without_banks(case: Case) -> tuple[Condition, ...]:
    """A warning if accesses hold the banks of shared memory for longer than a cycle: intervals have no banks."""
    most = max(bank_cycles(case.facts).values(), default=1.0)
    text = f"bank conflicts are left out; accesses hold the banks of shared memory for {most:.1f} cycles on average"
    return (Condition(text),) if most > 1.0 else ()


def _model(variant: Variant) -> type[IntervalModel]:
    """Make the model of a variant: `IntervalModel` with the variant's options as fields."""
    options = OPTIONS | ({} if variant.policy is None else {"policy": _FIXED_POLICY[variant.policy]})
    shared = {name: getattr(variant, name) for name in ("name", "title", "paper", "equations", "categories")}
    more = {"variant": variant, "__doc__": variant.summary, "__module__": __name__}
    if variant.policy is not None:
        more["aspects"] = IntervalModel.aspects - {Aspect.SCHEDULER}
    return dataclasses.make_dataclass(
        variant.name.title().replace("-", ""),
        [(name, Any, option(*options[name])) for name in (*_ALWAYS, *variant.options)],
        bases=(IntervalModel,),
        namespace=shared | more,
        frozen=True,
    )


INTERVAL_MODELS = {variant.name: _model(variant) for variant in VARIANTS}


def _of_variant(name: str, options: dict[str, Any]) -> IntervalModel:
    return INTERVAL_MODELS[name](**options)
