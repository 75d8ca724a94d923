from datetime import UTC, datetime
from typing import Any

import pytest
from tests.messages.builders import make_contract

from signalbook.messages import Accepted, CloudEvent, Rejected
from signalbook.messages.bindings.http import request

RECEIVED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def definition(**metadata: Any) -> dict[str, Any]:
    headers = [{"name": "eventType", "value": "{eventtype}", "required": True}]
    options = {"path": "/store/{store}/cashierdesk/{desk}", "headers": headers}
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}
    return {**event, "protocol": "HTTP", "protocoloptions": options}


SALE = definition(
    type={"value": "{eventtype}"}, source={"type": "uritemplate", "value": "{store}"},
    subject={"type": "uritemplate", "value": "{desk}"},
)  # fmt: skip


def outcome(entry: dict[str, Any], **policy: Any) -> Accepted | Rejected:
    schemas = {"https://r.example/s": {"type": "object"}}
    contract = make_contract({"com.ex.sale": entry}, schemas, **{"native_mapping": True, **policy})
    headers = [("eventtype", "com.ex.sale"), ("Content-Type", "application/json")]
    (result,) = contract.process(request("POST", "/store/17/cashierdesk/4", headers, b"{}", received_at=RECEIVED))
    assert isinstance(result, (Accepted, Rejected))
    return result


def mapped(entry: dict[str, Any]) -> CloudEvent:
    result = outcome(entry)
    assert isinstance(result, Accepted)
    assert result.event is not None
    return result.event


def test_a_native_message_becomes_an_event() -> None:
    """K-26.2, K-35, K-36"""
    event = mapped(SALE)
    attributes = dict(event.attributes)
    assert len(str(attributes.pop("id"))) == 36  # HTTP knows its messages by no name
    assert attributes == {
        "specversion": "1.0", "type": "com.ex.sale", "source": "17", "subject": "4",
        "datacontenttype": "application/json",
    }  # fmt: skip
    assert event.payload() == b"{}"


def test_native_message_is_rejected_without_native_mapping() -> None:
    """K-26.2, K-44"""
    result = outcome(SALE, native_mapping=False)
    assert isinstance(result, Rejected)
    assert result.reason == "not_cloudevent"


def test_unspecified_attributes_come_from_the_transport() -> None:
    """K-35, F-4, F-25"""
    attributes = definition(source={"value": "/s"}, time={"type": "timestamp", "value": "0000-01-01T00:00:00Z"})
    event = mapped({**attributes, "dataschemauri": "https://r.example/s"})
    attributes_ = {name: event.attributes[name] for name in ("type", "time", "dataschema")}
    assert attributes_ == {"type": "com.ex.sale", "time": "2026-01-02T03:04:05Z", "dataschema": "https://r.example/s"}


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({}, "source"),
        ({"source": {"value": "{other}"}}, "source"),
        ({"source": {"value": "/s"}, "subject": {"required": True}}, "subject"),
        ({"source": {"value": "no uri"}}, "source"),
    ],
)
def test_unmappable_messages_are_rejected(metadata: dict[str, Any], path: str) -> None:
    """K-35, K-44"""
    result = outcome(definition(**metadata))
    assert isinstance(result, Rejected)
    assert result.reason == "mapping_error"
    assert [finding.path for finding in result.violations] == [path]


def test_sources_are_uri_templates_by_default() -> None:
    """The values are percent-encoded (F-30, K-18, K-35)."""
    entry = definition(type={"value": "t"}, source={"value": "/stores/{store}"})
    contract = make_contract({"m": entry}, native_mapping=True)
    headers = [("eventtype", "t"), ("Content-Type", "application/json")]
    (result,) = contract.process(request("POST", "/store/a%20b/cashierdesk/4", headers, b"{}"))
    assert isinstance(result, Accepted)
    assert result.event is not None
    assert result.event.attributes["source"] == "/stores/a%20b"
