"""Google's catalogue of CloudEvents (github.com/googleapis/google-cloudevents): its definitions and its test data."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from signalbook.documents import read_folder
from signalbook.messages import Message
from signalbook.messages.bindings.http import request
from signalbook.values import JSONObject

GROUP: Final = "google"
# The message of an event names its type in an option, and the message of its data in its only field.
_EVENT: Final = re.compile(r'cloud_event_type\)\s*=\s*"([^"]+)".*?([\w.]+) data = 1;', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """A type of events: ``data`` is the Protobuf message of its data, ``folder`` where its file is."""

    type: str
    data: str
    folder: Path

    def samples(self, root: Path) -> list[Path]:
        folders = root / "testdata" / self.folder, root / "examples" / "binary" / self.folder.parent.name
        return sorted(path for folder in folders for path in folder.glob("*.json") if self._is_sample(path))

    def _is_sample(self, path: Path) -> bool:
        return path.stem.partition("-")[0] == self.data

    def json_schema(self, root: Path) -> Path:
        return root / "jsonschema" / self.folder / f"{self.data}.json"


def event_types(root: Path) -> list[EventType]:
    """Return all event types that the ``.proto`` files in a checkout define."""
    protos = root / "proto"
    return [
        EventType(type=name, data=data.rpartition(".")[2], folder=path.parent.relative_to(protos))
        for path in sorted(protos.rglob("events.proto"))
        for name, data in _EVENT.findall(path.read_text(encoding="utf-8"))
    ]


def by_protobuf(root: Path) -> list[tuple[str, JSONObject]]:
    """A registry of the ``.proto`` files as they are, and a definition for each type that names its data's message."""
    (source,) = read_folder(root / "proto")
    group = {"schemas": source.document["schemas"]}
    messages = {
        event_type.type: _definition(event_type.type, "Protobuf/3", dataschemauri=_schema(event_type))
        for event_type in event_types(root)
    }
    return [("proto", {"schemagroups": {GROUP: group}, "messagegroups": {GROUP: {"messages": messages}}})]


def _schema(event_type: EventType) -> str:
    return f"/schemagroups/{GROUP}/schemas/{'.'.join(event_type.folder.parts)}.data:{event_type.data}"


def by_json_schema(root: Path) -> list[tuple[str, JSONObject]]:
    """A registry of definitions by the catalogue's JSON Schemas, of types that have one."""
    messages: JSONObject = {}
    for event_type in event_types(root):
        path = event_type.json_schema(root)
        if path.exists():
            document = json.loads(path.read_text(encoding="utf-8"))
            messages[event_type.type] = _definition(event_type.type, "JsonSchema/draft-04", dataschema=document)
    return [("jsonschema", {"messagegroups": {GROUP: {"messages": messages}}})]


def _definition(type: str, format: str, **schema: object) -> JSONObject:
    metadata = {"type": {"value": type}}
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, "dataschemaformat": format, **schema}


def event(type: str, content_type: str, data: bytes) -> Message:
    attributes = (("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "//google"), ("ce-type", type))
    return request("POST", "/", [("Content-Type", content_type), *attributes], data)


def samples(root: Path) -> Iterator[tuple[EventType, Path]]:
    for event_type in event_types(root):
        yield from ((event_type, path) for path in event_type.samples(root))
