"""Requests out, answers in: sizes bounded, safe requests tried again, next pages found."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx

from signalbook import __version__
from signalbook.client.answers import BadAnswer, ClientError, Unreachable, checked, retry_after, unreachable
from signalbook.client.kept import Kept
from signalbook.client.requests import Query, query_string
from signalbook.uris import is_address, user_of, without_user

_IDEMPOTENT: Final = frozenset({"GET", "PUT", "DELETE"})
_FIRST_PAUSE: Final = 0.2
_LINK: Final = re.compile(r"<([^>]*)>\s*((?:;[^,<]*)*)")
_NEXT: Final = re.compile(r';\s*rel\s*=\s*"?next"?\s*(;|$)')


class Transport:
    """HTTP connections to the server whose registry's root is at ``base_url``. Raises as ``Client`` does.

    A user and a password in that URL are told to the server (RFC7617), and are no part of the URL from then on: it gets
    into messages, logs and copies.
    """

    def __init__(
        self, base_url: str, *, timeout: float, max_bytes: int, attempts: int, headers: Mapping[str, str]
    ) -> None:
        if not is_address(base_url):
            raise ClientError(f"{base_url!r} is no URL of a registry: it starts with http:// or https://")
        self.base_url = without_user(base_url).rstrip("/")
        self._max_bytes = max_bytes
        self._attempts = attempts
        self._kept = Kept()
        names = {"User-Agent": f"signalbook/{__version__}", **headers}
        # Reading all certificates there are takes longer than most errands; without TLS none is needed.
        self._http = httpx.Client(
            auth=user_of(base_url), timeout=timeout, headers=names, verify=urlsplit(base_url).scheme == "https"
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
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer to one request, of 2xx or 303. ``url`` is absolute, or a path below the root."""
        target = self.base_url + url if url.startswith("/") else url
        target = f"{target}?{query_string(query)}" if query else target
        request = self._http.build_request(method, target, content=content, headers=headers)
        attempts = self._attempts if method in _IDEMPOTENT else 1
        for attempt in range(1, attempts):
            pause = self._try(request, _FIRST_PAUSE * 2**attempt)
            if isinstance(pause, httpx.Response):
                return pause
            time.sleep(pause)
        return self._exchange(request)

    def stream(self, url: str, *, query: Query | None = None) -> Iterator[bytes]:
        """The body of the answer to one GET as it comes, of any size. What follows a lost connection is an error."""
        target = f"{self.base_url}{url}" + (f"?{query_string(query)}" if query else "")
        try:
            with self._http.stream("GET", target) as answer:
                if not answer.is_success:
                    answer.read()
                checked(answer)
                yield from answer.iter_bytes()
        except httpx.HTTPError as error:
            raise Unreachable(unreachable(self.base_url, error)) from None

    def lines(
        self, url: str, *, query: Query, headers: Mapping[str, str], timeout: float
    ) -> Generator[str, None, None]:
        """The lines of a stream without end. Raises ``httpx.ReadTimeout`` when none comes for ``timeout`` seconds."""
        target = f"{self.base_url}{url}?{query_string(query)}"
        try:
            with self._http.stream("GET", target, headers=headers, timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                checked(answer)
                yield from answer.iter_lines()
        except httpx.ReadTimeout:
            raise
        except httpx.HTTPError as error:
            raise Unreachable(unreachable(self.base_url, error)) from None

    def pages(self, url: str, *, query: Query | None = None) -> Iterator[httpx.Response]:
        """The answers to GET of a list, page after page as they are asked for (pagination/spec.md)."""
        seen: set[str] = set()
        while url:
            if url in seen:
                raise BadAnswer(f"{url}: a page names itself, or one before it, as the next")
            seen.add(url)
            answer = self.send("GET", url, query=query)
            yield answer
            url, query = self._next_page(answer), None

    def _next_page(self, answer: httpx.Response) -> str:
        """The URL of the page after ``answer``, ``""`` behind the last one. It has to be on the same server."""
        for link in answer.headers.get_list("link"):
            for url, parameters in _LINK.findall(link):
                if _NEXT.search(parameters):
                    following: str = urljoin(str(answer.url), url)
                    if urlsplit(following)[:2] != urlsplit(self.base_url)[:2]:
                        raise BadAnswer(f"{answer.url}: its next page is on another server: {following}")
                    return following
        return ""

    def _try(self, request: httpx.Request, pause: float) -> httpx.Response | float:
        """The answer, or how many seconds to wait before the next attempt."""
        try:
            answer = self._receive(request)
        except httpx.ReadTimeout as error:
            raise Unreachable(unreachable(self.base_url, error)) from None
        except httpx.HTTPError:
            return pause
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            return retry_after(answer, pause)
        return checked(answer)

    def _exchange(self, request: httpx.Request) -> httpx.Response:
        try:
            return checked(self._receive(request))
        except httpx.HTTPError as error:
            raise Unreachable(unreachable(self.base_url, error)) from None

    def _receive(self, request: httpx.Request) -> httpx.Response:
        self._kept.ask(request)
        answer = self._http.send(request, stream=True)
        try:
            chunks, size = [], 0
            for chunk in answer.iter_bytes():
                size += len(chunk)
                if size > self._max_bytes:
                    raise BadAnswer(f"{request.url}: the answer is larger than {self._max_bytes} bytes")
                chunks.append(chunk)
        finally:
            answer.close()
        headers = [(name, value) for name, value in answer.headers.multi_items() if name != "content-encoding"]
        whole = httpx.Response(answer.status_code, headers=headers, content=b"".join(chunks), request=request)
        return self._kept.settle(request, whole)
