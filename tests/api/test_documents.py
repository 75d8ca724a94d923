"""Stored content types as headers."""

from __future__ import annotations

import pytest

from signalbook.api.kernel.responses import OCTETS, media_type


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (None, None),
        ("text/plain; charset=utf-8; x=1", "text/plain; charset=utf-8; x=1"),
        ("no media type", "no media type"),
        ("", OCTETS),
        ("text/é", OCTETS),
        ("a\r\nb: c", OCTETS),
    ],
)
def test_content_types(stored: str | None, shown: str | None) -> None:
    """A-49, R160, R317: verbatim, as far as a header can say it."""
    assert media_type(stored) == shown
