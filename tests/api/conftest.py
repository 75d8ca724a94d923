"""The application over a real store on each database, and a client that speaks HTTP to it."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, closing
from typing import Any, Protocol, Self, TypeVar

import httpx
import pytest
from starlette.applications import Starlette

from signalbook.access import tokens
from signalbook.access.audit import Audit
from signalbook.access.control import AccessControl
from signalbook.access.decisions import UNRESTRICTED
from signalbook.access.policy import read_policy
from signalbook.access.tokens import TokenRequest
from signalbook.api.app import create_app
from signalbook.engine.engine import Engine
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.store import Store
from signalbook.values import now

ANY: dict[str, Any] = {"*": {"type": "any"}}
_FILE_ATTRIBUTES: dict[str, Any] = {
    "size": {"type": "uinteger"},
    "ratio": {"type": "decimal"},
    "hidden": {"type": "boolean"},
    "tags": {"type": "array", "item": {"type": "string"}},
    "counts": {"type": "map", "item": {"type": "integer"}},
    "owner": {"type": "object", "attributes": ANY},
    "text": {"type": "string"},
    **ANY,
}
_RESOURCES: dict[str, Any] = {
    "files": {"singular": "file", "attributes": _FILE_ATTRIBUTES},
    "notes": {"singular": "note", "hasdocument": False, "attributes": ANY},
}
MODEL: dict[str, Any] = {"groups": {"dirs": {"singular": "dir", "attributes": ANY, "resources": _RESOURCES}}}
"""``/dirs/files`` have documents, ``/dirs/notes`` have none."""


PROXIED: dict[str, Any] = {
    "proxy_user_header": "X-User",
    "proxy_groups_header": "X-Groups",
    "trusted_proxies": ("127.0.0.1",),
}
"""Settings with which a test says who asks: it is the trusted proxy."""
ADMINISTRATOR = {"X-User": "root"}


def put_policy(store: Store, *rules: dict[str, Any]) -> None:
    """Put these rules in force, and one that lets ``ADMINISTRATOR`` do everything."""
    everything = {"who": ["subject:root"], "role": "administrator"}
    control = AccessControl(store, Settings())
    with store.write() as transaction:
        control.put(transaction, read_policy({"rules": [everything, *rules]}), by=UNRESTRICTED)


T = TypeVar("T")


class Client:
    """Short words for requests to an application; redirects are not followed."""

    def __init__(self, app: Starlette, audit: Audit | None = None) -> None:
        self.app = app
        self.audit = audit
        self._loop = asyncio.Runner()
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        # httpx would ask for compression, and undo it: what is sent is to be seen as it is.
        headers = {"Accept-Encoding": "identity"}
        self._http = httpx.AsyncClient(transport=transport, base_url="http://r.example", headers=headers)
        self._lifespan = app.router.lifespan_context(app)

    def __enter__(self) -> Self:
        self._loop.run(self._lifespan.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._http.aclose())
        self._loop.run(self._lifespan.__aexit__(None, None, None))
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do ``work`` where the application runs."""
        # ``Runner.run`` would install a handler of signals for each request, which takes as long as some requests.
        return self._loop.get_loop().run_until_complete(work)

    def send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self.run(self._http.request(method, path, **sent))

    def together(self, *requests: tuple[str, str, Any], **sent: Any) -> list[httpx.Response]:
        """Several requests at once, each a method, a path and a JSON body."""

        async def all_of_them() -> list[httpx.Response]:
            calls = (self._http.request(m, path, json=body, **sent) for m, path, body in requests)
            return await asyncio.gather(*calls)

        return self.run(all_of_them())

    def get(self, path: str, **sent: Any) -> httpx.Response:
        return self.send("GET", path, **sent)

    def put(self, path: str, body: Any = None, **sent: Any) -> httpx.Response:
        return self.send("PUT", path, json=body, **sent)

    def pages(self, path: str, **sent: Any) -> Iterator[httpx.Response]:
        """Yield the page at ``path`` and those that its links lead to."""
        while path:
            page = self.get(path, **sent)
            yield page
            path = page.links.get("next", {}).get("url", "")

    def put_document(self, path: str, content: bytes, contenttype: str | None = None, **headers: str) -> httpx.Response:
        """PUT in document form; ``headers`` without their ``xRegistry-`` prefix."""
        sent = {f"xRegistry-{name}": value for name, value in headers.items()}
        sent |= {"Content-Type": contenttype} if contenttype else {}
        return self.send("PUT", path, content=content, headers=sent)

    def refused(self, method: str, path: str, code: str, **sent: Any) -> dict[str, Any]:
        """The body of an error, which must be ``code`` and change nothing (R22)."""
        before = self.get("/?inline=*").text
        answer = self.send(method, path, **sent)
        assert answer.status_code >= 400, answer.text
        body: dict[str, Any] = answer.json()
        assert body["type"].endswith(f"#{code}"), body
        assert self.get("/?inline=*").text == before
        return body


class Serve(Protocol):
    """Makes a client of a new application over a store."""

    def __call__(self, store: Store, /, **settings: Any) -> Client: ...


def make_client(store: Store, /, **settings: Any) -> Client:
    """Make a client of a new application, with an empty model unless settings say otherwise."""
    # Keys are kept beside the database of the settings: in memory, whatever the store is.
    hosts = ("r.example", "other.example")
    common = {"model": "empty", "registry_id": "test", "db": "sqlite://", "allow_hosts": hosts}
    chosen = Settings(**{**common, **settings})
    audit = Audit(store, chosen)
    app = create_app(Engine(store, settings=chosen), chosen, direct=True, close=lambda: None, audit=audit)
    return Client(app, audit)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Makes clients as ``make_client`` does, and closes them at the end."""
    with ExitStack() as clients:
        yield lambda store, /, **settings: clients.enter_context(make_client(store, **settings))


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A registry with the model above."""
    client = serve(store)
    assert client.put("/modelsource", MODEL).status_code == 200
    return client


@pytest.fixture(scope="module")
def lasting_store() -> Iterator[Store]:
    """A store for all tests of a module."""
    with closing(open_store("sqlite://")) as store:
        yield store


def bearer(store: Store, subject: str, *groups: str, scopes: tuple[str, ...] | None = None) -> dict[str, str]:
    """The headers of requests of who has an API token."""
    with store.write() as transaction:
        request = TokenRequest(subject=subject, groups=groups, scopes=scopes)
        _, text = tokens.create(transaction.tokens, request, now())
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
def pat(store: Store) -> dict[str, str]:
    """The headers of an administrator's requests, by the policies of tests that have one."""
    return bearer(store, "pat")
