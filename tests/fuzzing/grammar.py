"""The requests: each follows from the seed and its number alone, so that one can be sent again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Final

from tests.fuzzing.confluent import confluent
from tests.fuzzing.drafting import DRAFT, Draft, query_value
from tests.fuzzing.entities import check, configuration, draft_messages, draft_schemas, registry
from tests.fuzzing.explorer import fill_form, forms, pages
from tests.fuzzing.hostile import spoilt
from tests.fuzzing.services import access, beside, reports, subscriptions

LARGE_SHARE: Final = 1 / 20_000
"""Of all requests: those with bodies of 2 to 60 MB."""
_COOKIE_CHARS: Final = 43
"""The length of the random value that a browser has in the cookie of the forms; here it is always the same."""
_WIRE_SHARE: Final = 0.02
_SLOW_SHARE: Final = 0.005


@dataclass(frozen=True, kw_only=True)
class Request:
    """The ``parts`` are sent one after another, with a pause between them. ``method`` is empty if the request is not
    HTTP.

    ``whole`` means that everything that was declared is sent, so that there must be a response. ``opening`` is the path
    of the page with the form that this request sends, or empty.
    """

    number: int
    method: str
    target: str
    parts: tuple[bytes, ...] = field(repr=False)
    whole: bool = True
    opening: bytes = field(default=b"", repr=False)

    @property
    def page(self) -> Request:
        """The request for the page with the form."""
        return Request(number=self.number, method="GET", target=self.target, parts=(self.opening,))

    def filled(self, page: bytes) -> Request:
        """Return the request with the values that a browser takes from the page with the form."""
        head, _, body = self.parts[0].partition(b"\r\n\r\n")
        body = fill_form(body, page)
        head = re.sub(rb"\r\nContent-Length: \d+", b"\r\nContent-Length: %d" % len(body), head)
        return replace(self, parts=(head + b"\r\n\r\n" + body,), opening=b"")


class Grammar:
    """Requests under a seed, with one of ``credentials`` each: values of Authorization, or None."""

    def __init__(self, seed: int, host: str, credentials: Sequence[str | None]) -> None:
        self._seed, self._host, self._credentials = seed, host, tuple(credentials)
        self._form_cookie = f"signalbook-form-{host.rpartition(':')[2]}={'f' * _COOKIE_CHARS}"

    def request(self, number: int) -> Request:
        """The one with this number."""
        random = Random(self._seed * 1_000_000_007 + number)
        chance = random.random()
        if chance < _WIRE_SHARE:
            return _broken(random, number, self._host)
        draft = _large(random) if chance > 1 - LARGE_SHARE else random.choices(_AREAS, _WEIGHTS)[0](random)
        _decorate(random, draft)
        return self._written(random, number, draft)

    def _written(self, random: Random, number: int, draft: Draft) -> Request:
        target = draft.path
        if draft.query:
            target += "?" + "&".join(f"{name}={query_value(random, value)}" for name, value in draft.query)
        target = target.encode("latin-1", "replace").decode("latin-1")
        lines = [f"{draft.method} {target} HTTP/1.1", f"Host: {self._host}"]
        credential = random.choice(self._credentials)
        if credential is not None:
            lines.append(f"Authorization: {credential}")
        lines += [f"{name}: {value}" for name, value in draft.headers]
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n"
        body = draft.body
        if draft.opening and body is not None:
            return self._form(number, draft, head, body)
        if body is None:
            parts: tuple[bytes, ...] = (head + b"\r\n",)
        elif random.random() < 0.1:
            pieces = [body[at : at + 1000] for at in range(0, min(len(body), 20_000), 1000)] or [b""]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
            parts = (head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n",)
        else:
            parts = (head + b"Content-Length: %d\r\n\r\n" % len(body) + body,)
        whole = True
        if random.random() < _SLOW_SHARE:
            sent = parts[0]
            first, second = sorted(random.randrange(len(sent) + 1) for _ in range(2))
            whole = random.random() < 0.5 or second == len(sent)
            parts = (sent[:first], sent[first:second], *((sent[second:],) if whole else ()))
        return Request(number=number, method=draft.method, target=target, parts=parts, whole=whole)

    def _form(self, number: int, draft: Draft, head: bytes, body: bytes) -> Request:
        """Return a request that sends a form, and the one for its page, which comes from the same browser."""
        lines = [*head.split(b"\r\n")[:-1], f"Cookie: {self._form_cookie}".encode()]
        browser = [line for line in lines[1:] if line.startswith((b"Host", b"Authorization", b"Cookie"))]
        opening = [f"GET {draft.opening} HTTP/1.1".encode("latin-1", "replace"), *browser]
        return Request(
            number=number,
            method=draft.method,
            target=draft.path,
            parts=(b"\r\n".join((*lines, b"Content-Length: %d" % len(body), b"", body)),),
            opening=b"\r\n".join((*opening, b"", b"")),
        )


_AREAS: Final = (
    *(registry, configuration, check, draft_schemas, draft_messages, subscriptions, reports, access, beside, confluent),
    *(pages, forms),
)
_WEIGHTS: Final = (30, 5, 6, 8, 8, 5, 4, 6, 6, 12, 8, 6)


def _large(random: Random) -> Draft:
    """A large body, hostile in one of the ways that take time or memory."""
    size = random.choice((2, 5, 20, 60)) * 1_000_000
    body = random.choice(
        (
            lambda: b'{"labels":[' + b"[]," * (size // 3) + b"[]]}",
            lambda: b'{"description":"' + b"x" * size + b'"}',
            lambda: json.dumps({"labels": {f"l{n:09}": "x" * 40 for n in range(size // 60)}}).encode(),
            lambda: b'{"name":"\xc3\xa9' + b"\\u00e9" * (size // 6) + b'"}',
            lambda: b"[" * size,
            lambda: b'{"a":' + b"9" * size + b"}",
            lambda: b" " * size + b"{}",
            lambda: b"\xff" * size,
        )
    )()
    paths = ["/schemagroups/big", "/schemagroups/g1/schemas/s1", f"{DRAFT}/schemagroups/g1/schemas/s1"]
    path = random.choice([*paths, "/check/schemagroups/big", "/access", "/subscriptions", "/modelsource"])
    return Draft(method=random.choice(("PUT", "POST")), path=path, body=body)


_HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "Accept": (
        *("*/*", "application/json; indent=2", "text/plain", "application/json;q=0", "x"),
        "application/json; indent=9",
    ),
    "Accept-Encoding": ("gzip", "zstd", "gzip;q=0, *", "identity;q=0", "zstd;q=x", ","),
    "If-Match": ("*", '"abc"', 'W/"abc"', "x", ""),
    "If-None-Match": ("*", '"abc"', 'W/"abc", "d"', "x"),
    "Range": ("bytes=0-1", "x"),
    "If-Modified-Since": ("Mon, 01 Jan 2026 00:00:00 GMT", "x"),
    "Content-Type": (
        *("application/json", "text/plain", "application/xml", "multipart/form-data; boundary=x"),
        *("application/json; charset=utf-16", "x" * 3000, ""),
    ),
    "Content-Encoding": ("gzip", "identity", "x"),
    "Expect": ("100-continue", "x"),
    "Origin": ("null", "https://evil.example", "x"),
    "Sec-Fetch-Site": ("cross-site", "same-origin"),
    "X-Forwarded-For": ("1.2.3.4, x", "::1"),
    "X-Forwarded-Host": ("evil.example",),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x"),
    "Upgrade": ("h2c",),
    "Connection": ("close", "Upgrade", "x"),
    "xRegistry-name": ("a", "%41", "%", "null", '"'),
    "xRegistry-labels.a": ("b", "null"),
    "xRegistry-epoch": ("1", "x", "9" * 400),
    "xRegistry-versionid": ("1", "2", "%00", "x" * 200),
    "xRegistry-labels": ("x",),
    "xRegistry-xid": ("/x",),
    "xRegistry-schemaurl": ("http://127.0.0.1:9/x", "null"),
    "xRegistry-schema": ("x",),
    "schema-authority": ("http://x.example",),
    "schema-description": ("%00", "x"),
    "Signalbook-Opening": ("x",),
    "X-User": ("root",),
    "Cookie": ("a=b",),
    "Access-Control-Request-Method": ("PUT", "x"),
    "Prefer": ("x",),
    "X" * 200: ("y" * 5000,),
}


def _decorate(random: Random, draft: Draft) -> None:
    if random.random() < 0.6:
        return
    for name in random.choices(list(_HEADERS), k=random.choice((1, 1, 2, 4))):
        draft.headers.append((name, random.choice(_HEADERS[name])))
    if random.random() < 0.03:
        draft.headers += [(f"xRegistry-labels.l{n}", "x") for n in range(500)]


def _broken(random: Random, number: int, host: str) -> Request:
    """Return a request that is not HTTP, or not of a supported kind."""
    parts = random.choice(_broken_ones(host))
    if random.random() < 0.1:
        parts = random.randbytes(random.randrange(1, 300))
    if random.random() < 0.3:
        parts = spoilt(random, parts)
    return Request(number=number, method="", target="", parts=(parts,), whole=False)


@cache
def _broken_ones(host: str) -> tuple[bytes, ...]:
    line = f"Host: {host}\r\n".encode()
    return (
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/9.9\r\n" + line + b"\r\n",
        b"\r\n\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n" + line + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\n" + line + b"\r\n",
        b"POST / HTTP/1.1\r\n" + line + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + line + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST / HTTP/1.1\r\n" + line + b"Content-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + line + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + line + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\n" + line + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
        b"POST / HTTP/1.1\r\n" + line + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + line + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + line + b"\r\n",
        b"GET / HTTP/1.1\r\n" + line + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + line + b"X y\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + line + b" folded\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"CONNECT x:1 HTTP/1.1\r\n" + line + b"\r\n",
        (b"GET /health/live HTTP/1.1\r\n" + line + b"\r\n") * 30,
        b"GET / HTTP/1.1\r\n"
        + line
        + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
    )
