import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.events.definitions import GROUP, change_event_definitions
from signalbook.events.dialects import ACTIONS, API_PATHS, MESSAGE_CATALOG, SCHEMA_REGISTRY, of_source
from signalbook.messages import Accepted, Contract, Message, Policy, SchemaDocument
from signalbook.settings import Settings
from signalbook.storage.outbox import Record
from signalbook.storage.store import Store
from signalbook.values import JSONObject, dump_json
from signalbook.xid import ROOT, Xid

XIDS = {
    "registry": ROOT,
    "model": Xid(("model",)),
    "modelsource": Xid(("modelsource",)),
    "capabilities": Xid(("capabilities",)),
    "group": Xid.parse("/schemagroups/g"),
    "resource": Xid.parse("/messagegroups/g/messages/m"),
    "version": Xid.parse("/schemagroups/g/schemas/s/versions/3"),
}


def contract() -> Contract:
    """Return the contract of all event definitions and their schemas."""
    book = change_event_definitions()
    definitions = {
        f"/messagegroups/{group}/messages/{name}": message
        for group, members in book["messagegroups"].items()
        for name, message in members["messages"].items()
    }
    xid = f"/schemagroups/{GROUP}/schemas/changed"
    (version,) = book["schemagroups"][GROUP]["schemas"]["changed"]["versions"].values()
    schema = SchemaDocument(content=dump_json(version["schema"]), format=version["format"], xid=xid)
    return Contract.compile(definitions, {xid: schema}.get, Policy())


def events(entity: str, action: str, path: str) -> tuple[JSONObject, ...]:
    change = {"xid": str(XIDS[entity]), "entity": entity, "action": action, "changed": ["epoch", "name"]}
    record = Record(position=1, time=datetime(2030, 1, 1, tzinfo=UTC), correlationid="c", change=change)
    dialect = of_source(f"https://r.example{path}", "https://r.example")
    assert dialect is not None
    return dialect.events(record)


@pytest.mark.parametrize("path", ["", *API_PATHS])
def test_every_event_conforms_to_its_definition(path: str) -> None:
    """D-23, R293"""
    held = contract()
    assert not held.verify()
    all_events = [
        event for entity, actions in ACTIONS.items() for action in actions for event in events(entity, action, path)
    ]
    assert all_events
    for event in all_events:
        (outcome,) = held.process(Message(content_type="application/cloudevents+json", body=dump_json(event)))
        assert isinstance(outcome, Accepted), (event, outcome)
        assert outcome.definition.message_id == event["type"]


def test_definitions_can_be_imported_strictly(store: Store) -> None:
    """The rules reject every doubtful definition (D-23)."""
    engine = Engine(store, settings=Settings(model="default", domain_rules="reject"))
    with engine.writing() as session:
        result = session.execute(Command(method=Method.POST, target=ROOT, body=change_event_definitions()))
    assert result.findings == ()


@pytest.mark.others("the events that Message Catalog 0.1 defines in print", ours="test_the_events_of_the_drafts_apis")
def test_definitions_cover_those_of_the_draft(shared_data: Path) -> None:
    """The draft is Message Catalog 0.1, whose printed types and attributes are compared (D-23, L-17, L-18)."""
    draft = (shared_data.parent / "seeds" / "message-catalog-0.1-2022-01-28.md").read_text(encoding="utf-8")
    printed = re.findall(r'"id": "(io\.cloudevents\.messagecatalog\.(?:updated|deleted)\.v1)"', draft)
    assert set(printed) == set(change_event_definitions()["messagegroups"][MESSAGE_CATALOG]["messages"])


def test_the_events_of_the_drafts_apis() -> None:
    """The types and attributes are complete, and all of them are required (D-23, L-17, L-18)."""
    messages = change_event_definitions()["messagegroups"][MESSAGE_CATALOG]["messages"]
    assert set(messages) == {f"io.cloudevents.messagecatalog.{action}.v1" for action in ("updated", "deleted")}
    expected = set(change_event_definitions()["messagegroups"][SCHEMA_REGISTRY]["messages"])
    assert {name.replace(MESSAGE_CATALOG, SCHEMA_REGISTRY) for name in messages} == expected
    for name, message in messages.items():
        metadata = message["envelopemetadata"]
        assert metadata.keys() >= {"specversion", "type", "source", "subject", "time"}
        assert (metadata["specversion"]["value"], metadata["type"]["value"]) == ("1.0", name)
        assert all(attribute["required"] for attribute in metadata.values())
