import pytest

from signalbook.messages.bindings.nats import BINDING, message


def test_values_of_a_message() -> None:
    """Names of headers are case-insensitive (K-7, K-20)."""
    received = message("orders.new", b"body", [("A", "1"), ("a", "2"), ("CONTENT-TYPE", "t/x")], reply_to="back")
    assert BINDING.values(received) == {
        "subject": "orders.new", "reply-to": "back", "headers.a": ("1", "2"), "headers.content-type": ("t/x",),
    }  # fmt: skip
    assert (received.protocol, received.content_type) == ("NATS", "t/x")
    assert BINDING.identity(received, {}) == ""


@pytest.mark.parametrize("reply", ["reply", "reply-to"])
def test_options(reply: str) -> None:
    """A placeholder matches a word between dots (K-11, F.7 NATS rows)."""
    normal, findings = BINDING.normalise({"subject": "orders.{shop}", reply: "back", "headers": {"H": "x"}})
    assert findings == []
    declared = {entry.name: entry for entry in BINDING.properties(normal)}
    assert list(declared) == ["subject", "reply-to", "headers.h"]
    assert (declared["subject"].separator, declared["subject"].role) == (".", "discriminator")
