from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.cloudevents import is_timestamp
from signalbook.values import format_timestamp, parse_timestamp


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-05T17:31:00Z", "2026-04-05t17:31:00.123456z", "2024-02-29T00:00:00+01:00", "1999-12-31T23:59:60Z",
        "9999-12-31T23:59:60+01:00", "0001-01-01T00:00:00Z", "2026-01-31T00:00:00-23:59",
    ],
)  # fmt: skip
def test_instants(text: str) -> None:
    """K-24"""
    assert is_timestamp(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-04-05", "2026-04-05T17:31:00", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-04-05T24:00:00Z", "2026-04-05T17:60:00Z", "2026-04-05T17:31:00+24:00", "2026-04-05 17:31:00Z",
        "0000-01-01T00:00:00Z", "\u0662026-04-05T17:31:00Z", "2026-04-05T17:31:00Z\n", "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:60Z", "9999-12-31T23:59:60-01:00",
    ],
)  # fmt: skip
def test_no_instants(text: str) -> None:
    """K-24, F-25: the sentinel is no time of a message."""
    assert not is_timestamp(text)


@given(st.datetimes(timezones=st.timezones()))
def test_every_instant_the_registry_writes_is_one(stamp: datetime) -> None:
    try:
        text = format_timestamp(stamp)
    except OverflowError:
        return
    assert is_timestamp(text)


@given(st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", fullmatch=True))
def test_what_counts_as_an_instant_can_be_parsed(text: str) -> None:
    if is_timestamp(text):
        parse_timestamp(text)
