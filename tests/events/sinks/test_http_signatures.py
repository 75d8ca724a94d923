"""Signatures, checked as a receiver does (Standard Webhooks)."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from signalbook.events.sinks.http import read_signing_key, signature_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_example_of_the_specification() -> None:
    """The signature that the reference libraries compute for these values."""
    sent = signature_headers(
        read_signing_key(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert sent == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_documented_code_verifies_the_signature() -> None:
    page = Path(__file__).parents[3] / "docs" / "deliveries.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    sent = signature_headers(read_signing_key(SECRET), "7", int(time.time()), b"{}")
    namespace["check"](SECRET, sent, b"{}")
    for request, body in ((sent, b"[]"), (signature_headers(read_signing_key(SECRET), "7", 1700000000, b"{}"), b"{}")):
        with pytest.raises(ValueError, match=r"too old|not signed"):
            namespace["check"](SECRET, request, body)


@pytest.mark.parametrize("secret", ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!!", "whsec_" + "A" * 8])
def test_invalid_secret_is_rejected(secret: str) -> None:
    with pytest.raises(ValueError, match="24 to 64 bytes in Base64"):
        read_signing_key(secret)
