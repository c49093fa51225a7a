"""MWP-CWP as printed (H-n), Lemeire's restatement (L-15 … L-28) and correction (§5.1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HongKim:
    """Parameters by the names of the paper's Table 1."""

    mem_ld: float
    departure_del_uncoal: float
    departure_del_coal: float
    uncoal_per_mw: float
    freq: float
    mem_bandwidth: float
    load_bytes_per_warp: float
    issue_cycles: float
    active_sms: float
    comp_insts: float
    uncoal_mem_insts: float
    coal_mem_insts: float
    synch_insts: float
    active_warps_per_sm: float
    active_blocks_per_sm: float
    rep: float

    @property
    def mem_l_uncoal(self) -> float:
        return self.mem_ld + (self.uncoal_per_mw - 1) * self.departure_del_uncoal  # H-10

    @property
    def mem_l_coal(self) -> float:
        return self.mem_ld  # H-11

    @property
    def mem_insts(self) -> float:
        return self.uncoal_mem_insts + self.coal_mem_insts

    @property
    def weight_uncoal(self) -> float:
        return self.uncoal_mem_insts / self.mem_insts  # H-13

    @property
    def weight_coal(self) -> float:
        return self.coal_mem_insts / self.mem_insts  # H-14

    @property
    def mem_l(self) -> float:
        return self.mem_l_uncoal * self.weight_uncoal + self.mem_l_coal * self.weight_coal  # H-12

    @property
    def departure_delay(self) -> float:
        uncoalesced = self.departure_del_uncoal * self.uncoal_per_mw
        return uncoalesced * self.weight_uncoal + self.departure_del_coal * self.weight_coal  # H-15

    @property
    def mwp_peak_bw(self) -> float:
        bw_per_warp = self.freq * self.load_bytes_per_warp / self.mem_l  # H-7
        return self.mem_bandwidth / (bw_per_warp * self.active_sms)  # H-6

    @property
    def mwp(self) -> float:
        full = self.mem_l / self.departure_delay  # H-16
        return min(full, self.mwp_peak_bw, self.active_warps_per_sm)  # H-17, H-5

    @property
    def mem_cycles(self) -> float:
        return self.mem_l_uncoal * self.uncoal_mem_insts + self.mem_l_coal * self.coal_mem_insts  # H-18

    @property
    def comp_cycles(self) -> float:
        return self.issue_cycles * (self.comp_insts + self.mem_insts)  # H-19

    @property
    def cwp_full(self) -> float:
        return (self.mem_cycles + self.comp_cycles) / self.comp_cycles  # H-8

    @property
    def cwp(self) -> float:
        return min(self.cwp_full, self.active_warps_per_sm)  # H-9

    def exec_cycles_app(self, mwp: float | None = None) -> tuple[float, int]:
        """(cycles, the equation that gave them), cases in the printed order."""
        mwp = self.mwp if mwp is None else mwp
        N = self.active_warps_per_sm  # H-20
        period = self.comp_cycles / self.mem_insts
        if mwp == N and self.cwp == N:
            return (self.mem_cycles + self.comp_cycles + period * (mwp - 1)) * self.rep, 22
        if self.cwp >= mwp or self.comp_cycles > self.mem_cycles:
            return (self.mem_cycles * N / mwp + period * (mwp - 1)) * self.rep, 23
        return (self.mem_l + self.comp_cycles * N) * self.rep, 24

    def synch_cost(self, mwp: float | None = None) -> float:
        mwp = self.mwp if mwp is None else mwp
        return self.departure_delay * (mwp - 1) * self.synch_insts * self.active_blocks_per_sm * self.rep  # H-26


@dataclass(frozen=True)
class Lemeire:
    """Hardware and software parameters of Lemeire's Table 2."""

    lambda_comp: float
    latency_comp: float
    lambda_mem: float
    latency_mem: float
    alpha_comp: float
    alpha_mem: float
    independent_comp: float = 0.0
    independent_mem: float = 0.0

    @property
    def ci(self) -> float:
        return self.alpha_comp / self.alpha_mem

    @property
    def mwp(self) -> float:
        return self.latency_mem / self.lambda_mem  # L-15

    @property
    def cwp(self) -> float:
        period = self.ci * self.lambda_comp
        return self.latency_mem / period + 1 if period else float("inf")  # L-16

    def memory_bound(self, omega: float) -> float:
        """L-26. It is defined for MWP < ω; beyond that H-5 caps MWP, or the fill time would exceed all warps."""
        fill = self.ci * self.lambda_comp * min(self.mwp, omega)
        return self.alpha_mem * omega * self.lambda_mem + fill

    def compute_bound(self, omega: float) -> float:
        return self.alpha_comp * self.lambda_comp * omega + self.latency_mem  # L-27

    def occupancy_bound(self, omega: float, one_warp: float) -> float:
        return one_warp + self.ci * self.lambda_comp * (omega - 1)  # L-28

    def cpr(self, omega: float) -> float:
        """Cycles per run, the case chosen as §2.3.1 does."""
        if omega <= min(self.mwp, self.cwp):
            one_warp = self.alpha_mem * self.latency_mem + self.alpha_comp * self.lambda_comp  # Λ*_app
            return self.occupancy_bound(omega, one_warp)
        return self.memory_bound(omega) if self.cwp >= self.mwp else self.compute_bound(omega)

    def cpr_corrected(self, omega: float) -> float:
        """§5.1: Λ_app of L-2 for Λ*_app, and the largest of the three cases."""
        one_warp = (
            (self.alpha_comp - self.independent_comp) * self.latency_comp
            + self.independent_comp * self.lambda_comp
            + (self.alpha_mem - self.independent_mem) * self.latency_mem
            + self.independent_mem * self.lambda_mem
        )  # L-2
        return max(self.occupancy_bound(omega, one_warp), self.memory_bound(omega), self.compute_bound(omega))
