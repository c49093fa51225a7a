"""Checks every request (host, origin, size and time of the body) and sets security headers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

MOST_BODY_BYTES = 256 * 2**10
BODY_SECONDS = 10.0
MOST_PATH = 200

#: Scripts, styles and data come from this server alone. Plotly sets styles of the elements it draws.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """An ASGI application around another one. `hosts` are the names, with port, under which it answers."""

    def __init__(self, app: Any, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = self._refusal(scope)
        body = b""
        if refusal is None and scope["method"] == "POST":
            refusal, body = await _read(scope, receive)
        if refusal is not None:
            await _refuse(send_with_headers, *refusal)
            return
        await self.app(scope, _again(body, receive), send_with_headers)

    def _refusal(self, scope: Any) -> tuple[int, str] | None:
        """Why a request is not answered; None where it is."""
        if scope["type"] != "http":
            return 400, "only HTTP is spoken here"
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        host = b"".join(headers.get(b"host", [])).decode("latin-1").lower()
        # A name that somebody else's DNS points here must not open this server to that name's pages.
        if len(headers.get(b"host", [])) != 1 or host not in self.hosts:
            return 421, "this server does not answer under that name"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are answered"
        if len(scope["path"]) > MOST_PATH:
            return 414, "the address is too long"
        if scope["method"] == "POST":
            origin = b"".join(headers.get(b"origin", [])).decode("latin-1").lower()
            site = b"".join(headers.get(b"sec-fetch-site", [b"same-origin"]))
            if origin != f"http://{host}" or site != b"same-origin":
                return 403, "requests of other pages are not answered"
            kind = b"".join(headers.get(b"content-type", [])).partition(b";")[0].strip()
            if kind != b"application/json":
                return 415, "requests must be JSON"
        return None


async def _read(scope: Any, receive: Any) -> tuple[tuple[int, str] | None, bytes]:
    """The whole body, where it is small and comes soon enough."""
    too_large = (413, f"a request has at most {MOST_BODY_BYTES >> 10} KiB")
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if not declared.isdigit() or int(declared[:20]) > MOST_BODY_BYTES:
        return too_large, b""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return (400, "the request ended early"), b""
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY_BYTES:
                    return too_large, b""
                if not message.get("more_body", False):
                    return None, b"".join(parts)
    except TimeoutError:
        return (408, f"the request took longer than {BODY_SECONDS:g} s to come in"), b""


def _again(body: bytes, receive: Any) -> Any:
    """The body that was read, once more, and then whatever comes."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return pending.pop() if pending else await receive()

    return replay


async def _refuse(send: Any, status: int, message: str) -> None:
    content = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
