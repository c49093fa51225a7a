"""Blocks that run in turn because they wait for one another: those of a cluster, or of a cooperative grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import KernelFault
from ...traces import WarpGroup
from .codegen.layout import CLUSTER_BARRIER, Arrival, Context, Fault, Frame, State, Status
from .worker import Worker

if TYPE_CHECKING:
    from .execute import Launch

#: Warp instructions after which a warp of a team yields: few where blocks poll what others write.
SLICE_OF_CLUSTER, SLICE_OF_GRID = 20_000, 256


def teams(launch: Launch) -> Iterator[list[int]]:
    """The blocks of each team by their ranks, in the order of the first ones."""
    (width, height, depth), (x, y, z) = launch.grid, launch.compiled.kernel.cluster
    if launch.is_cooperative:
        x, y, z = launch.grid
    for k, j, i in itertools.product(range(0, depth, z), range(0, height, y), range(0, width, x)):
        yield [
            ((k + c) * height + j + b) * width + i + a for c, b, a in itertools.product(range(z), range(y), range(x))
        ]


class Team:
    """A worker for each block of a team. One thread runs them in turn until all are done."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.seats = [Worker(launch) for _ in range(launch.team_blocks)]
        addresses = [int(seat.context[Context.SHARED]) for seat in self.seats]
        for rank, seat in enumerate(self.seats):
            seat.context[Context.TEAM] = 1
            seat.context[Context.SLICE] = SLICE_OF_GRID if launch.is_cooperative else SLICE_OF_CLUSTER
            if not launch.is_cooperative:
                seat.context[Context.CLUSTER_RANK] = rank
                seat.context[Context.CLUSTER_SHARED : Context.CLUSTER_SHARED + len(addresses)] = addresses
                seat.bulk.peers = [each.bulk for each in self.seats]

    def run(self, blocks: list[int]) -> Iterator[tuple[int, WarpGroup | None]]:
        """Run the blocks of a team; yields each with its record."""
        lengths = {block: seat.begin(block, 1) for block, seat in zip(blocks, self.seats, strict=True)}
        running = dict(zip(blocks, self.seats, strict=True))
        idle_rounds = 0
        while running and not self.launch.stop.is_set():
            moved = [self._turn(block, seat, running) for block, seat in list(running.items())]
            opened = self._open_barrier(list(running.values()))
            idle_rounds = 0 if any(moved) or opened else idle_rounds + 1
            if idle_rounds > 1:
                raise self._stuck(next(iter(running.values())))
        for block, seat in zip(blocks, self.seats, strict=True):
            yield block, seat.record(lengths[block], block)

    def _turn(self, block: int, seat: Worker, running: dict[int, Worker]) -> bool:
        """Let a block run for a while; whether it did something that others may wait for."""
        before = int(seat.context[Context.CHANGES])
        status = seat.call(block, 1)
        changes = int(seat.context[Context.CHANGES]) - before
        for other in self.seats if changes else ():
            if other is not seat:
                other.context[Context.CHANGES] += changes
        if status == Status.FAULT:
            if seat.context[Context.FAULT] != Fault.ENDLESS or seat.error is not None:
                raise seat.fault()
            seat.context[Context.NEXT_WARP] += 1  # what this warp polls, another block may write
        if status == Status.DONE:
            del running[block]
        return changes > 0 or status in (Status.DONE, Status.INTERRUPTED)

    def _open_barrier(self, seats: list[Worker]) -> bool:
        """Open the cluster's barrier if every warp that still runs has arrived."""
        if self.launch.is_cooperative:
            return False
        left = [frame for seat in seats for frame in seat.frames if frame[Frame.STATE] != State.FINISHED]
        if not left or any(frame[Frame.CLUSTER] != Arrival.ARRIVED for frame in left):
            return False
        for frame in left:
            frame[Frame.CLUSTER] = Arrival.COMPLETE
            if frame[Frame.STATE] == State.WAITING and frame[Frame.BARRIER] == CLUSTER_BARRIER:
                frame[Frame.STATE] = State.READY
        return True

    @staticmethod
    def _stuck(seat: Worker) -> KernelFault:
        if seat.context[Context.FAULT] != Fault.ENDLESS:
            seat.context[Context.FAULT] = Fault.DEADLOCK
        return seat.fault()

    @property
    def instructions(self) -> int:
        return sum(seat.instructions for seat in self.seats)

    def interrupt(self) -> None:
        for seat in self.seats:
            seat.interrupt()

    def close(self) -> None:
        for seat in self.seats:
            seat.close()
