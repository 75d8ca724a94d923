"""What is remembered of who was admitted, and for how long."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

import signalbook
from signalbook.access.authentication import Authenticator
from signalbook.api.kernel import admission
from signalbook.storage.store import Store

READERS: dict[str, Any] = {"who": ["subject:ann"], "role": "reader"}


@pytest.fixture
def authentications(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the list of credential checks; the clock stands still."""
    calls: list[object] = []
    real = Authenticator.read_credentials

    def credentials(self: Authenticator, scope: Any) -> object:
        calls.append(scope["headers"])
        return real(self, scope)

    monkeypatch.setattr(Authenticator, "read_credentials", credentials)
    monkeypatch.setattr(admission, "_RECENT", 3600.0)
    return calls


@pytest.fixture
def closed(store: Store, serve: Serve) -> Client:
    put_policy(store, READERS)
    return serve(store, **PROXIED)


def test_admitted_caller_is_authenticated_once(closed: Client, authentications: list[object]) -> None:
    for _ in range(3):
        assert closed.get("/", headers={"X-User": "ann"}).status_code == 200
    assert len(authentications) == 1
    assert closed.get("/", headers={"X-User": "bob"}).status_code == 403
    assert closed.get("/", headers={"X-User": "ann", "X-Groups": "g"}).status_code == 200
    assert closed.get("/", headers={"X-User": "ann", "Authorization": "Bearer x"}).status_code == 200
    assert len(authentications) == 4


def test_policy_change_takes_effect_immediately(closed: Client, authentications: list[object]) -> None:
    ann = {"X-User": "ann"}
    assert closed.get("/", headers=ann).status_code == 200
    rules = [{"who": ["subject:root"], "role": "administrator"}]
    assert closed.send("PUT", "/access", headers=ADMINISTRATOR, json={"rules": rules}).status_code == 200
    assert closed.get("/", headers=ann).status_code == 403
    assert authentications


def test_preflight_grants_no_access(closed: Client) -> None:
    assert closed.send("OPTIONS", "/").status_code == 200
    assert closed.get("/").status_code == 401


@pytest.mark.usefixtures("authentications")
def test_a_read_from_memory_takes_few_steps(closed: Client) -> None:
    """A call of a Python function takes a quarter of a microsecond, a whole read 40."""
    ann = {"X-User": "ann"}
    closed.get("/", headers=ann)
    calls: list[str] = []
    package = str(Path(signalbook.__file__).parent)

    def count(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(package) and not file.startswith(f"{package}/storage"):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(count)
    try:
        closed.get("/", headers=ann)
    finally:
        sys.setprofile(None)
    assert 20 < len(calls) <= 39, calls
