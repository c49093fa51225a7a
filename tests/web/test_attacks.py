"""The obvious attacks on the page, over the wire."""

from __future__ import annotations

import json
import time

import pytest

from warplens.web import guard
from web.serving import Client
from web.test_sources import KERNEL, LAUNCH

STATE = {"kernel": "papers:mdm-baseline", "models": ["mdm"], "machines": [{"gpu": "mdm2020", "set": {}}]}


def test_every_answer_has_the_headers_that_protect_it(client: Client) -> None:
    for path in ("/", "/static/main.js", "/api/catalogue", "/nothing", "/plotly.js"):
        answer = client.request("GET", path)
        for name, value in guard.HEADERS.items():
            assert answer.getheader(name) == value, (path, name)
        assert answer.getheader("server") is None
    policy = guard.POLICY
    assert "'unsafe-eval'" not in policy and "http" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def test_the_page_names_no_other_place(client: Client) -> None:
    page = client.request("GET", "/").content.decode()
    assert "http://" not in page and "https://" not in page and "<script>" not in page and " style=" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/pyproject.toml",
        "/static/....//app.py",
        "/static//etc/passwd",
        "/static/",
        "/static/app.py",
        "/static/main.js%00.html",
        "/etc/passwd",
        "//etc/passwd",
        "/plotly.js/../../x",
        "/" + "a" * 1000,
    ],
)
def test_no_path_reaches_the_file_system(client: Client, path: str) -> None:
    answer = client.raw(f"GET {path} HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ", 2)[1] in (b"404", b"400", b"414"), answer[:200]
    assert b"root:" not in answer and b"import" not in answer


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../../etc/passwd", "/srv/machine.toml", "h200.toml", "h200\0", ""]
)
def test_no_name_of_a_machine_or_kernel_reaches_the_file_system(client: Client, name: str) -> None:
    for document, field in (
        (STATE | {"machines": [{"gpu": name, "set": {}}]}, "machines.0.gpu"),
        (STATE | {"machines": [*STATE["machines"], {"gpu": name, "set": {}}]}, "machines.1.gpu"),
        (STATE | {"kernel": name}, "kernel"),
        (STATE | {"kernel": f"papers:{name}"}, "kernel"),
    ):
        (error,) = [part for part in client.ask("/api/answers", document) if part["type"] == "error"]
        assert error["field"] == field
        assert "unknown" in error["message"] or "no machine is called" in error["message"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "", "127.0.0.1:{port}@evil", "a b"],
)
def test_other_names_are_not_answered(client: Client, host: str) -> None:
    given = host.format(port=client.server.port)
    answer = client.raw(f"GET /api/catalogue HTTP/1.1\r\nHost: {given}\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ", 2)[1] in (b"421", b"400")
    assert b"kernels" not in answer


def test_two_names_or_none_are_not_answered(client: Client) -> None:
    both = f"Host: {client.host}\r\nHost: evil.example\r\n"
    for hosts in (both, ""):
        answer = client.raw(f"GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        assert answer.split(b" ", 2)[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://{host}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
@pytest.mark.parametrize("path", ["/api/answers", "/api/kernels", "/api/signatures"])
def test_other_pages_cannot_post(client: Client, path: str, headers: dict[str, str]) -> None:
    given = {name: value.format(host=client.host) for name, value in headers.items()}
    assert client.request("POST", path, STATE, given).status in (403, 415)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kernel": NaN}',
        b"9" * 10_000,
        b'{"kernel": "\\ud800"}',
        json.dumps({"kernel": "x" * 100_000}).encode(),
        json.dumps(STATE | {"machines": [{"gpu": "h200", "set": {"sms": 1e308}}]}).encode(),
        b'{"__proto__": {"x": 1}, "kernel": {"$gt": ""}}',
    ],
    ids=range(10),
)
@pytest.mark.parametrize("path", ["/api/answers", "/api/kernels", "/api/signatures"])
def test_malformed_bodies_are_refused_politely(client: Client, path: str, body: bytes) -> None:
    answer = client.request("POST", path, body)
    assert answer.status in (200, 400)
    assert (
        b"error" in answer.content
        and b"Traceback" not in answer.content
        and b"something went wrong" not in answer.content
    )


