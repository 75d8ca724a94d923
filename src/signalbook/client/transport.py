"""HTTP: paths, flags and headers of requests; sizes bounded, safe requests tried again, pages followed, a cache."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import quote, urljoin, urlsplit

import httpx

from signalbook import __version__
from signalbook.client import credentials
from signalbook.client.responses import (
    BadResponse,
    ClientError,
    TooLong,
    Unreachable,
    check_response,
    explain_unreachable,
    retry_after,
)
from signalbook.tracing import outgoing
from signalbook.uris import is_address, without_user
from signalbook.values import JSON, dump_json
from signalbook.xid import Kind, Xid, XidError

_CACHED_STATUSES: Final = (httpx.codes.OK, httpx.codes.SEE_OTHER)


class ResponseCache:
    """Responses to GET by URL, up to ``limit`` bytes of them; those used longest ago go first."""

    def __init__(self, *, limit: int = 16 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._responses: dict[str, httpx.Response] = {}

    def ask(self, request: httpx.Request) -> None:
        """Let ``request`` tell what is here."""
        cached = self._responses.get(str(request.url))
        if request.method == "GET" and cached is not None:
            request.headers["If-None-Match"] = cached.headers["ETag"]

    def update(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        """The response to use: what was kept if it still holds, else ``response``, kept for the next time."""
        url = str(request.url)
        if response.status_code == httpx.codes.NOT_MODIFIED and url in self._responses:
            # Taken out and put back below: what was used last goes last.
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
    """Return the entity tag, if it is one that can be sent back."""
    tag: str = response.headers.get("ETag", "")
    return tag if tag.isascii() and tag.isprintable() else ""


Target = Xid | str
Query = Mapping[str, str | Sequence[str]]


class ReadFlags(TypedDict, total=False):
    """Request flags of a read.

    ``inline`` names what to inline, ``["*"]`` all. A ``filter`` is expressions that have to hold together, with commas
    between them; one of several is enough. ``sort`` is for collections: an attribute, with ``=desc`` behind it or not.
    """

    inline: Sequence[str]
    filter: str | Sequence[str]
    sort: str
    doc: bool
    binary: bool


def to_xid(target: Target) -> Xid:
    """``target`` as an xid. Raises ``ClientError``."""
    try:
        return target if isinstance(target, Xid) else Xid.parse(target)
    except XidError as error:
        raise ClientError(f"{target!r} is no xid: {error}") from None


def path_of(target: Target, *, details: bool = True) -> str:
    """The path of ``target``, with ``$details`` where that asks for metadata instead of a document (R153)."""
    xid = to_xid(target)
    suffix = "$details" if details and xid.kind in (Kind.RESOURCE, Kind.VERSION) else ""
    return quote(str(xid), safe="/:@~") + suffix


def read_query(**flags: Unpack[ReadFlags]) -> dict[str, str | Sequence[str]]:
    """The flags of a read."""
    query: dict[str, str | Sequence[str]] = {"inline": ",".join(flags["inline"])} if flags.get("inline") else {}
    filters = flags.get("filter", ())
    query |= {"filter": [filters] if isinstance(filters, str) else filters} if filters else {}
    query |= {"sort": flags["sort"]} if "sort" in flags else {}
    return query | ({"doc": ""} if flags.get("doc") else {}) | ({"binary": ""} if flags.get("binary") else {})


def write_query(*, ignore: Sequence[str] = (), setdefaultversionid: str | None = None) -> dict[str, str]:
    """The flags of a write."""
    query = {"ignore": ",".join(dict.fromkeys(ignore))} if ignore else {}
    return query if setdefaultversionid is None else query | {"setdefaultversionid": setdefaultversionid}


def query_string(query: Query) -> str:
    """``query`` percent-encoded; a flag without a value stays bare, one with several is repeated."""
    return "&".join(
        f"{name}={quote(value, safe='*,./')}" if value else name
        for name, values in query.items()
        for value in ([values] if isinstance(values, str) else values)
    )


def quote_header(value: str | None) -> str:
    """Return a value for an ``xRegistry-`` header (core/http.md "HTTP Header Values", R166)."""
    return "null" if value is None else quote(value, safe="!#$&'()*+,/:;<=>?@[\\]^`{|}~-._")


_IDEMPOTENT: Final = frozenset({"GET", "PUT", "DELETE"})
_FIRST_PAUSE: Final = 0.2
_LINK: Final = re.compile(r"<([^>]*)>\s*((?:;[^,<]*)*)")
_NEXT: Final = re.compile(r';\s*rel\s*=\s*"?next"?\s*(;|$)')


class Transport:
    """HTTP connections to the server whose registry's root is at ``base_url``. Raises as ``Client`` does.

    Credentials are those that ``credentials.find`` finds with ``token``, sent to that server alone. A user and a
    password in that URL are no part of it from then on: it gets into messages, logs and copies.
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
        if not is_address(base_url):
            raise ClientError(f"{base_url!r} is no URL of a registry: it starts with http:// or https://")
        self.base_url = without_user(base_url).rstrip("/")
        self._by_url = token == ""
        self._max_bytes = max_bytes
        self._attempts = attempts
        self._cache = ResponseCache()
        names = {"User-Agent": f"signalbook/{__version__}", **headers}
        # Reading all certificates there are takes longer than most errands; without TLS none is needed.
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
        """The response to one request, of 2xx or 303. ``url`` is absolute, or a path below the root.

        The body is ``content`` or, unless that is None, ``json`` as JSON.
        """
        if json is not None:
            content, headers = dump_json(json), {**(headers or {}), "Content-Type": "application/json"}
        target = self.base_url + url if url.startswith("/") else url
        target = f"{target}?{query_string(query)}" if query else target
        headers = {**outgoing(), **(headers or {})}
        request = self._http.build_request(method, target, content=content, headers=headers)
        # A lost response does not say whether the request was carried out: what is not idempotent is sent once.
        attempts = self._attempts if method in _IDEMPOTENT else 1
        for attempt in range(1, attempts):
            pause = self._try(request, _FIRST_PAUSE * 2**attempt)
            if isinstance(pause, httpx.Response):
                return pause
            time.sleep(pause)
        return self._send_once(request)

    def stream(self, url: str, *, query: Query | None = None) -> Iterator[bytes]:
        """The body of the response to one GET as it comes, of any size. What follows a lost connection is an error."""
        with self._open(url, query or {}) as response:
            yield from response.iter_bytes()

    def lines(
        self, url: str, *, query: Query, headers: Mapping[str, str], timeout: float
    ) -> Generator[str, None, None]:
        """The lines of a stream without end. Raises ``httpx.ReadTimeout`` when none comes for ``timeout`` seconds."""
        with self._open(url, query, endless=True, headers=headers, timeout=timeout) as response:
            yield from response.iter_lines()

    @contextmanager
    def _open(self, url: str, query: Query, *, endless: bool = False, **more: Any) -> Iterator[httpx.Response]:
        """The response to one GET, to be read as it comes; if it is ``endless``, silence is no lost connection."""
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
        """The responses to GET of a list, page after page as they are asked for (pagination/spec.md)."""
        seen: set[str] = set()
        while url:
            if url in seen:
                raise BadResponse(f"{url}: a page names itself, or one before it, as the next")
            seen.add(url)
            response = self.send("GET", url, query=query)
            yield response
            url, query = self._find_next_page(response), None

    def _find_next_page(self, response: httpx.Response) -> str:
        """Return the URL of the page after ``response``, ``""`` behind the last one.

        It has to be on the same server.
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
        """The response, or how many seconds to wait before the next attempt."""
        try:
            response = self._receive(request)
        # The server has the request and may be at work on it: sending it again would only add to its load.
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
        # The content has been decoded above.
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        whole = httpx.Response(response.status_code, headers=headers, content=b"".join(chunks), request=request)
        return self._cache.update(request, whole)
