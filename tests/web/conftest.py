from __future__ import annotations

from collections.abc import Iterator

import pytest

from warplens.web.server import PageServer
from web.serving import Client, running_page


@pytest.fixture(scope="package")
def server() -> Iterator[PageServer]:
    with running_page() as found:
        yield found


@pytest.fixture
def client(server: PageServer) -> Client:
    return Client(server)
