"""Text in headers: percent-encoding and quotes; content types of documents."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.api.kernel.responses import OCTETS, Response, decode, encode, media_type, write_all


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ('a"b', "a%22b"),
        ("100%", "100%25"),
        ("plain!#$&'()*+,-./:;<=>?@[\\]^_`{|}~", "plain!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
        ("a\r\nb\x00", "a%0D%0Ab%00"),
        ("", ""),
    ],
)
def test_encoding(text: str, encoded: str) -> None:
    """The example of the specification is included (R166)."""
    assert encode(text) == encoded
    assert decode(encoded) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("%e2%82%ac", "€"),
        ("%41bc", "Abc"),
        ('"a b"', "a b"),
        (r'"a \"quoted\" \\ b"', r'a "quoted" \ b'),
        ('x"y z"w', "xy zw"),
        ('"%20"', " "),
        ("\xe2\x82\xac", "€"),
        (" padded ", "padded"),
    ],
)
def test_decoding_what_others_send(value: str, text: str) -> None:
    """Quotes are removed first, then percent-encoding is decoded once; raw UTF-8 is accepted (R167)."""
    assert decode(value) == text


@given(st.text())
def test_any_text_survives(text: str) -> None:
    encoded = encode(text)
    assert all("!" <= character <= "~" for character in encoded)
    assert decode(encoded) == text


@given(st.text(st.characters(max_codepoint=255)))
def test_no_header_breaks_the_decoder(value: str) -> None:
    try:
        decode(value)
    except ValueError:
        pass


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, None),
        ("text/plain; charset=utf-8; x=1", "text/plain; charset=utf-8; x=1"),
        ("no media type", "no media type"),
        ("", OCTETS),
        ("text/é", OCTETS),
        ("a\r\nb: c", OCTETS),
    ],
)
def test_content_types(stored: str | None, expected: str | None) -> None:
    """The content type is returned verbatim if a header can contain it (A-49, R160, R317)."""
    assert media_type(stored) == expected


@pytest.mark.parametrize("value", ["a\nSet-Cookie: b", "a\rb", "a\0", "\x7f"])
def test_a_header_is_one_line(value: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        _ = Response(headers=(("X", value),)).head


def test_partial_writes_are_completed() -> None:
    """A file may take less than it is given, as on a disk that is nearly full."""

    class Slow(io.BytesIO):
        def write(self, part: Any) -> int:
            return super().write(bytes(part[:7]))

    slow = Slow()
    assert write_all(slow, b"0123456789" * 3) == 30
    assert slow.getvalue() == b"0123456789" * 3
