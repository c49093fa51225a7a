"""The HTTP server: a local socket, with timeouts for slow connections."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InputError
from ..machine import Gpu
from ..workload import Workload
from .app import Page, make_app

LOOPBACK = "127.0.0.1"
#: Time in which the headers of a request have to arrive.
HEADER_SECONDS = 10.0
MOST_CONNECTIONS = 64


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it; a connection that sends no whole request for a while is closed."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is None and self._idle:
            self._wait()

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        self._deadline = None
        if self._idle:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(error)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; what goes wrong is said with a remedy."""
    try:
        if ipaddress.ip_address(host).is_unspecified:
            raise InputError(f"--host {host}: stands for all addresses; give the one that browsers will use")
    except ValueError:
        pass
    bound = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        if bound is not None:
            bound.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host} port {port}: {reason}; choose another with --port") from None
    return bound


def names_of(host: str, port: int) -> frozenset[str]:
    """What a Host header may be."""
    own = f"[{host}]" if ":" in host else host.lower()
    names = {own} | ({"127.0.0.1", "localhost", "[::1]"} if is_loopback(host) else set())
    return frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())


class PageServer:
    """A page at an address, from `run` until `stop`."""

    def __init__(
        self,
        inputs: Sequence[Workload | str] = (),
        machines: Sequence[Gpu] = (),
        *,
        host: str = LOOPBACK,
        port: int = 0,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self.page = Page(inputs, machines)
        self.socket = listen(host, port)
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        self._started = started
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(self.page, names_of(host, self.port)),
                http=ImpatientProtocol,
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=10,
                timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=16 * 2**10,
            )
        )

    def run(self) -> None:
        """Answer until `stop`, or until the process is told to end."""

        async def serve() -> None:
            task = asyncio.ensure_future(self._server.serve(sockets=[self.socket]))
            while not self._server.started and not task.done():
                await asyncio.sleep(0.01)
            if not task.done():
                self._started()
            await task

        asyncio.run(serve())

    def stop(self) -> None:
        self._server.should_exit = True
