"""Respond to repeated requests, equal byte for byte, from memory without calling the application.

A response in ``CachedResponses`` still has the cost of every request: a task, a uvicorn cycle, routing, the rules for
hosts and origins, and reading headers one by one. Clients often repeat their requests: each consumer of a topic
requests the schemas of its messages. So responses from that cache are stored here, with everything that they depend on
as the key: target, body, all headers, the port, and the rights of the caller.
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
"""The maximum bytes of target and headers of a stored request. Usual clients send some hundred bytes."""


@dataclass(frozen=True, kw_only=True)
class RepeatedResponse(Response):
    """A complete response with all headers, and the path under which metrics count it."""

    path: str


class Repeats:
    """The responses to repeated requests of a server process and event loop. They are used only if the
    store is direct."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._responses = CachedResponses(limit=_KEPT_BYTES)

    def answer(self, scope: Scope, target: bytes, method: str, body: bytes = b"") -> Response | None:
        """Return the former response to the same request, if it is still valid, else None.

        ``scope`` needs only what a connection knows: server, client, certificate and headers. None means that the
        application has to handle the request, also if the caller is not admitted yet or exceeds a limit.
        """
        kernel = self._kernel
        # The application writes audit lines for reads, and traces.
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
        """Store the response to a request as it was sent, with the headers in ``added``.

        ``scope["repeatable"]`` has the generation of the store, and the body of the request; ``scope["target"]`` is the
        target that the connection read.
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
