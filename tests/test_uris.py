from __future__ import annotations

import pytest

from signalbook.uris import is_uri, is_uri_reference


@pytest.mark.parametrize(
    ("text", "absolute", "reference"),
    [
        ("https://example.com/a?b=c#d", True, True),
        ("urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", True, True),
        ("mailto:a@b.example", True, True),
        ("/depots/1", False, True),
        ("1-555-123-4567", False, True),
        ("a%20b", False, True),
        ("a%2", False, False),
        ("a b", False, False),
        ("é", False, False),
        ("a#b#c", False, False),
        ("", False, False),
        ("a\n", False, False),
        ("{x}", False, False),
    ],
)
def test_uris(text: str, absolute: bool, reference: bool) -> None:
    """K-19, K-24"""
    assert (is_uri(text), is_uri_reference(text)) == (absolute, reference)
