"""What was sealed opens with its key and for what it belongs to; nothing else does, and nothing else raises."""

import base64

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from signalbook.access.sealing import seal, unseal

KEY = b"k" * 32


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_sealed_content_opens_only_with_its_key(content: bytes, bound: bytes) -> None:
    sealed = seal(KEY, content, bound)
    assert unseal(KEY, sealed, bound) == content
    assert unseal(b"o" * 32, sealed, bound) is None
    assert unseal(KEY, sealed, bound + b"x") is None
    assert seal(KEY, content, bound) != sealed, "a nonce is used once"


@given(st.text(max_size=100), st.integers(0, 40))
def test_altered_content_does_not_open(text: str, place: int) -> None:
    assert unseal(KEY, text) is None
    sealed = seal(KEY, b"content")
    other = "A" if sealed[place] != "A" else "B"
    assert unseal(KEY, sealed[:place] + other + sealed[place + 1 :]) is None
    assert unseal(KEY, sealed[:place]) is None


def test_content_sealed_in_standard_base64_opens() -> None:
    """Sessions of servers before this one have their hints in Base64 with + and /, bound to nothing."""
    nonce = b"\xfb\xef\xbe" * 4
    old = base64.b64encode(nonce + AESGCM(KEY).encrypt(nonce, b"an.id.token", None)).decode("ascii")
    assert "+" in old
    assert unseal(KEY, old) == b"an.id.token"
    assert unseal(KEY, "") is None
