"""What clients and caches may keep of an answer, and the conditions of a request (RFC9110 8.8 and 13, RFC9111).

A tag is a hash of all that is sent: status, headers and body. Epochs would not do, since what is shown of an entity
changes with counts, nested entities, the target of a cross reference, the model and the flags of the request too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from signalbook.api.answers import Header, Response
from signalbook.api.errors import NO_STORE, PreconditionFailed

NO_CACHE: Final[Header] = ("Cache-Control", "no-cache")
"""May be kept, but not used before the server has said that it still holds: entities may change at any time."""

_SHOWN: Final = (HTTPStatus.OK, HTTPStatus.SEE_OTHER)
_TAG_BYTES: Final = 16

Headers = Iterable[tuple[bytes, bytes]]


def with_etag(answer: Response) -> Response:
    """``answer`` to a read with its ``ETag`` and, unless it says otherwise itself, the rule to ask again.

    Answers that show nothing, or must not be kept, are as they were.
    """
    if answer.status not in _SHOWN or answer.etag or NO_STORE in answer.headers:
        return answer
    rules = () if any(name == "Cache-Control" for name, _ in answer.headers) else (NO_CACHE,)
    tag = entity_tag(answer.body, str(answer.status), *(f"{name}:{value}" for name, value in answer.headers))
    return replace(answer, etag=tag, headers=(("ETag", tag), *rules, *answer.headers))


def entity_tag(body: bytes, *beside: str) -> str:
    """A strong entity tag of ``body`` and of what is sent ``beside`` it."""
    content = hashlib.blake2b(body, digest_size=_TAG_BYTES)
    content.update("\0".join(beside).encode("utf-8"))
    return f'"{content.hexdigest()}"'


def if_modified(answer: Response, headers: Headers) -> Response:
    """``answer``, or 304 if ``If-None-Match`` says that the client has it (RFC9110 13.1.2: weak comparison)."""
    if not answer.etag:
        return answer
    for name, value in headers:
        if name == b"if-none-match" and _lists_tag(value, answer.etag):
            return answer.unmodified
    return answer


def check_conditions(headers: Headers, etag: str, subject: str) -> None:
    """The conditions of a write. ``etag`` is the tag of what GET of its URL shows, ``""`` if that is nothing.

    Raises ``PreconditionFailed`` when ``If-Match`` does not name it (RFC9110 13.1.1: strong comparison) or
    ``If-None-Match`` does.
    """
    wanted = [value for name, value in headers if name == b"if-match"]
    if wanted and not any(_lists_tag(value, etag, strong=True) for value in wanted):
        raise PreconditionFailed(subject, "If-Match")
    if any(_lists_tag(value, etag) for name, value in headers if name == b"if-none-match"):
        raise PreconditionFailed(subject, "If-None-Match")


def has_conditions(headers: Headers) -> bool:
    """Whether a write comes with conditions."""
    return any(name in (b"if-match", b"if-none-match") for name, _ in headers)


def _lists_tag(value: bytes, etag: str, *, strong: bool = False) -> bool:
    """Whether a list of tags has this one. Its quotes keep it from being found inside another."""
    if not etag:
        return False
    tag = etag.encode("ascii")
    return value.strip() == b"*" or tag in (value.replace(b"W/" + tag, b"") if strong else value)
