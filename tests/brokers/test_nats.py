"""What a connection makes of a server's no."""

import pytest
from tests.brokers.scripted_nats import GREETING, Scripted

from signalbook.brokers.connection import BrokerError, BrokerRefused
from signalbook.brokers.nats import NATSConnection, NATSError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("'Authorization Violation'", BrokerRefused),
        ("'Permissions Violation for Publish to \"a\"'", BrokerRefused),
        ("'Maximum Connections Exceeded'", NATSError),
        ("'Authentication Timeout'", NATSError),
        ("'Stale Connection'", NATSError),
        ("'Slow Consumer'", NATSError),
        ("'Server Shutdown'", NATSError),
    ],
)
def test_temporary_error_is_no_refusal(error: str, kind: type[BrokerError]) -> None:
    with pytest.raises(BrokerError) as caught:
        NATSConnection(Scripted(greeting=GREETING + f"-ERR {error}\r\n".encode()))
    assert type(caught.value) is kind
    assert error in str(caught.value)
