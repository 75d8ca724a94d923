"""Entity tags, the conditions of requests, and the responses kept in memory (RFC9110 8.8 and 13, RFC9111).

A tag is a hash of all that is sent: status, headers and body. Epochs would not do, since what is shown of an entity
changes with counts, nested entities, the target of a cross reference, the model and the flags of the request too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.compression import VARY, add_coding_tag, choose_coding, is_compressible, strip_coding_tags
from signalbook.api.kernel.errors import NO_STORE, PreconditionFailed
from signalbook.api.kernel.responses import Header, Headers, Response

NO_CACHE: Final[Header] = ("Cache-Control", "no-cache")
"""May be kept, but not used before the server has said that it still holds: entities may change at any time."""

_EVERY_HEADER: Final = b""
"""Stands for all headers in ``names_read``. No header has an empty name."""
_CONDITIONS: Final = (b"if-match", b"if-none-match")

_CACHEABLE_STATUSES: Final = (HTTPStatus.OK, HTTPStatus.SEE_OTHER)
_TAG_BYTES: Final = 16

_KEPT_BYTES: Final = 64 << 20
"""The total size of the responses that a server process keeps, for all its APIs together."""
_MAX_BODY_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 4096
"""The size that is assumed for the headers of a response."""


def with_etag(response: Response) -> Response:
    """``response`` to a read with its ``ETag`` and, unless it says otherwise itself, the rule to ask again.

    Responses that show nothing, or must not be kept, are as they were.
    """
    if response.status not in _CACHEABLE_STATUSES or response.etag or NO_STORE in response.headers:
        return response
    # The tag covers the headers too: a Link to another page makes another response.
    rules = () if any(name == "Cache-Control" for name, _ in response.headers) else (NO_CACHE,)
    tag = compute_entity_tag(
        response.body, str(response.status), *(f"{name}:{value}" for name, value in response.headers)
    )
    varies = (VARY,) if is_compressible(response) else ()
    return replace(response, etag=tag, headers=(("ETag", tag), *rules, *response.headers, *varies))


def compute_entity_tag(body: bytes, *beside: str) -> str:
    """Return a strong entity tag of ``body`` and of what is sent ``beside`` it."""
    content = hashlib.blake2b(body, digest_size=_TAG_BYTES)
    content.update("\0".join(beside).encode("utf-8"))
    return f'"{content.hexdigest()}"'


def if_modified(response: Response, headers: Headers) -> Response:
    """``response``, or 304 if ``If-None-Match`` says that the client has it (RFC9110 13.1.2: weak comparison)."""
    if not response.etag:
        return response
    for name, value in headers:
        if name == b"if-none-match" and _has_tag(value, response.etag):
            compressed = choose_coding(response, headers)
            return add_coding_tag(response.unmodified, compressed) if compressed else response.unmodified
    return response


def check_conditions(headers: Headers, etag: str, subject: str) -> None:
    """The conditions of a write. ``etag`` is the tag of what GET of its URL shows, ``""`` if that is nothing.

    Raises ``PreconditionFailed`` when ``If-Match`` does not name it (RFC9110 13.1.1: strong comparison) or
    ``If-None-Match`` does.
    """
    if_match = [value for name, value in headers if name == b"if-match"]
    if if_match and not any(_has_tag(value, etag, strong=True) for value in if_match):
        raise PreconditionFailed(subject, "If-Match")
    if any(_has_tag(value, etag) for name, value in headers if name == b"if-none-match"):
        raise PreconditionFailed(subject, "If-None-Match")


def has_conditions(headers: Headers) -> bool:
    """Return True if a write has conditions."""
    return any(name in _CONDITIONS for name, _ in headers)


def _has_tag(value: bytes, etag: str, *, strong: bool = False) -> bool:
    """Return True if a list of tags contains a tag. Its quotes prevent a match inside another."""
    if not etag:
        return False
    tag, value = etag.encode("ascii"), strip_coding_tags(value)
    return value.strip() == b"*" or tag in (value.replace(b"W/" + tag, b"") if strong else value)


class RequestHeaders:
    """The headers of a request as ASGI gives them. It records which of them are looked at.

    A response that is kept answers the requests that have the same values in these headers (``CachedResponses``), so
    handlers get at headers in no other way.
    """

    __slots__ = ("_headers", "names_read")

    def __init__(self, headers: Headers = ()) -> None:
        self._headers = tuple(headers)
        self.names_read: set[bytes] = set()
        """The names in lower case; ``_EVERY_HEADER`` is among them once all headers were looked at."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        self.names_read.add(_EVERY_HEADER)
        return iter(self._headers)

    def values(self, name: str) -> list[str]:
        """Return the values of the header ``name``, one character per byte."""
        wire_name = name.lower().encode("ascii")
        self.names_read.add(wire_name)
        return [value.decode("latin-1") for header, value in self._headers if header == wire_name]

    @property
    def conditions(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers ``If-Match`` and ``If-None-Match``, which are evaluated apart from what is kept."""
        return tuple(header for header in self._headers if header[0] in _CONDITIONS)


class CachedResponses:
    """Responses by key, all of one generation of the store. For one event loop, not for threads.

    They are dropped when the generation is another one, which it is once anything of the registry was committed, by
    whichever process. ``limit`` bounds the bytes kept; the oldest responses go first.
    """

    def __init__(self, *, limit: int = _KEPT_BYTES) -> None:
        self._generation: Hashable = None
        self._responses: dict[tuple[Hashable, Hashable], Response] = {}
        self._names_read: dict[Hashable, frozenset[bytes]] = {}
        """The headers that answers depend on, by key. Without an entry an answer depends on none."""
        self._left = self._limit = limit

    def get(self, key: Hashable, generation: Hashable, headers: Headers = ()) -> Response | None:
        """Return the response to a request with these ``headers`` if it is known of this, the present generation."""
        # All go at once: which entities a response shows is not worth tracking where writes are rare.
        if generation != self._generation:
            self._responses.clear()
            self._names_read.clear()
            self._generation, self._left = generation, self._limit
        return self._responses.get((key, self._find_variant(key, headers)))

    def put(
        self,
        key: Hashable,
        generation: Hashable,
        response: Response,
        headers: Headers = (),
        *,
        names_read: Collection[bytes] = (),
    ) -> None:
        """Remember a response that was made after ``generation`` was asked, unless that is over by now.

        ``names_read`` are those of the ``headers`` that making the response looked at.
        """
        fits = len(response.body) <= _MAX_BODY_BYTES and response.status in (200, 303)
        if generation != self._generation or not fits:
            return
        if names_read:
            self._names_read[key] = self._names_read.get(key, frozenset()).union(names_read)
        full_key = (key, self._find_variant(key, headers))
        if full_key in self._responses:
            return
        self._responses[full_key] = response
        self._left -= _estimate_cost(response)
        # Dictionaries keep the order of insertion: the first one is the oldest.
        while self._left < 0:
            oldest = next(iter(self._responses))
            self._left += _estimate_cost(self._responses.pop(oldest))
            # Other answers under this key are made again.
            self._names_read.pop(oldest[0], None)

    def _find_variant(self, key: Hashable, headers: Headers) -> Hashable:
        """Return the names of the headers that the answers under ``key`` depend on, and the values in ``headers``.

        The names are a part of it: a request without a header is not the same as an answer that depends on none.
        """
        names = self._names_read.get(key)
        if names is None:
            return ()
        if _EVERY_HEADER in names:
            return names, tuple(headers)
        # A list is made by one call, which a hot read notices.
        return names, tuple([header for header in headers if header[0] in names])


def _estimate_cost(response: Response) -> int:
    # Half as much again for the compressed forms.
    return len(response.body) * 3 // 2 + _HEADER_BYTES


class OncePerTurn:
    """The generation of a store that says it at once, asked once in each turn of the event loop.

    What is done in one turn was received before it, so that all may share the answer: no commit that a client knows of
    came later. Asking SQLite takes 10 of the 40 us of a read from memory.
    """

    def __init__(self, generation: Callable[[], Hashable]) -> None:
        self._generation = generation
        self._asked: Hashable = None

    def __call__(self) -> Hashable:
        """The generation. Raises what asking raises."""
        if self._asked is None:
            self._asked = self._generation()
            asyncio.get_running_loop().call_soon(self._forget)
        return self._asked

    def _forget(self) -> None:
        self._asked = None


class Freshness:
    """The generation of a store that it takes a while to ask, such as one across a network. For one event loop.

    One question is under way at a time. Who comes meanwhile waits for the next one, since the state may have changed
    after the present one was asked.
    """

    def __init__(self, generation: Callable[[], Hashable], workers: Workers) -> None:
        self._generation = generation
        self._workers = workers
        self._asked: asyncio.Future[Hashable] | None = None
        self._next: asyncio.Future[Hashable] | None = None

    async def now(self) -> Hashable:
        """A generation that was asked for after this call began. Raises what asking raises."""
        # Who asks while a question is under way shares the next one, never the present one.
        if self._next is None:
            self._next = asyncio.ensure_future(self._fetch_generation(self._asked))
        # One waiter that is cancelled must not cancel the question of all others.
        return await asyncio.shield(self._next)

    async def _fetch_generation(self, before: asyncio.Future[Hashable] | None) -> Hashable:
        if before is not None:
            await asyncio.wait([before])
        self._asked, self._next = self._next, None
        return await self._workers.read(self._generation)
