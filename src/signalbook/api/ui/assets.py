"""The explorer's style sheet, scripts and icon: files of this package, at URLs that contain a digest of their content.

The content of such a URL never changes, so browsers may cache it forever. Another version of Signalbook has other URLs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.routing import Route

from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel, PathEndpoint
from signalbook.errors import RegistryError

PATH: Final = "/ui/-/static"
_CONTENT_TYPES: Final = {
    "explorer.css": "text/css; charset=utf-8",
    "explorer.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "site.js": "text/javascript; charset=utf-8",
}
_FOR_GOOD: Final = ("Cache-Control", "public, max-age=31536000, immutable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file. ``name`` is its name in the URL, with the digest of its ``content``.

    ``integrity`` is the hash of the content in pages and in their security policy (Subresource Integrity, CSP 3).
    """

    name: str
    integrity: str
    contenttype: str
    content: bytes


@cache
def load_assets() -> Mapping[str, Asset]:
    """Return all assets by the names of their files."""
    return {name: _load_asset(name) for name in _CONTENT_TYPES}


def _load_asset(name: str) -> Asset:
    content = (files("signalbook.api.ui") / "static" / name).read_bytes()
    stem, _, suffix = name.rpartition(".")
    sealed = f"{stem}.{hashlib.blake2b(content, digest_size=8).hexdigest()}.{suffix}"
    integrity = f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode('ascii')}"
    return Asset(name=sealed, integrity=integrity, contenttype=_CONTENT_TYPES[name], content=content)


def routes(kernel: Kernel) -> list[Route]:
    """Return the routes of the assets, which are the same for everybody and not secret."""
    by_name = {asset.name: _build_asset_response(asset) for asset in load_assets().values()}

    async def show(request: HTTPRequest) -> Response:
        response = by_name.get(request.params["name"])
        if response is None:
            raise RegistryError("not_found", subject=request.path)
        return response

    return [Route(f"{PATH}/{{name}}", PathEndpoint({"GET": show}, kernel, public=True))]


def _build_asset_response(asset: Asset) -> Response:
    headers = (("Content-Type", asset.contenttype), _FOR_GOOD, ("X-Content-Type-Options", "nosniff"))
    return Response(headers=headers, body=asset.content)
