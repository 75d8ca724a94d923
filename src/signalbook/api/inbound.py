"""A registry that takes no copies from others, such as a hub that is governed centrally (D-12)."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from signalbook.api.answers import send_response
from signalbook.api.problems import Denied, problem_response
from signalbook.replication.opening import HEADER

_NAMES: Final = frozenset({HEADER.lower().encode("ascii"), b"schema-authority"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Inbound:
    """Refuses writes that say that their content comes from another registry, or is under another's authority."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and scope["method"] not in _SAFE and _copies(scope):
            refused = Denied("this registry takes no copies from others (setting copies)")
            await send_response(problem_response(refused, scope["path"]), scope, send)
        else:
            await self._app(scope, receive, send)


def _copies(scope: Scope) -> bool:
    """By a header, or in the drafts' APIs by an authority in the query (A-47)."""
    named = "/compat/" in scope["path"] and b"authority=" in scope["query_string"].lower()
    return named or any(name in _NAMES for name, _ in scope["headers"])
