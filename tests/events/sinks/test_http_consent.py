import pytest

from signalbook.events.sinks.base import Consent, DeliveryError, NotYet
from signalbook.events.sinks.http import HTTPReply, RateLimiter, allowed_rate, read_consent

ORIGIN = "registry.example.com"


@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
@pytest.mark.parametrize("allowed", ["*", ORIGIN, "Registry.Example.COM"])
def test_consent_is_in_the_header_alone(status: int, allowed: str) -> None:
    """The status code is ignored (D-34)."""
    reply = HTTPReply(status=status, headers={"webhook-allowed-origin": allowed, "webhook-allowed-rate": "120"})
    assert read_consent(reply, ORIGIN, None) == Consent(rate=120)


@pytest.mark.parametrize(
    "headers", [{}, {"webhook-allowed-origin": "other.example.com"}, {"webhook-allowed-origin": ""}, {"allow": "POST"}]
)
def test_no_consent(headers: dict[str, str]) -> None:
    """Neither another origin nor a successful status is a consent (D-34)."""
    with pytest.raises(DeliveryError, match=r"has not agreed to deliveries from 'registry\.example\.com'"):
        read_consent(HTTPReply(status=200, headers=headers), ORIGIN, None)


@pytest.mark.parametrize(
    ("text", "requested", "rate"),
    [("*", 60, None), ("100", None, 100), ("100", 60, 100), ("", 60, 60), ("", None, None)],
)
def test_allowed_rate(text: str, requested: int | None, rate: int | None) -> None:
    """The default is the requested rate (D-34)."""
    assert allowed_rate(text, requested) == rate


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "9" * 5000, "\u0661"])
def test_invalid_rate_is_rejected(text: str) -> None:
    with pytest.raises(DeliveryError, match="neither"):
        allowed_rate(text, 60)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_pace_is_kept() -> None:
    """A rate of 120 a minute allows two events at once, then one each half second (D-34)."""
    clock = Clock()
    pace = RateLimiter(120, clock)
    steps = []
    for _ in range(100):
        try:
            pace.step()
            steps.append(clock.now)
        except NotYet as error:
            clock.now += error.retry_after or 0.0
    seconds = steps[-1] - steps[0]
    assert len(steps) / 2 - 2 <= seconds <= len(steps) / 2 + 1


def _steps(pace: RateLimiter, count: int) -> None:
    for _ in range(count):
        pace.step()


@pytest.mark.parametrize("rate", [1, 7, 60])
def test_slow_paces(rate: int) -> None:
    clock = Clock()
    pace = RateLimiter(rate, clock)
    pace.step()
    clock.now += 0.001
    with pytest.raises(NotYet) as raised:
        _steps(pace, 3)
    assert raised.value.retry_after is not None
    assert 0 < raised.value.retry_after <= 60 / rate + 1


def test_no_pace() -> None:
    pace = RateLimiter(None, Clock())
    for _ in range(1000):
        pace.step()
