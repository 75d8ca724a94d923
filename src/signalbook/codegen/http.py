"""Generated messages over HTTP, by the client of httpx that a program has, and by any server of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from signalbook.messages import Outbound, bind
from signalbook.messages.bindings.http import request as read_http_request
from signalbook.values import JSON

if TYPE_CHECKING:
    import httpx

__all__ = ["TypedHttpClient", "build_http_arguments", "read_http_request"]


class TypedHttpClient:
    """A client for built messages. ``endpoint`` has what their definitions leave open, such as the path.

    Requests go to the ``base_url`` of the client: of the endpoint's first address the path is taken.
    """

    def __init__(self, client: httpx.Client, endpoint: Mapping[str, JSON] | None = None) -> None:
        self._client = client
        self._endpoint = endpoint

    def send(self, outbound: Outbound, context: Mapping[str, str] | None = None) -> httpx.Response:
        """Send a message, and return the response.

        Raises ``OutboundError``, and what httpx raises: for 4xx and 5xx ``HTTPStatusError``.

        ``context`` is for placeholders of the endpoint that the message does not have.
        """
        response = self._client.request(**build_http_arguments(outbound, self._endpoint, context))
        return response.raise_for_status()


def build_http_arguments(
    outbound: Outbound, endpoint: Mapping[str, JSON] | None = None, context: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the arguments of ``request`` for a client of httpx, also an ``AsyncClient``. Raises ``OutboundError``."""
    message = bind(outbound, endpoint or {"protocol": "HTTP"}, context)
    sections = message.sections
    arguments = {"method": sections["method"], "url": sections["path"], "headers": list(sections["headers"])}
    query = list(sections.get("query", ()))
    return {**arguments, "content": message.body or b"", **({"params": query} if query else {})}
