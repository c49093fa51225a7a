"""The other end of the stand-in: serves the processes of a program until they have ended."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ...errors import WarplensError
from ...machine import Gpu
from .arena import Arena, create_arena
from .launches import SERVER_STACK_BYTES, Launcher, LaunchNumbers, Ordered
from .messages import Answer, CudaError, Op, Request, receive, send
from .modules import DeviceFunction, DeviceModule, NoPtxError, load_module
from .properties import capability, device_attributes, device_properties, memory_bytes
from .recording import Listener, Recording
from .texture_objects import texture_of

#: cudaDeviceSetLimit: stack, printf buffer, malloc heap and others, by number.
_LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0}
Item = TypeVar("Item")
_KINDS = {0: "device memory", 1: "managed memory", 2: "pinned memory"}


class Server:
    """Listens at a Unix socket; one thread serves each process of the program.

    With `exact`, kernels may access allocated bytes only; else whole pages, as on a GPU.
    """

    def __init__(
        self, path: Path, gpu: Gpu, recording: Recording, listener: Listener, *, exact: bool = False
    ) -> None:
        self.gpu, self.recording, self.listener, self.exact = gpu, recording, listener, exact
        self.numbers = LaunchNumbers()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(str(path))
        self.socket.listen(64)
        self.served = 0
        self.threads: list[threading.Thread] = []
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:  # closed
                return
            before = threading.stack_size(SERVER_STACK_BYTES)
            thread = threading.Thread(target=self._serve, args=(connection, self.served), daemon=True)
            self.served += 1
            self.threads.append(thread)
            thread.start()
            threading.stack_size(before)

    def _serve(self, connection: socket.socket, process: int) -> None:
        with connection, suppress(OSError):
            Session(self, connection, process).serve()

    def close(self) -> None:
        """Stop listening, and wait for what the processes that have ended left to do."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for thread in self.threads:
            thread.join(10.0)


