"""Where other registries tell that something changed there (D-36; CloudEvents http-webhook.md).

An event only says where to look: what is copied is fetched from the source, and only from sources that are followed.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.errors import NO_STORE, Denied, Unsupported, problem_response
from signalbook.api.kernel.requests import Disconnected, read_body
from signalbook.api.kernel.responses import Header, Response, send_response
from signalbook.errors import RegistryError
from signalbook.replication.following import Following
from signalbook.replication.notices import Notice, Seen, parse
from signalbook.settings import Settings

PATH: Final = "/notifications"
MAX_BYTES: Final = 4 * 1024 * 1024
_METHODS: Final = ("POST", "OPTIONS")
_SHOWN: Final = 300
"""Characters of a source in an error."""


def routes(following: Following, settings: Settings, workers: Workers) -> list[Route]:
    """``/notifications``: OPTIONS, the handshake of web hooks; POST, CloudEvents in any of the three modes."""
    endpoint = Notifications(following, settings, workers)
    return [Route(PATH, endpoint), Route(f"{PATH}/", endpoint)]


class Notifications:
    """An ASGI application, and no function, so that every method comes here."""

    def __init__(self, following: Following, settings: Settings, workers: Workers) -> None:
        self._following = following
        self._settings = settings
        self._workers = workers
        # One that is sent again does nothing again; it is no harm if it does.
        self._seen: Seen[str] = Seen()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(Request(scope), receive)
        except Disconnected:
            return
        except Exception as error:
            answer = problem_response(error, scope["path"], allow=_METHODS)
        await send_response(answer, scope, send)

    async def _answer(self, request: Request, receive: Receive) -> Response:
        if request.method == "OPTIONS":
            return self._handshake(request)
        if request.method != "POST":
            raise RegistryError("action_not_supported", subject=PATH, action=request.method)
        limit = min(MAX_BYTES, self._settings.max_body_bytes)
        body = await read_body(request.scope, receive, PATH, limit=limit, timeout=self._settings.body_timeout)
        notices = parse(request.headers, body)
        if notices is None:
            raise Unsupported("CloudEvents come as application/cloudevents+json, as a batch, or with ce- headers")
        await self._workers.read(partial(self._take, notices))
        return Response(status=204, headers=(NO_STORE,))

    def _handshake(self, request: Request) -> Response:
        """Whoever asks may send: what is sent from elsewhere than a followed source is refused, and does nothing."""
        allow = ", ".join(_METHODS)
        headers: list[Header] = [("Allow", allow), ("Access-Control-Allow-Methods", allow)]
        origin = request.headers.get("webhook-request-origin", "").strip()
        if origin and origin.isascii() and self._following.sources:  # names of hosts are
            headers += [("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", "*")]
        return Response(headers=tuple(headers))

    def _take(self, notices: list[Notice]) -> None:
        """Knock for each source once. Raises ``Denied`` if one of them is not followed."""
        new = [notice for notice in notices if notice.mark not in self._seen]
        followed = self._following.knock(notice.source for notice in new)
        for notice in new:
            if notice.source in followed:
                self._seen.add(notice.mark)
        unknown = next((notice.source for notice in new if notice.source not in followed), None)
        if unknown is not None:
            raise Denied(f"{unknown[:_SHOWN]} is not followed here (setting follow)")
