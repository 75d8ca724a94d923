"""Compression of responses as ``Accept-Encoding`` asks for it (RFC9110 8.4 and 12.5.3): zstd (RFC8878) or gzip.

Each coding has an entity tag of its own: the plain one with the coding's name at its end. Whoever names any of them
means the same content. What must not be stored is not compressed: it alone holds secrets, and the size of a compressed
response tells of them where others have a say in the rest of it (the BREACH attack).
"""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

import zstandard

from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.responses import Header, Headers, Response

AT_ONCE: Final = 1 << 18
"""Bytes that are compressed on the event loop, in a millisecond or two: larger bodies take a thread."""
VARY: Final[Header] = ("Vary", "Accept-Encoding")
_LEAST_BYTES: Final = 1024
_TEXT_TYPES: Final = ("text/", "json", "xml", "yaml", "javascript")
_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3
_CODINGS: Final = ("zstd", "gzip")
_OF_A_CODING: Final = re.compile(rb'-(?:zstd|gzip)"')
_MAX_HEADER_BYTES: Final = 200


def is_compressible(response: Response) -> bool:
    """Return True if ``response`` can be compressed."""
    if len(response.body) < _LEAST_BYTES or NO_STORE in response.headers:
        return False
    headers = {name.lower(): value.lower() for name, value in response.headers}
    return "content-encoding" not in headers and any(text in headers.get("content-type", "") for text in _TEXT_TYPES)


def choose_coding(response: Response, request_headers: Headers) -> str:
    """Return the compression of ``response`` for this client; "" for none."""
    chosen_coding = next(
        (
            _read_accepted_coding(value[:_MAX_HEADER_BYTES])
            for name, value in request_headers
            if name == b"accept-encoding"
        ),
        "",
    )
    return chosen_coding if chosen_coding and (chosen_coding in response.encodings or is_compressible(response)) else ""


def compress_response(response: Response, name: str) -> Response:
    """Return ``response`` in the coding ``name``: made once, and kept as long as the response is."""
    if name not in response.encodings:
        body = _compress_zstd(response.body) if name == "zstd" else gzip.compress(response.body, _GZIP_LEVEL, mtime=0)
        # What is read has said so already; errors and responses to writes are not kept by anybody.
        headers = (*add_coding_tag(response, name).headers, ("Content-Encoding", name))
        response.encodings[name] = replace(response, headers=headers, body=body, is_json=False)
    return response.encodings[name]


def add_coding_tag(response: Response, name: str) -> Response:
    """Return ``response`` with the entity tag that it has in the coding ``name``."""
    headers = ((key, f'{value[:-1]}-{name}"' if key == "ETag" else value) for key, value in response.headers)
    return replace(response, headers=tuple(headers))


def strip_coding_tags(value: bytes) -> bytes:
    """Return a list of entity tags with those of codings replaced by the plain ones."""
    return _OF_A_CODING.sub(b'"', value)


def _compress_zstd(body: bytes) -> bytes:
    # One of its own each time: it is not for several threads at once.
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)


@lru_cache(maxsize=256)
def _read_accepted_coding(value: bytes) -> str:
    """The coding that an ``Accept-Encoding`` prefers among ours; "" if it takes none, or rather has nothing done."""
    weights: dict[str, float] = {}
    for part in value.decode("latin-1").lower().split(","):
        name, _, parameter = part.partition(";")
        try:
            weights[name.strip()] = float(parameter.strip().removeprefix("q=")) if parameter else 1.0
        except ValueError:
            continue
    preferences = {name: weights.get(name, weights.get("*", 0.0)) for name in _CODINGS}
    # Of equals the first is taken.
    best = max(_CODINGS, key=lambda name: preferences[name])
    return best if preferences[best] > 0 and preferences[best] >= weights.get("identity", 0.0) else ""
