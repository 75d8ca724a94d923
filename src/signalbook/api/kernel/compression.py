"""Compress responses as ``Accept-Encoding`` requests (RFC9110 8.4 and 12.5.3): zstd (RFC8878) or gzip.

Each coding has its own entity tag: the plain tag with the coding's name at its end. Clients may send any of these tags;
they all mean the same content. Responses with ``no-store`` are not compressed, because only they contain secrets. The
size of a compressed response reveals secrets if attackers control other parts of it (the BREACH attack).
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
"""The maximum bytes that are compressed on the event loop, in a millisecond or two. Larger bodies use a thread."""
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
    """Return ``response`` in the coding ``name``. The result is cached in ``response``."""
    if name not in response.encodings:
        body = _compress_zstd(response.body) if name == "zstd" else gzip.compress(response.body, _GZIP_LEVEL, mtime=0)
        # Responses to reads have a Vary header already. Errors and responses to writes are never cached.
        headers = (*add_coding_tag(response, name).headers, ("Content-Encoding", name))
        response.encodings[name] = replace(response, headers=headers, body=body, is_json=False)
    return response.encodings[name]


def add_coding_tag(response: Response, name: str) -> Response:
    """Return ``response`` with the entity tag for the coding ``name``."""
    headers = ((key, f'{value[:-1]}-{name}"' if key == "ETag" else value) for key, value in response.headers)
    return replace(response, headers=tuple(headers))


def strip_coding_tags(value: bytes) -> bytes:
    """Return a list of entity tags with each coding's tag replaced by the plain tag."""
    return _OF_A_CODING.sub(b'"', value)


def _compress_zstd(body: bytes) -> bytes:
    # A new compressor for each call, because a compressor is not thread-safe.
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)


@lru_cache(maxsize=256)
def _read_accepted_coding(value: bytes) -> str:
    """Return the supported coding that an ``Accept-Encoding`` prefers; "" if it accepts none or prefers uncompressed
    responses."""
    weights: dict[str, float] = {}
    for part in value.decode("latin-1").lower().split(","):
        name, _, parameter = part.partition(";")
        try:
            weights[name.strip()] = float(parameter.strip().removeprefix("q=")) if parameter else 1.0
        except ValueError:
            continue
    preferences = {name: weights.get(name, weights.get("*", 0.0)) for name in _CODINGS}
    # If several have the same preference, the first is chosen.
    best = max(_CODINGS, key=lambda name: preferences[name])
    return best if preferences[best] > 0 and preferences[best] >= weights.get("identity", 0.0) else ""
