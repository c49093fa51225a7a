"""A page served in this process, and requests as raw as an attacker may send them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from warplens.web.server import PageServer


@contextmanager
def running_page(**options: Any) -> Iterator[PageServer]:
    started = threading.Event()
    server = PageServer(**options, started=started.set)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(30), "the server does not start"
    try:
        yield server
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()


class Client:
    """One browser: keeps its cookie, sends the headers that a page would."""

    def __init__(self, server: PageServer) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.port}"
        self.cookie = ""

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        given = {"Host": self.host, "Cookie": self.cookie} if self.cookie else {"Host": self.host}
        if body is not None:
            given |= {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body, {**given, **(headers or {})})
        answer = connection.getresponse()
        answer.content = answer.read()  # type: ignore[attr-defined]
        if cookie := answer.getheader("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        connection.close()
        return answer

    def ask(self, path: str, document: Any) -> list[dict[str, Any]]:
        """The lines of an answer."""
        answer = self.request("POST", path, document)
        assert answer.status == 200, answer.content
        return [json.loads(line) for line in answer.content.splitlines()]

    def raw(self, data: bytes, *, wait: float = 20.0) -> bytes:
        """What comes back to some bytes, until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=wait) as connection:
            connection.sendall(data)
            found = b""
            end = time.monotonic() + wait
            while time.monotonic() < end:
                part = connection.recv(65536)
                if not part:
                    break
                found += part
            return found
