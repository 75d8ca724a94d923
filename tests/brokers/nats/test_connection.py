"""What a connection makes of a server's no."""

from __future__ import annotations

import pytest
from tests.brokers.nats.scripted import GREETING, Scripted

from signalbook.brokers.nats import NATSConnection, NATSError, NATSRefused


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("'Authorization Violation'", NATSRefused),
        ("'Permissions Violation for Publish to \"a\"'", NATSRefused),
        ("'Maximum Connections Exceeded'", NATSError),
        ("'Authentication Timeout'", NATSError),
        ("'Stale Connection'", NATSError),
        ("'Slow Consumer'", NATSError),
        ("'Server Shutdown'", NATSError),
    ],
)
def test_what_may_pass_is_no_refusal(said: str, kind: type[NATSError]) -> None:
    with pytest.raises(NATSError) as caught:
        NATSConnection(Scripted(greeting=GREETING + f"-ERR {said}\r\n".encode()), user=("", ""), encrypt=None)
    assert type(caught.value) is kind
    assert said in str(caught.value)