def test_bodies_that_are_too_large_are_not_read(client: Client) -> None:
    head = f"POST /api/answers HTTP/1.1\r\nHost: {client.host}\r\nOrigin: http://{client.host}\r\n"
    head += "Content-Type: application/json\r\n"
    declared = client.raw(f"{head}Content-Length: 10000000000\r\n\r\n".encode())
    assert declared.startswith(b"HTTP/1.1 413")
    part = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    chunked = client.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + part * 4 + b"1\r\nx\r\n")
    assert chunked.startswith(b"HTTP/1.1 413")


def test_slow_requests_are_given_up(client: Client, monkeypatch) -> None:
    monkeypatch.setattr("warplens.web.server.HEADER_SECONDS", 0.5)
    monkeypatch.setattr("warplens.web.guard.BODY_SECONDS", 0.5)
    began = time.monotonic()
    assert client.raw(b"GET / HTTP/1.1\r\nHos") == b""
    assert client.raw(f"GET / HTTP/1.1\r\nHost: {client.host}\r\n\r\nGET /".encode()).startswith(b"HTTP/1.1 200")
    head = f"POST /api/answers HTTP/1.1\r\nHost: {client.host}\r\nOrigin: http://{client.host}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    assert client.raw(head.encode()).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 18


def test_methods_and_upgrades_are_limited(client: Client) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        assert client.request(method, "/").status in (400, 405)
    assert client.request("POST", "/", {}).status == 405
    upgrade = f"GET / HTTP/1.1\r\nHost: {client.host}\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
    assert (
        b"101" not in client.raw(f"{upgrade}Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())[:20]
    )


def test_a_visitor_sees_no_kernel_of_another(client: Client) -> None:
    parts = client.ask("/api/kernels", LAUNCH)
    (kernel,) = [part["kernel"] for part in parts if part["type"] == "kernel"]
    own = json.loads(client.request("GET", "/api/catalogue").content)
    assert kernel["id"] in [each["id"] for each in own["kernels"]]
    stranger = Client(client.server)
    other = json.loads(stranger.request("GET", "/api/catalogue").content)
    assert kernel["id"] not in [each["id"] for each in other["kernels"]]
    asked = STATE | {"kernel": kernel["id"], "machines": [{"gpu": "h200", "set": {}}]}
    assert "another visit" in stranger.ask("/api/answers", asked)[-1]["message"]
    assert client.ask("/api/answers", asked)[-1]["type"] == "done"
    stranger.cookie = "warplens_visitor=guessed"
    answer = stranger.request("GET", "/api/catalogue")
    assert "guessed" not in (answer.getheader("set-cookie") or "")


def test_a_script_in_the_name_of_a_kernel_stays_text(client: Client) -> None:
    evil = LAUNCH | {
        "source": KERNEL.replace("scale", "<script>alert(1)</script>"),
        "kernel": "<script>alert(1)</script>",
    }
    (error,) = [part for part in client.ask("/api/kernels", evil) if part["type"] == "error"]
    assert error["field"] == "kernel"
    answer = client.request("POST", "/api/answers", STATE | {"kernel": "<img src=x onerror=alert(1)>"})
    assert answer.getheader("content-type") == "application/x-ndjson"


def test_the_number_of_questions_is_bounded(client: Client, monkeypatch) -> None:
    monkeypatch.setattr("warplens.web.app.MOST_QUESTIONS", 0)
    (answer,) = client.ask("/api/answers", STATE)
    assert "busy" in answer["message"]


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client: Client) -> None:
    cookie = client.request("GET", "/api/catalogue").getheader("set-cookie").lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
