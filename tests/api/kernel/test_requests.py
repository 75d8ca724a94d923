"""Bodies that come too slowly, too large, or not at all."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from signalbook.api.kernel.requests import Disconnected, read_body
from signalbook.errors import RegistryError


def read(messages: Iterator[Any], *, limit: int = 100, timeout: float = 5.0, headers: Any = ()) -> bytes:
    async def receive() -> Any:
        try:
            return next(messages)
        except StopIteration:
            await asyncio.Event().wait()

    return asyncio.run(read_body({"headers": list(headers)}, receive, "/dirs", limit=limit, timeout=timeout))


def parts(*contents: bytes, last: bool = True) -> Iterator[Any]:
    for number, content in enumerate(contents, start=1):
        yield {"type": "http.request", "body": content, "more_body": number < len(contents) or not last}


def test_a_body_in_parts_and_with_a_length_that_has_leading_zeros() -> None:
    """The parser of HTTP takes more digits than ``int``."""
    assert read(parts(b"a", b"", b"bc")) == b"abc"
    assert read(parts(b"ab"), headers=[(b"content-length", b"0" * 5000 + b"2")]) == b"ab"


def test_endless_body_is_rejected() -> None:
    """A client cannot keep a request open by sending nothing, or a byte now and then (R312)."""
    with pytest.raises(RegistryError, match=r"within 0\.05 seconds"):
        read(parts(b"a", last=False), timeout=0.05)


@pytest.mark.parametrize(
    "headers", [(), [(b"content-length", b"101")], pytest.param([(b"content-length", b"9" * 5000)], id="many digits")]
)
def test_a_body_too_large(headers: Any) -> None:
    with pytest.raises(RegistryError, match="100 bytes"):
        read(parts(b"x" * 60, b"x" * 60), headers=headers)


def test_disconnect_while_reading_raises_disconnected() -> None:
    with pytest.raises(Disconnected):
        read(iter([{"type": "http.disconnect"}]))
