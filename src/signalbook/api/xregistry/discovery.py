"""Host-based discovery (core/spec.md "xRegistry Discovery", R140)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route

from signalbook.api import reads
from signalbook.api.answers import Response, json_response
from signalbook.api.urls import base_url
from signalbook.settings import Settings


def routes(settings: Settings) -> list[Route]:
    """``/.well-known/xregistry`` at the root of the host: which registries are here."""

    async def registries(request: Request) -> Response:
        return json_response({"registries": [f"{base_url(request.scope, settings)}/"]})

    return reads.routes("/.well-known/xregistry", registries)
