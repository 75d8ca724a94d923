import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import json_trees
from tests.messages.eventformats.test_binary import ATTRIBUTES

from signalbook.messages.cloudevents import JSON_FORMAT, CloudEvent
from signalbook.messages.eventformats import JSON_EVENTS, EventError, find_format
from signalbook.values import MAX_DEPTH

HEAD = '"specversion":"1.0","id":"1","source":"/s","type":"t"'


def decode(more: str = "") -> CloudEvent:
    return JSON_EVENTS.decode(f"{{{HEAD}{more}}}".encode())


def failure(body: bytes) -> tuple[str, str]:
    with pytest.raises(EventError) as caught:
        JSON_EVENTS.decode(body)
    return caught.value.reason.value, caught.value.findings[0].path


@pytest.mark.parametrize(
    ("more", "value", "body"),
    [
        ("", msgspec.UNSET, None),
        (',"data":null', None, None),
        (',"data":{"a":[1]}', {"a": [1]}, None),
        (',"data":"text"', "text", None),
        (',"datacontenttype":"application/vnd.x+json","data":"text"', "text", None),
        (',"datacontenttype":"text/plain","data":"text é"', msgspec.UNSET, "text é".encode()),
        (',"datacontenttype":"text/plain","data":null', msgspec.UNSET, None),
        (',"data_base64":"AQI="', msgspec.UNSET, b"\x01\x02"),
        (',"data_base64":null,"data":5', 5, None),
        (',"datacontenttype":"application/json","data_base64":"e30="', msgspec.UNSET, b"{}"),
    ],
)
def test_data(more: str, value: object, body: bytes | None) -> None:
    """The data of an event is a JSON value or bytes (K-22)."""
    event = decode(more)
    assert (event.value, event.body) == (value, body)


def test_a_null_attribute_is_unset() -> None:
    """A null attribute is treated as absent (K-22)."""
    assert "subject" not in decode(',"subject":null').attributes
    assert decode(',"ext":5,"flag":true').attributes["ext"] == 5


def test_data_is_handed_on_as_it_was_written() -> None:
    assert decode(',"data": {"b": 1.50, "a":1}').payload() == b'{"b": 1.50, "a":1}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ("decode_error", "")),
        (b"{", ("decode_error", "")),
        (b'{"id": "\xff"}', ("decode_error", "")),
        (b"[]", ("invalid_cloudevent", "")),
        (b"null", ("invalid_cloudevent", "")),
        (f"{{{HEAD}".encode() + b',"data":1,"data_base64":"AQI="}', ("invalid_cloudevent", "data")),
        (f"{{{HEAD}".encode() + b',"data_base64":"%"}', ("invalid_cloudevent", "data_base64")),
        (f"{{{HEAD}".encode() + b',"data_base64":5}', ("invalid_cloudevent", "data_base64")),
        (f"{{{HEAD}".encode() + b',"datacontenttype":"a/b","data":{}}', ("invalid_cloudevent", "data")),
        (b'{"specversion":"1.0","id":"1","source":"/s"}', ("invalid_cloudevent", "type")),
    ],
)
def test_invalid_events_are_rejected(body: bytes, expected: tuple[str, str]) -> None:
    """K-22, K-24, K-44"""
    assert failure(body) == expected


def test_data_may_be_as_deep_as_a_document_and_no_deeper() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert decode(f',"data":{deepest}').payload() == deepest.encode()
    assert failure(f'{{{HEAD},"data":[{deepest}]}}'.encode()) == ("decode_error", "")
    assert failure(b"[" * 100_000) == ("decode_error", "")


@pytest.mark.parametrize(("body", "expected"), [(b"[]", []), (b'[{"a": 1} , 5]', [b'{"a": 1}', b"5"])])
def test_batch_is_split_into_events(body: bytes, expected: list[bytes]) -> None:
    """A batch may be empty (K-22)."""
    assert JSON_EVENTS.split(body) == expected


@pytest.mark.parametrize("body", [b"", b"{}", b"[1", b"[1]x"])
def test_invalid_batch_is_rejected(body: bytes) -> None:
    """A batch must be a JSON array (K-22)."""
    with pytest.raises(EventError, match="not a JSON array"):
        JSON_EVENTS.split(body)


VALUE_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = json_trees(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | VALUE_TEXTS, st.text("ab"))


@given(ATTRIBUTES, VALUES)
def test_json_data_survives_encoding(attributes: dict[str, str | int | bool], value: object) -> None:
    """Encoded JSON data is decoded to the same value (K-23)."""
    head: dict[str, str | int | bool] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    again = find_format(JSON_FORMAT).decode(JSON_EVENTS.encode(CloudEvent(attributes=head, value=value)))
    assert (dict(again.attributes), again.value) == (head, value)


@given(st.binary(max_size=20), st.sampled_from(["", "text/plain", "application/json", "application/avro"]))
def test_bytes_survive_encoding(body: bytes, content_type: str) -> None:
    """Encoded bytes are decoded to the same bytes (K-23)."""
    head: dict[str, str | int | bool] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    if content_type:
        head["datacontenttype"] = content_type
    again = JSON_EVENTS.decode(JSON_EVENTS.encode(CloudEvent(attributes=head, body=body)))
    assert again.payload() == body or msgspec.json.decode(again.payload() or b"") == msgspec.json.decode(body)


def test_duplicate_attribute_is_rejected() -> None:
    """CloudEvents 1.0.2: "Each context attribute MUST only appear at most once"."""
    for more in (',"subject":"a","subject":"a"', ',"\\u0069d":"2"', ',"data":1,"data":2'):
        reason, path = failure(f"{{{HEAD}{more}}}".encode())
        assert (reason, path) == ("invalid_cloudevent", more.split('"')[1].replace("\\u0069", "i"))


def test_a_name_twice_in_data_is_noted() -> None:
    """The format takes any JSON as data."""
    assert decode(',"data":{"a":{"b":1,"b":2}}').repeated == "b"
    assert decode(',"data":{"id":1,"b":[{"id":1}]}').repeated is None
