from typing import Any

import pytest
import yaml
from tests.messages.builders import define, make_contract

from signalbook.messages import Accepted, CloudEvent
from signalbook.messages.producing.building import OutboundError
from signalbook.messages.producing.sending import from_cloudevent

# K-36 the other way round.
SALE: dict[str, Any] = yaml.safe_load("""
envelope: CloudEvents/1.0
envelopemetadata: {type: {value: "{eventtype}"}, source: {type: uritemplate, value: "{store}"},
  subject: {type: uritemplate, value: "{desk}"}}
protocol: MQTT/5.0
protocoloptions: {topic_name: "/store/{store}/cashierdesk/{desk}",
  user_properties: [{name: eventType, value: "{eventtype}", required: true}]}
""")
EVENT = CloudEvent(
    attributes={
        "specversion": "1.0", "id": "1", "type": "com.ex.sale", "source": "17", "subject": "4",
        "datacontenttype": "application/json",
    },
    body=b'{"n":1}',
)  # fmt: skip


def test_an_event_becomes_a_native_message_and_an_event_again() -> None:
    """K-35, K-36, K-37"""
    contract = make_contract({"sale": SALE}, native_mapping=True)
    (definition,) = contract.definitions.values()
    forwarded = from_cloudevent(EVENT, definition)
    assert forwarded.sections == {
        "topic_name": "/store/17/cashierdesk/4", "user_properties": (("eventType", "com.ex.sale"),),
        "content_type": "application/json",
    }  # fmt: skip
    (outcome,) = contract.process(forwarded)
    assert isinstance(outcome, Accepted)
    assert outcome.event is not None
    assert {**outcome.event.attributes, "id": "1"} == EVENT.attributes
    assert outcome.payload() == EVENT.payload()


@pytest.mark.parametrize(
    ("change", "attributes", "context", "complaint"),
    [
        ({}, {"subject": None}, {}, "needs desk"),
        ({}, {}, {"desk": "5"}, "stands for '4' already"),
        ({"envelopemetadata": {"type": {"value": "other"}}}, {}, {}, "type must be 'other'"),
        ({"protocol": "", "protocoloptions": None}, {}, {}, "for no protocol"),
    ],
)
def test_unconvertible_event_is_rejected(
    change: dict[str, Any], attributes: dict[str, Any], context: dict[str, str], complaint: str
) -> None:
    """K-18, K-37"""
    members = {name: value for name, value in {**SALE, **change}.items() if value}
    remaining = {name: value for name, value in {**EVENT.attributes, **attributes}.items() if value is not None}
    with pytest.raises(OutboundError, match=complaint):
        from_cloudevent(CloudEvent(attributes=remaining), define(**members), context)


def test_missing_values_can_be_supplied() -> None:
    """Values that no attribute contains are taken from the context and the overrides (K-37)."""
    remaining = {name: value for name, value in EVENT.attributes.items() if name != "subject"}
    overrides = {"protocoloptions.user_properties.n": 5}
    forwarded = from_cloudevent(CloudEvent(attributes=remaining), define(**SALE), {"desk": "4"}, overrides)
    assert forwarded.sections["topic_name"] == "/store/17/cashierdesk/4"
    assert ("n", "5") in forwarded.sections["user_properties"]
