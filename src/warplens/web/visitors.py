"""State of one visitor: uploaded kernels, and the request in progress."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from .errors import Cancelled, FieldError
from .kernels import Kernel

COOKIE = "warplens_visitor"
MOST_VISITORS = 32
MOST_KERNELS = 4
#: Time after which an answer is given up.
MOST_SECONDS = 180.0


class Ticket:
    """A question on its way: until the visitor asks the next one or leaves, the server ends, or minutes pass."""

    def __init__(self, closing: threading.Event) -> None:
        self._ended, self._closing = threading.Event(), closing
        self._until = time.monotonic() + MOST_SECONDS

    def end(self) -> None:
        self._ended.set()

    def check(self) -> None:
        if self._ended.is_set() or self._closing.is_set():
            raise Cancelled
        if time.monotonic() > self._until:
            raise FieldError("kernel", f"stopped: it took longer than {MOST_SECONDS:g} s")


class Visitor:
    """One browser."""

    def __init__(self, identity: str, closing: threading.Event) -> None:
        self.identity, self._closing = identity, closing
        self.kernels: OrderedDict[str, tuple[Kernel, Path]] = OrderedDict()
        self._tickets: dict[str, Ticket] = {}

    def ask(self, what: str) -> Ticket:
        """A ticket for a question; the one before of the same kind ends."""
        if what in self._tickets:
            self._tickets[what].end()
        self._tickets[what] = Ticket(self._closing)
        return self._tickets[what]


class Visitors:
    """All visitors; those not seen for longest are forgotten, with all that was theirs."""

    def __init__(self, forget: Any) -> None:
        self.closing = threading.Event()
        self._visitors: OrderedDict[str, Visitor] = OrderedDict()
        self._lock = threading.Lock()
        self._forget = forget

    def get(self, identity: str | None) -> Visitor:
        """The visitor with that identity, or a new one: identities that were not given out here count for nothing."""
        gone: list[tuple[Kernel, Path]] = []
        with self._lock:
            visitor = self._visitors.get(identity or "")
            if visitor is None:
                visitor = Visitor(secrets.token_urlsafe(24), self.closing)
                self._visitors[visitor.identity] = visitor
            self._visitors.move_to_end(visitor.identity)
            while len(self._visitors) > MOST_VISITORS:
                _, oldest = self._visitors.popitem(last=False)
                gone += oldest.kernels.values()
        self._forget(gone)
        return visitor

    def add_kernel(self, visitor: Visitor, kernel: Kernel, folder: Path) -> None:
        gone = []
        with self._lock:
            visitor.kernels[kernel.id] = kernel, folder
            while len(visitor.kernels) > MOST_KERNELS:
                gone.append(visitor.kernels.popitem(last=False)[1])
        self._forget(gone)
