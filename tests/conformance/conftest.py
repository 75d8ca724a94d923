"""A whole server on each database, reached by HTTP without a socket, and the kit's session against it."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from starlette.types import ASGIApp
from tests.postgres import new_database

from signalbook.server import build
from signalbook.settings import Settings
from signalbook.values import JSON
from xregistry_conformance.running import ConformanceSession, Options
from xregistry_conformance.wire import Wire

ROOT = "http://registry.example"
EVERYTHING = Options(writes=True, configures=True, locks_out=True, exact_titles=True)


class InProcess(httpx.BaseTransport):
    """HTTP to an application in this process. ``close`` does nothing: clients call it, and the server stays."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._loop = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # ``Runner.run`` would install a handler of signals for each request, which takes as long as some requests.
        return self._loop.get_loop().run_until_complete(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        response = await transport.handle_async_request(request)
        # As it was sent: what is made of it is decoded again.
        content = b"".join([chunk async for chunk in response.aiter_raw()])
        return httpx.Response(response.status_code, headers=response.headers, content=content)

    def wait_for(self, awaitable: Awaitable[object]) -> None:
        async def run() -> None:
            await awaitable

        self._loop.run(run())

    def stop(self) -> None:
        self._loop.close()


@contextmanager
def serving(db: str, *, model: str = "default") -> Iterator[InProcess]:
    """A server with its default model, or another."""
    app = build(Settings(db=db, registry_id="conformance", model=model, allow_hosts=("registry.example",)))
    transport, lifespan = InProcess(app), app.router.lifespan_context(app)
    transport.wait_for(lifespan.__aenter__())
    try:
        yield transport
    finally:
        transport.wait_for(lifespan.__aexit__(None, None, None))
        transport.stop()


@contextmanager
def open_session(transport: httpx.BaseTransport, options: Options = EVERYTHING) -> Iterator[ConformanceSession]:
    with Wire(ROOT, timeout=300, headers={}, transport=transport) as wire, ConformanceSession(wire, options) as session:
        yield session


@pytest.fixture(scope="module")
def module_database(postgres_url: str) -> str:
    """A PostgreSQL database without tables, of one module."""
    return new_database(postgres_url)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[InProcess]:
    db = "sqlite://" if request.param == "sqlite" else str(request.getfixturevalue("module_database"))
    with serving(db) as transport:
        yield transport


@pytest.fixture(scope="module")
def sqlite_server() -> Iterator[InProcess]:
    with serving("sqlite://") as transport:
        yield transport


@pytest.fixture(scope="module")
def session(server: InProcess) -> Iterator[ConformanceSession]:
    """The kit at work, allowed everything, with the one capability on that is off on a fresh server.

    Whatever ran, it leaves the entities, the model and the capabilities as they were.
    """
    with httpx.Client(transport=server, base_url=ROOT) as client:
        client.patch("/capabilities", json={"shortself": True}).raise_for_status()
        client.put("/messagegroups/mine/messages/m", json={"name": "stays"}).raise_for_status()
    before = everything(server)
    with open_session(server) as opened:
        yield opened
    assert everything(server) == before


def everything(transport: InProcess) -> list[JSON]:
    """Return everything that a server stores, except what every write changes."""
    with httpx.Client(transport=transport, base_url=ROOT) as client:
        registry = client.get("/?inline=*,capabilities,modelsource").json()
    return [value for name, value in registry.items() if name not in ("epoch", "modifiedat")]
