"""Send HTTP requests to a registry: build paths and flags, limit sizes, retry, follow pages, and cache responses."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import quote, urljoin, urlsplit

import httpx

from signalbook.client import credentials
from signalbook.client.responses import (
    BadResponse,
    ClientError,
    TooLong,
    Unreachable,
    check_response,
    explain_unreachable,
    require_registry_url,
    retry_after,
)
from signalbook.tracing import outgoing
from signalbook.uris import without_user
from signalbook.values import JSON, dump_json
from signalbook.version import __version__
from signalbook.xid import Kind, Xid, XidError

_CACHED_STATUSES: Final = (httpx.codes.OK, httpx.codes.SEE_OTHER)


class ResponseCache:
    """A cache of responses to GET by URL. Above ``limit`` bytes, the least recently used responses are dropped."""

    def __init__(self, *, limit: int = 16 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._responses: dict[str, httpx.Response] = {}

    def ask(self, request: httpx.Request) -> None:
        """Add the entity tag of the cached response to ``request``, so that the server can answer 304."""
        cached = self._responses.get(str(request.url))
        if request.method == "GET" and cached is not None:
            request.headers["If-None-Match"] = cached.headers["ETag"]

    def update(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        """Return the cached response if the server answered 304, else ``response``, which is cached if possible."""
        url = str(request.url)
        if response.status_code == httpx.codes.NOT_MODIFIED and url in self._responses:
            # Remove the response here and add it again below, so that it becomes the most recently used one.
            response = self._take(url)
        elif request.method != "GET" or response.status_code not in _CACHED_STATUSES or not _find_tag(response):
            return response
        elif url in self._responses:
            self._take(url)
        self._keep(url, response)
        return response

    def _take(self, url: str) -> httpx.Response:
        response = self._responses.pop(url)
        self._size -= len(response.content)
        return response

    def _keep(self, url: str, response: httpx.Response) -> None:
        self._responses[url] = response
        self._size += len(response.content)
        while self._size > self._limit:
            self._take(next(iter(self._responses)))


def _find_tag(response: httpx.Response) -> str:
    """Return the entity tag of ``response``, or ``""`` if it has none that can be sent in a request."""
    tag: str = response.headers.get("ETag", "")
    return tag if tag.isascii() and tag.isprintable() else ""


Target = Xid | str
Query = Mapping[str, str | Sequence[str]]


class ReadFlags(TypedDict, total=False):
    """Request flags of a read.

    ``inline`` lists what to inline; ``["*"]`` inlines everything. A ``filter`` is a comma-separated list of expressions
    that must all be true; an entity has to match only one of several filters. ``sort`` names the attribute to sort a
    collection by, optionally followed by ``=desc``. ``doc`` asks for document view, ``binary`` for base64 documents.
    """

    inline: Sequence[str]
    filter: str | Sequence[str]
    sort: str
    doc: bool
    binary: bool


def to_xid(target: Target) -> Xid:
    """Return ``target`` as an xid. Raises ``ClientError`` if it is not one."""
    try:
        return target if isinstance(target, Xid) else Xid.parse(target)
    except XidError as error:
        raise ClientError(f"{target!r} is no xid: {error}") from None


def path_of(target: Target, *, details: bool = True) -> str:
    """Return the URL path of ``target`` below the registry's root.

    With ``details``, the path of a Resource or Version ends with ``$details``, which requests its metadata instead of
    its document (R153).
    """
    xid = to_xid(target)
    suffix = "$details" if details and xid.kind in (Kind.RESOURCE, Kind.VERSION) else ""
    return quote(str(xid), safe="/:@~") + suffix


def read_query(**flags: Unpack[ReadFlags]) -> dict[str, str | Sequence[str]]:
    """Return the query parameters for the flags of a read."""
    query: dict[str, str | Sequence[str]] = {"inline": ",".join(flags["inline"])} if flags.get("inline") else {}
    filters = flags.get("filter", ())
    query |= {"filter": [filters] if isinstance(filters, str) else filters} if filters else {}
    query |= {"sort": flags["sort"]} if "sort" in flags else {}
    return query | ({"doc": ""} if flags.get("doc") else {}) | ({"binary": ""} if flags.get("binary") else {})


def write_query(*, ignore: Sequence[str] = (), setdefaultversionid: str | None = None) -> dict[str, str]:
    """Return the query parameters for the flags of a write."""
    query = {"ignore": ",".join(dict.fromkeys(ignore))} if ignore else {}
    return query if setdefaultversionid is None else query | {"setdefaultversionid": setdefaultversionid}


def query_string(query: Query) -> str:
    """Return ``query`` as a percent-encoded query string.

    A parameter with an empty value has no ``=``. A parameter with several values is repeated.
    """
    return "&".join(
        f"{name}={quote(value, safe='*,./')}" if value else name
        for name, values in query.items()
        for value in ([values] if isinstance(values, str) else values)
    )


def quote_header(value: str | None) -> str:
    """Return ``value`` encoded for an ``xRegistry-`` header; None becomes ``null`` (core/http.md, R166)."""
    return "null" if value is None else quote(value, safe="!#$&'()*+,/:;<=>?@[\\]^`{|}~-._")


_IDEMPOTENT: Final = frozenset({"GET", "PUT", "DELETE"})
_FIRST_PAUSE: Final = 0.2
_LINK: Final = re.compile(r"<([^>]*)>\s*((?:;[^,<]*)*)")
_NEXT: Final = re.compile(r';\s*rel\s*=\s*"?next"?\s*(;|$)')


class Transport:
    """HTTP connections to the server of the registry at ``base_url``. Methods raise the same errors as ``Client``.

    Credentials come from ``credentials.find`` with ``token``, and are sent only to that server. The attribute
    ``base_url`` has no user and password, because it appears in messages, logs and copies.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float,
        max_bytes: int,
        attempts: int,
        headers: Mapping[str, str],
        token: str | None = None,
    ) -> None:
        require_registry_url(base_url)
        self.base_url = without_user(base_url).rstrip("/")
        self._by_url = token == ""
        self._max_bytes = max_bytes
        self._attempts = attempts
        self._cache = ResponseCache()
        names = {"User-Agent": f"signalbook/{__version__}", **headers}
        # Loading the system's certificates takes longer than most requests. Without TLS, they are not needed.
        self._http = httpx.Client(
            auth=credentials.find(base_url, token),
            timeout=timeout,
            headers=names,
            verify=urlsplit(base_url).scheme == "https",
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        query: Query | None = None,
        content: bytes | None = None,
        json: JSON = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request and return the response, which has a status of 2xx or 303.

        ``url`` is absolute, or a path below the root. The body is ``json`` encoded as JSON or, if that is None,
        ``content``.
        """
        if json is not None:
            content, headers = dump_json(json), {**(headers or {}), "Content-Type": "application/json"}
        target = self.base_url + url if url.startswith("/") else url
        target = f"{target}?{query_string(query)}" if query else target
        headers = {**outgoing(), **(headers or {})}
        request = self._http.build_request(method, target, content=content, headers=headers)
        # If a response is lost, the request may have been carried out. So only idempotent requests are repeated.
        attempts = self._attempts if method in _IDEMPOTENT else 1
        for attempt in range(1, attempts):
            pause = self._try(request, _FIRST_PAUSE * 2**attempt)
            if isinstance(pause, httpx.Response):
                return pause
            time.sleep(pause)
        return self._send_once(request)

    def stream(self, url: str, *, query: Query | None = None) -> Iterator[bytes]:
        """Yield the body of the response to a GET in chunks. The size is not limited.

        Raises ``Unreachable`` if the connection is lost before the end.
        """
        with self._open(url, query or {}) as response:
            yield from response.iter_bytes()

    def lines(
        self, url: str, *, query: Query, headers: Mapping[str, str], timeout: float
    ) -> Generator[str, None, None]:
        """Yield the lines of an endless response.

        Raises ``httpx.ReadTimeout`` if no data comes for ``timeout`` seconds.
        """
        with self._open(url, query, endless=True, headers=headers, timeout=timeout) as response:
            yield from response.iter_lines()

    @contextmanager
    def _open(self, url: str, query: Query, *, endless: bool = False, **more: Any) -> Iterator[httpx.Response]:
        """Yield the response to a GET, whose body the caller reads in chunks.

        With ``endless``, a read timeout is passed on instead of being reported as a lost connection.
        """
        target = f"{self.base_url}{url}" + (f"?{query_string(query)}" if query else "")
        try:
            with self._http.stream("GET", target, **more) as response:
                if not response.is_success:
                    response.read()
                yield check_response(response, by_url=self._by_url)
        except httpx.HTTPError as error:
            if endless and isinstance(error, httpx.ReadTimeout):
                raise
            raise Unreachable(explain_unreachable(self.base_url, error)) from None

    def pages(self, url: str, *, query: Query | None = None) -> Iterator[httpx.Response]:
        """Yield the pages of the list at ``url`` as responses. Pages are loaded as needed (pagination/spec.md)."""
        seen: set[str] = set()
        while url:
            if url in seen:
                raise BadResponse(f"{url}: a page names itself, or one before it, as the next")
            seen.add(url)
            response = self.send("GET", url, query=query)
            yield response
            url, query = self._find_next_page(response), None

    def _find_next_page(self, response: httpx.Response) -> str:
        """Return the URL of the page after ``response``, or ``""`` if ``response`` is the last page.

        Raises ``BadResponse`` if the next page is on another server.
        """
        for link in response.headers.get_list("link"):
            for url, parameters in _LINK.findall(link):
                if _NEXT.search(parameters):
                    following: str = urljoin(str(response.url), url)
                    # Links are followed with the credentials for this server.
                    if urlsplit(following)[:2] != urlsplit(self.base_url)[:2]:
                        raise BadResponse(f"{response.url}: its next page is on another server: {following}")
                    return following
        return ""

    def _try(self, request: httpx.Request, pause: float) -> httpx.Response | float:
        """Return the response, or the seconds to wait before the next attempt (by default ``pause``)."""
        try:
            response = self._receive(request)
        # The server has the request and may still be working on it. Sending it again would only add to its load.
        except httpx.ReadTimeout as error:
            raise Unreachable(explain_unreachable(self.base_url, error)) from None
        except httpx.HTTPError:
            return pause
        if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            return retry_after(response, pause)
        return check_response(response, by_url=self._by_url)

    def _send_once(self, request: httpx.Request) -> httpx.Response:
        try:
            return check_response(self._receive(request), by_url=self._by_url)
        except httpx.HTTPError as error:
            raise Unreachable(explain_unreachable(self.base_url, error)) from None

    def _receive(self, request: httpx.Request) -> httpx.Response:
        self._cache.ask(request)
        response = self._http.send(request, stream=True)
        try:
            chunks, size = [], 0
            for chunk in response.iter_bytes():
                size += len(chunk)
                if size > self._max_bytes:
                    raise TooLong(f"{request.url}: the answer is larger than {self._max_bytes} bytes")
                chunks.append(chunk)
        finally:
            response.close()
        # ``iter_bytes`` has already decoded the content.
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        whole = httpx.Response(response.status_code, headers=headers, content=b"".join(chunks), request=request)
        return self._cache.update(request, whole)
