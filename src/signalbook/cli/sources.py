"""What ``signalbook import`` reads: a file, a folder, a URL, standard input, or a catalogue that comes with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from signalbook.cncf.messagecatalog.sources import adopt
from signalbook.documents import (
    MAX_BYTES,
    DocumentError,
    Source,
    check_size,
    merge,
    parse_source,
    read_folder,
    read_limited,
    read_source,
)

STANDARD_INPUT: Final = "-"
EVENTS: Final = "builtin:events"
"""The definitions of the registry's own change events, which come with the program."""

_TIMEOUT: Final = 30.0


def load(source: str, *, lenient: bool) -> Iterator[Source]:
    """The documents behind ``source``, those of a folder as one. Raises ``DocumentError``."""
    if source == STANDARD_INPUT:
        data = read_limited(sys.stdin.buffer, name="standard input")
        yield _adopted(parse_source(data, name="standard input", lenient=lenient))
    elif source.startswith("builtin:"):
        yield _builtin(source)
    elif source.lower().startswith(("http://", "https://")):
        yield _adopted(_fetch(source, lenient))
    elif Path(source).is_dir():
        yield merge(adopt(read_folder(Path(source), lenient=lenient)), name=source)
    else:
        yield _adopted(read_source(Path(source), lenient=lenient))


def _adopted(source: Source) -> Source:
    """A document of a message catalog as one of a registry; any other as it is."""
    found = adopt([source])
    return found[0] if len(found) == 1 else merge(found, name=source.name)


def _builtin(name: str) -> Source:
    from signalbook.events.definitions import change_event_definitions

    if name != EVENTS:
        raise DocumentError(f"{name}: no such catalogue comes with the program; there is {EVENTS}")
    return Source(name=name, document=change_event_definitions())


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
    return parse_source(bytes(data), name=url, media_type=answer.headers.get("content-type", ""), lenient=lenient)
