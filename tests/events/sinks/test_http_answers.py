from datetime import timedelta
from email.utils import format_datetime

import pytest

from signalbook import values
from signalbook.events.sinks.http import HTTPReply, delivery_error, retry_after


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_done(status: int) -> None:
    """The status 202 is a success too, because no more is known later (D-33)."""
    assert delivery_error(HTTPReply(status=status, headers={})) is None


@pytest.mark.parametrize(
    ("status", "gone", "rejected", "words"),
    [
        (301, False, False, "redirects are not followed"),
        (307, False, False, "redirects are not followed"),
        (400, False, False, "answered 400"),
        (401, False, False, "answered 401"),
        (404, False, False, "answered 404"),
        (410, True, False, "gone for good"),
        (413, False, True, "will not take this event"),
        (415, False, True, "will not take this event"),
        (429, False, False, "answered 429"),
        (500, False, False, "answered 500"),
    ],
)
def test_failed_statuses_are_classified(status: int, gone: bool, rejected: bool, words: str) -> None:
    """The status 410 ends the subscription, 415 concerns the event, and others are temporary (D-33)."""
    error = delivery_error(HTTPReply(status=status, headers={"location": "https://secret.example.com"}))
    assert error is not None
    assert (error.gone, error.rejected, error.retry_after) == (gone, rejected, None)
    assert words in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("9" * 5000, 86400.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 +9999", None),
    ],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    """The header contains seconds or a date, of at most a day (D-33)."""
    assert retry_after({"retry-after": text}) == seconds
    error = delivery_error(HTTPReply(status=429, headers={"retry-after": text}))
    assert error is not None
    assert error.retry_after == seconds


def test_retry_after_a_date_to_come() -> None:
    when = format_datetime(values.now() + timedelta(hours=1), usegmt=True)
    seconds = retry_after({"retry-after": when})
    assert seconds is not None
    assert 3000 < seconds <= 3600
