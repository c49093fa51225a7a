"""The web application: static files, a catalogue, answers, and kernels that visitors paste."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .._version import __version__
from ..api import place
from ..categories import CATEGORIES
from ..errors import InputError, UnknownNameError
from ..frontends.cuda.signatures import TYPES, signatures
from ..machine import Gpu, gpu_names, load_gpu
from ..models import MODELS
from ..workload import Workload, workload_of_trace
from .answers import FIRST_MODELS, OWN_MACHINE, Part, Sources, Watch, advice, answers, state_of
from .controls import catalogue
from .errors import Busy, Cancelled, FieldError
from .guard import Guard
from .kernels import Held, Kernel, Progress, bundled_kernels, given_kernels
from .sandbox import Sandbox
from .sources import MOST_SOURCE_BYTES, check_source, launch_of
from .visitors import COOKIE, Visitor, Visitors

#: What a page without inputs shows first: quick to record, memory-bound, and divergent.
FIRST_KERNEL = "suite:transpose_naive"
FIRST_GPU = "h200"
#: Questions that are worked on or wait.
MOST_QUESTIONS = 16
_WORKERS = 4
_STATIC = ("index.html", "app.css", "main.js", "state.js", "controls.js", "results.js", "upload.js", "icon.svg")
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

log = logging.getLogger("warplens.web")


class Page:
    """All that the server knows: kernels, machines, visitors, and the work that goes on."""

    def __init__(self, inputs: Sequence[Workload | str] = (), machines: Sequence[Gpu] = ()) -> None:
        self.machines: dict[str, Gpu | None] = {gpu.name: gpu for gpu in machines}
        self.machines |= {name: None for name in gpu_names() if name not in self.machines}
        self.first_machine = machines[0].name if machines else FIRST_GPU
        self._own_machines: dict[tuple[str, str | None], Gpu] = {}
        self.given = given_kernels(inputs, machines[0] if machines else None)
        self.held = Held()
        self.sandbox = Sandbox()
        self.visitors = Visitors(self._forget)
        self.pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="warplens-page")
        self._questions = 0
        self._lock = threading.Lock()

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        return {kernel.id: kernel for kernel in [*self.given, *bundled_kernels()]}

    @cached_property
    def first_state(self) -> dict[str, Any]:
        kernel = self.kernels[self.given[0].id if self.given else FIRST_KERNEL]
        gpu = OWN_MACHINE if kernel.has_machine else self.first_machine
        models = [name for name in FIRST_MODELS if name in MODELS]
        return {"kernel": kernel.id, "machines": [{"gpu": gpu, "set": {}}], "models": models}

    def catalogue(self, visitor: Visitor) -> dict[str, Any]:
        own = [kernel for kernel, _ in visitor.kernels.values()]
        return {
            "version": __version__,
            "kernels": [kernel.to_dict() for kernel in [*own, *self.kernels.values()]],
            "gpus": list(self.machines),
            "models": [
                {"name": name, "title": model.title, "stack": model.categories is not None}
                for name, model in MODELS.items()
            ],
            "causes": {name: category.label for name, category in CATEGORIES.items()},
            "controls": catalogue(),
            "first": self.first_state,
            "most_source_bytes": MOST_SOURCE_BYTES,
        }

    # -- what answers need ----------------------------------------------------------------

    def workload_of(self, visitor: Visitor) -> Callable[[str, str, Progress], Workload]:
        def find(kernel_id: str, machine: str, progress: Progress) -> Workload:
            own = visitor.kernels.get(kernel_id)
            kernel = own[0] if own else self.kernels.get(kernel_id)
            if kernel is None:
                told = (
                    "was brought in another visit; paste it again" if kernel_id.startswith("own:") else "is unknown"
                )
                raise UnknownNameError(f"this kernel {told}")
            return self.held.get(kernel, machine, progress)

        return find

    def machine_of(self, name: str, workload: Workload) -> Gpu:
        if name == OWN_MACHINE:
            own = (workload.path, workload.machine)
            if own not in self._own_machines:
                self._own_machines[own] = place(workload)[1]
            return self._own_machines[own]
        if name not in self.machines:  # never a path: names of this list alone are looked up
            raise UnknownNameError(f"no machine is called {name[:60]!r}")
        gpu = self.machines[name]
        if gpu is None:
            gpu = self.machines[name] = load_gpu(name)
        return gpu

    def parts(
        self, document: Any, visitor: Visitor, stopped: Callable[[], None], tell: Callable[[Part], None]
    ) -> None:
        """Answer a question part by part."""
        for part in answers(state_of(document), self._sources(visitor), Watch(stopped, tell)):
            tell(part)

    def advice(
        self, document: Any, visitor: Visitor, stopped: Callable[[], None], tell: Callable[[Part], None]
    ) -> None:
        """What to change, which takes longer than the rest of an answer."""
        for part in advice(state_of(document), self._sources(visitor), Watch(stopped, tell)):
            tell(part)

    def _sources(self, visitor: Visitor) -> Sources:
        return Sources(self.workload_of(visitor), self.machine_of)

    def bring(
        self, document: Any, visitor: Visitor, stopped: Callable[[], None], tell: Callable[[Part], None]
    ) -> None:
        """Compile and run a visitor's kernel, and add it to the visitor's list."""
        launch = launch_of(document)
        tell({"type": "progress", "text": "Compiling and running the kernel", "done": 0, "total": 0})
        trace, folder = self.sandbox.run(document, stopped)
        workload = workload_of_trace(trace)
        grid, block = ("×".join(map(str, size)) for size in (launch.grid, launch.block))
        kernel = Kernel(
            f"own:{secrets.token_hex(8)}",
            launch.kernel,
            "Yours",
            f"{grid} blocks of {block} threads",
            lambda _: workload,
        )
        self.visitors.add_kernel(visitor, kernel, folder)
        tell({"type": "kernel", "kernel": kernel.to_dict()})

    def warm_up(self) -> None:
        """Compile what the first answer needs, so that the first visitor need not wait for it."""
        nobody = Visitor("", self.visitors.closing)
        try:
            for work in (self.parts, self.advice):
                work(self.first_state, nobody, nobody.ask("warm-up").check, lambda part: None)
        except Cancelled:
            pass
        except InputError as error:  # the visitor will see it
            log.info("warm-up: %s", error)

    def _forget(self, gone: list[tuple[Kernel, Path]]) -> None:
        self.held.forget([kernel.id for kernel, _ in gone])
        for _, folder in gone:
            self.sandbox.remove(folder)

    def close(self) -> None:
        self.visitors.closing.set()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.sandbox.close()

    # -- streams ----------------------------------------------------------------------------

    async def stream(
        self, work: Callable[..., None], document: Any, visitor: Visitor, what: str
    ) -> AsyncIterator[bytes]:
        """Lines of JSON, as the work goes on; it ends when nobody listens."""
        with self._lock:
            if self._questions >= MOST_QUESTIONS:
                yield _line({"type": "error", "field": "", "message": "the server is busy; try again in a moment"})
                return
            self._questions += 1
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Part | None]()
        ticket = visitor.ask(what)

        def tell(part: Part | None) -> None:
            with suppress(RuntimeError):  # the server has ended in the meantime
                loop.call_soon_threadsafe(queue.put_nowait, part)

        def run() -> None:
            try:
                ticket.check()
                work(document, visitor, ticket.check, tell)
            except Cancelled:
                tell({"type": "cancelled"})
            except FieldError as error:
                tell({"type": "error", "field": error.field, "message": str(error)})
            except (InputError, Busy) as error:
                tell({"type": "error", "field": "", "message": str(error)})
            except Exception:
                log.exception("a question could not be answered")
                tell(
                    {"type": "error", "field": "", "message": "something went wrong on the server; its log says what"}
                )
            finally:
                with self._lock:
                    self._questions -= 1
                tell(None)

        self.pool.submit(run)
        try:
            while (part := await queue.get()) is not None:
                yield _line(part)
        finally:
            ticket.end()


def _line(part: Part) -> bytes:
    return json.dumps(part, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


# -- routes -----------------------------------------------------------------------------------


def make_app(page: Page, hosts: frozenset[str]) -> Any:
    """The ASGI application of a page."""
    routes = [
        Route("/", _file("index.html")),
        Route("/plotly.js", _plotly()),
        Route("/api/catalogue", _catalogue),
        Route("/api/answers", _answers, methods=["POST"]),
        Route("/api/advice", _advice, methods=["POST"]),
        Route("/api/kernels", _bring, methods=["POST"]),
        Route("/api/signatures", _signatures, methods=["POST"]),
        *(Route(f"/static/{name}", _file(name)) for name in _STATIC),
        Route("/static/answer.css", _file("answer.css", "warplens.reports", "assets")),
    ]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        page.pool.submit(page.warm_up)
        yield
        page.close()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _not_found, 500: _failed},
    )
    app.state.page = page
    return Guard(app, hosts)


def _file(name: str, package: str = "warplens.web", folder: str = "static") -> Callable[[Request], Response]:
    """One of a fixed list of files, read at the start: nothing of a request names a file."""
    content = files(package).joinpath(folder, name).read_bytes()

    def answer(request: Request) -> Response:
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers={"cache-control": "no-cache"})

    return answer


def _plotly() -> Callable[[Request], Response]:
    """plotly.js as the Python package carries it; the address names its version, so that browsers may keep it."""
    content = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    kept = {"cache-control": "max-age=604800, immutable", "etag": f'"{metadata.version("plotly")}"'}

    def answer(request: Request) -> Response:
        return Response(content, media_type="text/javascript; charset=utf-8", headers=kept)

    return answer


def _visitor(request: Request) -> Visitor:
    return request.app.state.page.visitors.get(request.cookies.get(COOKIE))


def _known(response: Response, visitor: Visitor) -> Response:
    response.set_cookie(COOKIE, visitor.identity, httponly=True, samesite="strict", path="/")
    return response


def _catalogue(request: Request) -> Response:
    visitor = _visitor(request)
    return _known(JSONResponse(request.app.state.page.catalogue(visitor)), visitor)


async def _document(request: Request) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(await request.body(), parse_constant=refuse)
    except (ValueError, RecursionError):
        raise FieldError("", "the request is not JSON") from None


async def _streamed(request: Request, work: Callable[..., None], what: str) -> Response:
    visitor = _visitor(request)
    try:
        document = await _document(request)
    except FieldError as error:
        return JSONResponse({"error": str(error)}, 400)
    lines = request.app.state.page.stream(work, document, visitor, what)
    return _known(StreamingResponse(lines, media_type="application/x-ndjson"), visitor)


async def _answers(request: Request) -> Response:
    return await _streamed(request, request.app.state.page.parts, "answers")


async def _advice(request: Request) -> Response:
    return await _streamed(request, request.app.state.page.advice, "advice")


async def _bring(request: Request) -> Response:
    return await _streamed(request, request.app.state.page.bring, "kernels")


async def _signatures(request: Request) -> Response:
    """Kernels and parameters of a source, for the form."""
    try:
        document = await _document(request)
        source = document.get("source") if isinstance(document, dict) else None
        found = await run_in_threadpool(lambda: signatures(check_source(source)))
    except FieldError as error:
        return JSONResponse({"field": error.field, "error": str(error)}, 400)
    return JSONResponse({"kernels": found, "types": TYPES})


def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "there is nothing here"}, getattr(error, "status_code", 404))


def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "something went wrong on the server; its log says what"}, 500)
