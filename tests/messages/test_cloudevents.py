from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.cloudevents import CloudEvent, find_invalid_attributes, format_attribute, is_timestamp
from signalbook.values import format_timestamp, parse_timestamp

SOUND: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"subject": "größe 5", "time": "2026-01-01T00:00:00.5+01:00", "datacontenttype": "text/plain; charset=utf-8"},
        {"dataschema": "https://x.example/s", "ext1": "", "count": -5, "flag": False, "1": "digits only"},
        {"subject": "\U0001f600"},
    ],
)
def test_valid_events(more: dict[str, Any]) -> None:
    """Valid attributes have no findings (K-24)."""
    assert find_invalid_attributes({**SOUND, **more}) == []


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_required_attributes(name: str) -> None:
    """Missing required attributes are findings (K-24)."""
    findings = find_invalid_attributes({key: value for key, value in SOUND.items() if key != name})
    assert [(finding.path, finding.rule) for finding in findings] == [(name, "required")]


INVALID: dict[str, list[object]] = {
    "specversion": ["0.3", 1.0],
    "id": ["", 5],
    "source": ["a b", ""],
    "type": ["", "a\tb"],
    "subject": ["", "\x9f", "\ufffe", "\U0001ffff", "\ud800"],
    "time": ["2026-01-01", "2026-01-01T00:00:00"],
    "dataschema": ["/relative"],
    "datacontenttype": ["json", "a/b\n"],
    "my-ext": ["x", 5],
    "myExt": ["x"],
    "data": ["x"],
    "": ["x"],
    "ext": [2**31, 1.5, [], "a\x00"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in INVALID.items() for value in values])
def test_invalid_attributes(name: str, value: object) -> None:
    """Invalid values of attributes are findings (K-24)."""
    findings = find_invalid_attributes({**SOUND, name: value})
    assert [(finding.path, finding.rule) for finding in findings] == [(name, "cloudevents")]


def test_every_fault_is_reported() -> None:
    findings = find_invalid_attributes({"id": "", "time": "x", "a_b": "y"})
    assert {finding.path for finding in findings} == {"specversion", "source", "type", "id", "time", "a_b"}


@pytest.mark.parametrize(("value", "expected"), [(True, "true"), (False, "false"), (-5, "-5"), ("x", "x")])
def test_canonical_strings(value: str | int | bool, expected: str) -> None:
    """Values have a canonical text form (K-19)."""
    assert format_attribute(value) == expected


@pytest.mark.parametrize(
    ("event", "content_type", "payload"),
    [
        (CloudEvent(attributes=SOUND), "", None),
        (CloudEvent(attributes=SOUND, value=None), "application/json", b"null"),
        (CloudEvent(attributes=SOUND, value={"a": 1}), "application/json", b'{"a":1}'),
        (CloudEvent(attributes=SOUND, body=b"x"), "", b"x"),
        (CloudEvent(attributes={**SOUND, "datacontenttype": "a/b"}, body=b""), "a/b", b""),
    ],
)
def test_data_and_its_type(event: CloudEvent, content_type: str, payload: bytes | None) -> None:
    """JSON data without datacontenttype are application/json; bytes without it have no known type (K-22, K-23)."""
    assert (event.content_type, event.payload()) == (content_type, payload)


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-05T17:31:00Z", "2026-04-05t17:31:00.123456z", "2024-02-29T00:00:00+01:00", "1999-12-31T23:59:60Z",
        "9999-12-31T23:59:60+01:00", "0001-01-01T00:00:00Z", "2026-01-31T00:00:00-23:59",
    ],
)  # fmt: skip
def test_instants(text: str) -> None:
    """Valid timestamps are recognised (K-24)."""
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
def test_invalid_timestamps_are_rejected(text: str) -> None:
    """The sentinel is no valid time of a message (K-24, F-25)."""
    assert not is_timestamp(text)


@given(st.datetimes(timezones=st.timezones()))
def test_timestamps_of_the_registry_are_valid(stamp: datetime) -> None:
    try:
        text = format_timestamp(stamp)
    except OverflowError:
        return
    assert is_timestamp(text)


@given(st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", fullmatch=True))
def test_valid_timestamps_can_be_parsed(text: str) -> None:
    if is_timestamp(text):
        parse_timestamp(text)
