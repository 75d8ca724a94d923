"""Registries that answer as they are told, and as those of other makes do, put away at the end."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.replication.servers import HTTP
from tests.serving import serving_answers

Answering = Callable[[Mapping[str, Any]], str]
Change = Callable[[str, int, Any], tuple[int, Any]]
"""What becomes of the answer to a path with its query, of its status and its JSON."""
Find = Callable[[BaseHTTPRequestHandler], tuple[int, Any]]
"""What finds the status and the JSON of an answer."""
Start = Callable[[Find], str]
NOT_FOUND = {"error_code": 404, "message": "HTTP 404 Not Found"}


@pytest.fixture
def _start() -> Iterator[Start]:
    with ExitStack() as servers:

        def start(find: Find) -> str:
            """Start a server that answers the status and the JSON that ``find`` returns."""

            def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, Mapping[str, str], bytes]:
                status, value = find(request)
                return status, {}, json.dumps(value).encode()

            return servers.enter_context(serving_answers(answer))

        yield start


@pytest.fixture
def answering(_start: Start) -> Answering:
    """A server with these answers by path; to what is written, that of ``*``, and else nothing."""

    def start(answers: Mapping[str, Any]) -> str:
        def find(request: BaseHTTPRequestHandler) -> tuple[int, Any]:
            name = request.path.partition("?")[0] if request.command == "GET" else "*"
            return (200, answers[name]) if name in answers else (404, NOT_FOUND)

        return _start(find)

    return start


@pytest.fixture
def changing(_start: Start) -> Callable[[str, Change], str]:
    """A registry that has what the one at a URL has, and shows it as others do."""

    def start(url: str, change: Change) -> str:
        def find(request: BaseHTTPRequestHandler) -> tuple[int, Any]:
            real = HTTP.get(url + request.path)
            return change(request.path, real.status_code, real.json())

        return _start(find)

    return start
