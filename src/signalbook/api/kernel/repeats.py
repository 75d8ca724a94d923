"""Requests that come again byte for byte: answered from memory as soon as they are read, without the application.

A response in ``CachedResponses`` still costs what every request costs: a task, a cycle of uvicorn's, routing, the rules
for hosts and origins, headers that are looked at one by one. Registries are asked the same by the same clients all the
time: each consumer of a topic asks for the schemas of its messages. So what was answered from that memory is kept by
all that the answer depends on: what was asked, all headers, the port, and the rights of who asks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, cast

from starlette.types import Scope

from signalbook.access.limits import TooManyRequests
from signalbook.api.kernel.caching import CachedResponses
from signalbook.api.kernel.origins import READS
from signalbook.api.kernel.responses import Headers, Response
from signalbook.api.kernel.routing import Kernel
from signalbook.metrics import HTTP
from signalbook.storage.base import StorageError
from signalbook.tracing import tracing
from signalbook.values import digest

_KEPT_BYTES: Final = 32 << 20
_HEAD_BYTES: Final = 2048
"""The longest target and headers that are kept; those of clients have some hundred bytes."""


@dataclass(frozen=True, kw_only=True)
class RepeatedResponse(Response):
    """A whole response, and the path that it is counted for."""

    path: str


class Repeats:
    """The repeated responses of a server process and event loop, if the store can report changes at once."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._responses = CachedResponses(limit=_KEPT_BYTES)

    def answer(self, scope: Scope, target: bytes, method: str, body: bytes = b"") -> Response | None:
        """The answer to a request, if the same one was answered before and the answer still holds.

        ``scope`` needs no more than what a connection knows: server, client, certificate and headers. None is for all
        that the application has to look at: who was not admitted in this moment, or asks too much, too.
        """
        kernel = self._kernel
        # The lines of the audit and the traces are the application's.
        if kernel.generation is None or kernel.audit.reads or tracing():
            return None
        began = perf_counter()
        try:
            admitted = kernel.admission.find_admitted(scope)
            if admitted is None:
                return None
            response = self._responses.get(
                _build_key(scope, target, method, body, admitted.access.key), kernel.generation()
            )
            if response is None:
                return None
            if admitted.caller is not None:
                admitted.caller.admit(write=method not in READS)
        except (StorageError, TooManyRequests):
            return None
        HTTP.hits += method in READS
        HTTP.add(cast("RepeatedResponse", response).path, method, response.status, perf_counter() - began)
        return response

    def keep(self, scope: Scope, response: Response, added: Headers) -> None:
        """Keep the answer to a request as it was sent, with what was ``added`` to its headers.

        ``scope["repeatable"]`` says what it holds for: the generation of the store, and the body of the request;
        ``scope["target"]`` is what the connection read.
        """
        generation, body = scope["repeatable"]
        target = scope["target"]
        size = len(target) + sum(len(name) + len(value) for name, value in scope["headers"])
        if not target.startswith(b"/") or size > _HEAD_BYTES:
            return
        more = ((name.decode("ascii"), value.decode("ascii")) for name, value in added)
        whole = RepeatedResponse(
            status=response.status, headers=(*response.headers, *more), body=response.body, path=scope["path"]
        )
        self._responses.put(_build_key(scope, target, scope["method"], body, scope["access"].key), generation, whole)


def _build_key(scope: Scope, target: bytes, method: str, body: bytes, rights: Any) -> Hashable:
    return method, target, scope["server"], tuple(scope["headers"]), digest(body) if body else b"", rights
