"""`warplens serve`"""

from __future__ import annotations

from importlib.util import find_spec

import click

from .._version import __version__
from ..errors import MissingPackageError, install_command
from . import completion
from .common import print_json, warn
from .options import json_option


@click.command(short_help="Serve an interactive page with sliders for the machine.")
@click.argument("inputs", nargs=-1, metavar="[INPUT]...", shell_complete=completion.inputs)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME|FILE",
    shell_complete=completion.gpus,
    help="Machine to start with; repeat to offer more.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@json_option
def serve(inputs: tuple[str, ...], gpus: tuple[str, ...], port: int, host: str, as_json: bool) -> None:
    """Serve an interactive page: pick a kernel and a GPU, move sliders, watch the models.

    INPUT is anything that `warplens predict` takes. Its launches come first in
    the list, before the kernels that ship with warplens. Only this machine can
    reach the page unless --host says otherwise. Stop it with Ctrl-C.
    """

    for package in ("starlette", "uvicorn", "plotly"):
        if find_spec(package) is None:
            raise MissingPackageError(f"the page needs {package}; install it with: {install_command('web')}")
    from ..api import JSON_SCHEMA
    from ..machine import load_gpu
    from ..web.server import PageServer, is_loopback

    machines = [load_gpu(name) for name in gpus]

    def started() -> None:
        if as_json:
            print_json({"schema": JSON_SCHEMA, "version": __version__, "url": server.url})
        else:
            click.echo(f"warplens is at {server.url} (stop with Ctrl-C)")

    server = PageServer(inputs, machines, host=host, port=port, started=started)
    if not is_loopback(host):
        warn(f"other machines can reach {host}: whoever opens the page can run kernels on this one")
    try:
        server.run()
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
