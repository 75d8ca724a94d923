"""The limits on one JSON text of a client."""

import pytest

from signalbook.largejson import LARGE, parse_untrusted_json
from signalbook.values import JSONError, TooManyValues


@pytest.mark.parametrize("size", [20, LARGE, 4 * LARGE])
def test_any_size(size: int) -> None:
    """Small and large texts have the same limits."""
    text = b"[" + b"1," * (size // 2) + b"1]"
    assert parse_untrusted_json(text) == [1] * (size // 2 + 1)
    with pytest.raises(TooManyValues):
        parse_untrusted_json(text, max_values=3)
    with pytest.raises(JSONError, match="twice"):
        parse_untrusted_json(b'{"a": %b, "a": 1}' % text, unique=True)


def test_values_are_limited_by_default() -> None:
    with pytest.raises(TooManyValues, match="more than 1000000 values"):
        parse_untrusted_json(b"[" + b"[]," * 1_000_000 + b"[]]")
