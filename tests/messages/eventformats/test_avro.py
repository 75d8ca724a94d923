import math
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pytest

from signalbook.messages.eventformats import EventError
from signalbook.messages.eventformats.avro import CLOUDEVENTS_SCHEMA, AvroEventFormat
from signalbook.values import deeper_than

AVRO = AvroEventFormat()
HEAD: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
PARSED = fastavro.parse_schema(CLOUDEVENTS_SCHEMA)


def written(data: Any = None, **more: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, PARSED, {"attribute": {**HEAD, **more}, "data": data})
    return stream.getvalue()


def failure(body: bytes) -> tuple[str, str]:
    with pytest.raises(EventError) as caught:
        AVRO.decode(body)
    return caught.value.reason.value, caught.value.findings[0].path


def test_attributes_have_their_types() -> None:
    """Binary attributes get their canonical form, and null is unset (K-22)."""
    event = AVRO.decode(written(n=5, flag=True, raw=b"\x01\x02", gone=None, time="2026-01-02T03:04:05Z"))
    assert event.attributes == {**HEAD, "n": 5, "flag": True, "raw": "AQI=", "time": "2026-01-02T03:04:05Z"}
    assert event.payload() is None


@pytest.mark.parametrize(
    ("data", "content_type", "value", "body"),
    [
        (b"\xff\x00", "application/octet-stream", msgspec.UNSET, b"\xff\x00"),
        (b'{"a":1}', "application/json", msgspec.UNSET, b'{"a":1}'),
        (b"", None, msgspec.UNSET, b""),
        (True, None, True, None),
        (2.0, "application/json", 2, None),
        (2.5, None, 2.5, None),
        ("text", None, "text", None),
        ("<a/>", "application/xml", msgspec.UNSET, b"<a/>"),
        ({"a": 1.0, "b": None}, None, {"a": 1, "b": None}, None),
        ({"a": {"value": {"b": "x"}}}, None, {"a": {"b": "x"}}, None),
        ({"a": {"value": {"b": {"c": {"value": {"d": True}}}}}}, None, {"a": {"b": {"c": {"d": True}}}}, None),
        ([{"value": {"a": 1.5}}], None, [{"a": 1.5}], None),
        ({"a": {"value": {"b": [{"value": {"c": "x"}}]}}}, None, {"a": {"b": [{"c": "x"}]}}, None),
    ],
)
def test_data(data: Any, content_type: str | None, value: Any, body: bytes | None) -> None:
    """Bytes are unchanged, and JSON values are converted from their representation (K-22)."""
    event = AVRO.decode(written(data, datacontenttype=content_type))
    assert (event.value, event.body) == (value, body)


def test_data_must_match_its_content_type() -> None:
    assert failure(written(True, datacontenttype="text/plain")) == ("invalid_cloudevent", "data")


def deep(levels: int) -> bytes:
    """An event whose data is a map in a record in a map, and so on."""
    return written()[:-1].removesuffix(b"\x02") + b"\x06" + b"\x02\x02a\x04\x02\x02a\x04" * levels


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\xff" * 40,
        b'{"specversion":"1.0"}',
        written()[:-2],
        written() + b"\x00",
        written(b"x" * 100)[:-1],
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x02a",
        deep(10_000),
    ],
    ids=["empty", "short", "varint", "json", "cut", "more", "cut data", "count", "deep"],
)
def test_undecodable_bytes_are_rejected(body: bytes) -> None:
    """K-22, K-44"""
    assert failure(body) == ("decode_error", "")


def nested(levels: int) -> bytes:
    """An event whose data is an even number of objects in each other, and empty in the end."""
    inner = (levels - 2) // 2
    return written({})[:-1] + b"\x02\x02a\x04" + b"\x02\x02a\x04\x02\x02a" * inner + b"\x00" * (2 * inner + 2)


def test_data_is_no_deeper_than_json_may_be() -> None:
    """Data deeper than JSON allows is rejected by no schema's decoder, and would abort the run."""
    assert deeper_than(AVRO.decode(nested(64)).value, 63)
    assert failure(nested(66)) == ("decode_error", "")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("data", [lambda n: n, lambda n: {"a": n}, lambda n: [{"value": {"a": n}}]])
def test_numbers_without_json_form_are_rejected(data: Callable[[float], Any], number: float) -> None:
    """JSON would change the numbers to null (K-22, K-24)."""
    assert failure(written(data(number))) == ("invalid_cloudevent", "data")


def test_record_without_required_attributes_is_rejected() -> None:
    """A record without the required attributes is invalid (K-24)."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, PARSED, {"attribute": {"id": "1"}, "data": None})
    assert failure(stream.getvalue())[0] == "invalid_cloudevent"


def test_batches_are_not_supported() -> None:
    with pytest.raises(EventError, match="no batches"):
        AVRO.split(b"")
