from typing import Any

import yaml
from tests.messages.builders import define

from signalbook.messages.producing.building import Param, required_inputs


def test_inputs() -> None:
    """Inputs are placeholders and open properties, with types, but not constants and derived values (K-51)."""
    metadata: dict[str, Any] = yaml.safe_load("""
    {type: {value: t}, source: {value: "/shops/{shop}", type: uritemplate}, subject: {value: "{shop}/{desk}"},
      id: {type: string}, n: {type: integer, required: true},
      dataschema: {value: /schemagroups/g/schemas/s, required: true}}
    """)
    options = {"topic": "t.{shop}", "key": "{order}", "headers": {"X-Kind": {"required": True}, "c": {"value": "1"}}}
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}
    definition = define(**event, protocol="KAFKA", protocoloptions=options)
    subject, source, topic = "envelopemetadata.subject", "envelopemetadata.source", "protocoloptions.topic"
    kind = "protocoloptions.headers.X-Kind"
    assert required_inputs(definition) == [
        Param(name="shop", type="string", source="template", required=True, paths=(source, subject, topic)),
        Param(name="desk", type="string", source="template", required=False, paths=(subject,)),
        Param(name="order", type="string", source="template", required=False, paths=("protocoloptions.key",)),
        Param(name="id", type="string", source="property", required=False, paths=("envelopemetadata.id",)),
        Param(name="n", type="integer", source="property", required=True, paths=("envelopemetadata.n",)),
        Param(
            name="dataschema", type="uritemplate", source="property", required=True,
            paths=("envelopemetadata.dataschema",),
        ),
        Param(name=kind, type="string", source="property", required=True, paths=(kind,)),
    ]  # fmt: skip


def test_every_event_needs_a_source() -> None:
    """K-51, F-31"""
    (source,) = required_inputs(define(envelope="CloudEvents/1.0"))
    assert (source.name, source.type, source.source, source.required) == ("source", "urireference", "property", True)
    assert required_inputs(define(protocol="KAFKA")) == []
