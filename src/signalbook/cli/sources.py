"""What ``signalbook import`` reads: a file, a folder, a URL or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from signalbook.documents import (
    MAX_BYTES,
    DocumentError,
    Repair,
    check_size,
    files_of,
    parse_document,
    read_document,
    read_limited,
)
from signalbook.values import JSON

STANDARD_INPUT: Final = "-"
_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One document with the name people know it by, and the repairs it took."""

    name: str
    document: JSON
    repairs: tuple[Repair, ...] = ()


def load(source: str, *, lenient: bool) -> Iterator[Source]:
    """The documents behind ``source``, those of a folder by path. Raises ``DocumentError``."""
    if source == STANDARD_INPUT:
        data = read_limited(sys.stdin.buffer, name="standard input")
        yield _parsed(data, "standard input", lenient)
    elif source.lower().startswith(("http://", "https://")):
        yield _fetch(source, lenient)
    else:
        path = Path(source)
        for file in files_of(path) if path.is_dir() else [path]:
            document, repairs = read_document(file, lenient=lenient)
            yield Source(name=str(file), document=document, repairs=repairs)


def _parsed(data: bytes, name: str, lenient: bool, media_type: str = "") -> Source:
    document, repairs = parse_document(data, name=name, media_type=media_type, lenient=lenient)
    return Source(name=name, document=document, repairs=repairs)


def _fetch(url: str, lenient: bool) -> Source:
    """One GET within limits of time and size; only http and https are followed."""
    import httpx

    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT, follow_redirects=True) as answer:
            if not answer.is_success:
                raise DocumentError(f"{url}: the server answers {answer.status_code} {answer.reason_phrase}")
            data = bytearray()
            for chunk in answer.iter_bytes():
                data += chunk
                check_size(len(data), name=url, max_bytes=MAX_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DocumentError(f"{url}: cannot be read: {error or type(error).__name__}") from None
    return _parsed(bytes(data), url, lenient, media_type=answer.headers.get("content-type", ""))
