"""Requests and responses on the wire, and how to show them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

import httpx

from xregistry_conformance import __version__
from xregistry_conformance.errors import KitError
from xregistry_conformance.matching import ABSENT
from xregistry_conformance.values import JSON, parse_json

MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
_MAX_SHOWN_BYTES: Final = 4000
_LINK: Final = re.compile(r"<([^>]*)>([^<]*)")
_REL: Final = re.compile(r';\s*rel\s*=\s*"?([^";,\s]+)"?')


class WireError(KitError):
    """The error for a missing response: no server, too slow, too large, or redirected elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """A request as a case makes it: ``target`` is a path with its query, or a URL the server gave."""

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes | None = None

    def __str__(self) -> str:
        return "\n".join(_format_lines(f"{self.method} {self.target}", self.headers.items(), self.content or b""))


@dataclass(frozen=True, slots=True, kw_only=True)
class WireResponse:
    """A response."""

    status: int
    headers: Sequence[tuple[str, str]]
    content: bytes

    def header(self, name: str) -> JSON:
        """The value of a header, several joined by commas; ``ABSENT`` if it is not there."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else ABSENT

    def links(self) -> dict[str, str]:
        """The URLs in the ``Link`` headers, by their ``rel`` (RFC8288)."""
        text = self.header("link")
        matches = _LINK.findall(text) if isinstance(text, str) else []
        return {rel[1]: url for url, parameters in matches if (rel := _REL.search(parameters))}

    def without(self, text: str) -> WireResponse:
        """The same with ``text`` nowhere in it."""
        headers = [(name, value.replace(text, "")) for name, value in self.headers]
        return WireResponse(status=self.status, headers=headers, content=self.content.replace(text.encode(), b""))

    def json(self) -> JSON:
        """The body as JSON; ``ABSENT`` if it is none."""
        try:
            return parse_json(self.content)
        except ValueError:
            return ABSENT

    def __str__(self) -> str:
        return "\n".join(_format_lines(str(self.status), self.headers, self.content))


class Wire:
    """Connections to one server; a context manager.

    ``url`` is the root of the registry, ``timeout`` seconds for a response, ``headers`` and what ``auth`` adds go with
    every request; ``transport`` is how httpx reaches the server. Redirects are not followed, and no URL elsewhere is.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        headers: Mapping[str, str],
        auth: httpx.Auth | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not _is_address(url):
            raise WireError(f"{url!r} is no URL of a registry: it starts with http:// or https://")
        self.url = url.rstrip("/")
        self.root = self.url
        # What is looked at are the bytes of documents, and headers as they are without any coding.
        common = {"Accept": "*/*", "Accept-Encoding": "identity"}
        sent = {"User-Agent": f"xregistry-conformance/{__version__}", **common, **headers}
        self._timeout = timeout
        self._http = httpx.Client(timeout=timeout, headers=sent, auth=auth, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, request: WireRequest) -> WireResponse:
        """Send a request. Raises ``WireError``."""
        # As bytes: some cases send values that are not ASCII.
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in request.headers.items()]
        try:
            built = self._http.build_request(
                request.method, self._find_address(request.target), headers=headers, content=request.content
            )
            return self._receive(built)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise WireError(f"{request.method} {request.target}: {str(error) or type(error).__name__}") from None

    def _find_address(self, target: str) -> str:
        """Return the address for a request. ``root`` is the server's name of its root, perhaps not the one in use."""
        if target.startswith("/"):
            return self.url + target
        for root_url in (self.url, self.root):
            if target == root_url or target.startswith((f"{root_url}/", f"{root_url}?")):
                return self.url + target.removeprefix(root_url)
        raise WireError(f"{target}: leads away from the server at {self.url}")

    def _receive(self, request: httpx.Request) -> WireResponse:
        deadline = time.monotonic() + self._timeout
        response = self._http.send(request, stream=True)
        try:
            chunks, size = [], 0
            for chunk in response.iter_bytes():
                size += len(chunk)
                if size > MAX_RESPONSE_BYTES:
                    raise WireError(f"{request.url}: the answer is larger than {MAX_RESPONSE_BYTES} bytes")
                # httpx limits each step: a server that sends a byte now and then would never come to an end.
                if time.monotonic() > deadline:
                    raise WireError(f"{request.url}: the answer takes longer than {self._timeout:g} seconds")
                chunks.append(chunk)
        finally:
            response.close()
        return WireResponse(
            status=response.status_code, headers=response.headers.multi_items(), content=b"".join(chunks)
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, half of an IPv6 address
        return False


def _format_lines(first: str, headers: Iterable[tuple[str, str]], content: bytes) -> list[str]:
    pairs = [f"{name}: {value}" for name, value in headers]
    text = content[:_MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace") + (
        "…" if len(content) > _MAX_SHOWN_BYTES else ""
    )
    return [first, *pairs, *(["", text] if text else [])]