@dataclass(eq=False)
class Session:
    """One process of the program: its memory, modules and launches."""

    server: Server
    connection: socket.socket
    process: int
    modules: list[DeviceModule] = field(default_factory=list)
    functions: list[DeviceFunction] = field(default_factory=list)
    created: int = 0
    limits: dict[int, int] = field(default_factory=lambda: dict(_LIMITS))

    def __post_init__(self) -> None:
        gpu = self.server.gpu
        self.arena: Arena = create_arena(memory_bytes(gpu), exact=self.server.exact)
        self.attributes = device_attributes(gpu)
        self.launcher = Launcher(
            self.arena, gpu, self.server.recording, self.server.listener, self.process, self.server.numbers
        )
        listener = self.server.listener
        self.answers: dict[Op, Callable[[Request], Answer]] = {
            Op.ALLOCATE: self._allocate,
            Op.FREE: self._free,
            Op.MODULE: self._module,
            Op.FUNCTION: self._function,
            Op.SYMBOL: self._symbol,
            Op.LAUNCH: self._launch,
            Op.EVENT_ELAPSED: self._elapsed,
            Op.PROPERTIES: lambda request: Answer(data=device_properties(gpu, request.arguments[0])),
            Op.ATTRIBUTES: lambda request: Answer(values=(self.attributes.get(request.arguments[0], 0),)),
            Op.OCCUPANCY: self._occupancy,
            Op.MEMORY_INFO: lambda request: Answer(
                values=(self.arena.most_bytes - self.arena.used_bytes, memory_bytes(gpu))
            ),
            Op.LIMIT: self._limit,
            Op.TEXTURE: self._texture,
            Op.REFUSE: self._refuse,
        }
        self.notes: dict[Op, Callable[[tuple[int, ...]], None]] = {
            Op.COPIED: lambda given: listener.copied(self.process, given[0], given[1], given[2], bool(given[3])),
            Op.EVENT_RECORD: lambda given: listener.recorded(self.process, *given[:2]),
            Op.EVENT_WAIT: lambda given: listener.awaited(self.process, *given[:2]),
            Op.SYNCHRONIZE: lambda given: listener.synchronized(self.process, given[0]),
        }

    def serve(self) -> None:
        try:
            while (request := receive(self.connection)) is not None:
                if request.op == Op.HELLO:
                    files = (self.arena.memory_file, self.arena.table_file)
                    send(self.connection, Answer(values=(self.arena.size_bytes,)), files)
                elif request.op in self.notes:
                    self.notes[request.op](request.arguments)
                else:
                    answer = self._answer(request)
                    if request.answer:
                        send(self.connection, answer)
        finally:
            self.arena.close()

    def _answer(self, request: Request) -> Answer:
        try:
            return self.answers[request.op](request)
        except WarplensError as error:
            self.server.listener.failed(str(error))
            return Answer(CudaError.NO_IMAGE if isinstance(error, NoPtxError) else CudaError.INVALID_PTX)
        except IndexError:  # a module or kernel that was never loaded
            return Answer(CudaError.INVALID_HANDLE)

    def _allocate(self, request: Request) -> Answer:
        size, kind = request.arguments[:2]
        if size < 0:
            return Answer(CudaError.INVALID_VALUE)
        name = f"{_KINDS.get(kind, 'memory')} of {size} bytes"
        address = self.arena.allocate(size, name, pages=kind != 0)
        return Answer(CudaError.OUT_OF_MEMORY) if address is None else Answer(values=(address,))

    def _free(self, request: Request) -> Answer:
        return Answer(0 if self.arena.release(request.arguments[0]) else CudaError.INVALID_VALUE)

    def _module(self, request: Request) -> Answer:
        major, minor = capability(self.server.gpu)
        module = load_module(request.data, 10 * major + minor, self.arena, len(self.modules))
        self.modules.append(module)
        return Answer(values=(len(self.modules) - 1,))

    def _function(self, request: Request) -> Answer:
        found = _at(self.modules, request.arguments[0]).function(_name(request))
        if found is None:
            return Answer(CudaError.INVALID_FUNCTION)
        data = found.described()
        self.functions.append(found)
        return Answer(values=(len(self.functions) - 1,), data=data)

    def _symbol(self, request: Request) -> Answer:
        found = _at(self.modules, request.arguments[0]).variables.get(_name(request))
        return Answer(CudaError.NOT_FOUND) if found is None else Answer(values=found)

    def _launch(self, request: Request) -> Answer:
        function, x, yz, block, shared, stream, flags = request.arguments
        error, faulted, printed = self.launcher.run(
            Ordered(
                _at(self.functions, function),
                (x, yz & 0xFFFFFFFF, yz >> 32),
                (block & 0xFFFF, block >> 16 & 0xFFFF, block >> 32),
                shared,
                stream,
                bool(flags & 1),
                (flags >> 8 & 0xFF, flags >> 16 & 0xFF, flags >> 24 & 0xFF),
                request.data,
            )
        )
        return Answer(error, (int(faulted),), printed.encode())

    def _elapsed(self, request: Request) -> Answer:
        seconds = self.server.listener.elapsed(self.process, *request.arguments[:2])
        return Answer(CudaError.INVALID_HANDLE) if seconds is None else Answer(values=(round(seconds * 1e9),))

    def _occupancy(self, request: Request) -> Answer:
        function, threads, shared = request.arguments[:3]
        return Answer(values=(self.launcher.resident(_at(self.functions, function), threads, shared),))

    def _texture(self, request: Request) -> Answer:
        """Create an object, or destroy one."""
        objects = self.launcher.textures
        if not request.arguments[0]:
            return Answer(0 if objects.pop(request.arguments[1], None) else CudaError.INVALID_VALUE)
        try:
            made = texture_of(request.data)
        except (ValueError, IndexError) as error:
            self.server.listener.failed(f"a texture object cannot be created ({error})")
            return Answer(CudaError.NOT_SUPPORTED)
        self.created += 1
        objects[self.created] = made
        return Answer(values=(self.created,))

    def _refuse(self, request: Request) -> Answer:
        self.server.listener.failed(
            f"{request.data.decode(errors='replace')} is a texture or surface reference, which CUDA 12 removed; "
            "use an object in its place (cudaCreateTextureObject, cudaCreateSurfaceObject)"
            if request.arguments[0]
            else "the program has CUDA's runtime linked in and no table of symbols, so nothing can take its place; "
            "do not strip it, or link it with nvcc -cudart shared"
        )
        return Answer(CudaError.NOT_SUPPORTED)

    def _limit(self, request: Request) -> Answer:
        write, number, value = request.arguments[:3]
        if number not in self.limits:
            return Answer(CudaError.NOT_SUPPORTED)
        if write:
            self.limits[number] = value
        return Answer(values=(self.limits[number],))


def _at(items: Sequence[Item], handle: int) -> Item:
    """What a handle stands for; IndexError where there is none."""
    if handle < 0:
        raise IndexError(handle)
    return items[handle]


def _name(request: Request) -> str:
    return request.data.decode("utf-8", "replace")
