"""Servers to talk to: a whole registry, and one that answers as a test says."""

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.serving import serving_answers, serving_in_thread

from signalbook.client import Client
from signalbook.settings import Settings


@pytest.fixture(scope="module")
def registry_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry with the shipped model, on a real socket."""
    folder: Path = tmp_path_factory.mktemp("registry")
    settings = Settings(port=0, db=f"sqlite:///{folder / 'registry.db'}", sink_folder=str(folder / "sinks"))
    with serving_in_thread(settings) as url:
        yield url


@pytest.fixture
def client(registry_url: str) -> Iterator[Client]:
    with Client(registry_url) as client:
        yield client


@dataclass
class Script:
    """A scripted server: it answers with (status, headers, body) in turn and repeats the last one; it records the
    requests and their users.
    """

    url: str = ""
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)


@pytest.fixture
def script() -> Iterator[Script]:
    """A server that answers as a test writes down."""
    script = Script()

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], bytes]:
        script.asked.append(f"{request.command} {request.path}")
        script.users.append(b64decode(request.headers.get("Authorization", "").partition(" ")[2]).decode())
        return script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]

    with serving_answers(answer) as script.url:
        yield script
