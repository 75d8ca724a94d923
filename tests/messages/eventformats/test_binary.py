import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.eventformats.avro import AvroEventFormat
from signalbook.messages.eventformats.protobuf import ProtobufEventFormat

HEAD: dict[str, str | int | bool] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
ATTRIBUTES = st.dictionaries(
    st.from_regex("x[a-z0-9]{1,8}", fullmatch=True),
    st.text("abcé 1", max_size=5) | st.booleans() | st.integers(-(2**31), 2**31 - 1),
    max_size=3,
)


@pytest.fixture(params=[AvroEventFormat(), ProtobufEventFormat()], ids=["avro", "protobuf"], scope="module")
def form(request: pytest.FixtureRequest) -> AvroEventFormat | ProtobufEventFormat:
    """Return each binary event format."""
    event_format: AvroEventFormat | ProtobufEventFormat = request.param
    return event_format


@given(attributes=ATTRIBUTES, body=st.none() | st.binary(max_size=20))
def test_events_survive_encoding(
    form: AvroEventFormat | ProtobufEventFormat, attributes: dict[str, str | int | bool], body: bytes | None
) -> None:
    """Encoded events are decoded to the same events (K-23)."""
    event = CloudEvent(attributes={**HEAD, **attributes}, body=body)
    assert form.decode(form.encode(event)) == event


def test_a_json_value_is_written_as_text(form: AvroEventFormat | ProtobufEventFormat) -> None:
    """A JSON value is encoded as text with its content type (K-23)."""
    again = form.decode(form.encode(CloudEvent(attributes=HEAD, value={"a": [1]})))
    assert (again.body, again.content_type) == (b'{"a":[1]}', "application/json")
