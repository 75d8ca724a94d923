"""Subjects of a registry that speaks Confluent's API as definitions: of records that say by which schema they came.

A subject becomes a message definition, whose payload schema is its latest version. The ids that serializers write into
records name the versions that wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, Self

from signalbook.client.confluent import ConfluentRegistry, UnusableRegistry, connect
from signalbook.client.schemaversions import SchemaVersion
from signalbook.confluent.naming import URL_PREFIX, list_schema_ids, parse_subject
from signalbook.confluent.schemas import SCHEMA_TYPES, SchemaBody
from signalbook.formats import SchemaError
from signalbook.formats.avro.document import list_defined_names
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.protobuf.format import FORMAT as PROTOBUF
from signalbook.messages.payloads.content import reference_of_number
from signalbook.pipeline.errors import PipelineError
from signalbook.values import JSONError, JSONObject, parse_json

Strategy = Literal["", "topic", "record", "topic-record"]
"""How subjects are named: after topics, types of records, or both; empty for none."""
GROUP: Final = "/messagegroups/subjects"
"""The group of the definitions that subjects are."""
_SCHEMAS: Final = "/schemagroups/subjects/schemas"
_PATIENCE: Final = 120.0
_MAX_DEPTH: Final = 128
_VALUE: Final = "-value"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TYPES: Final = frozenset(SCHEMA_TYPES.values())


@dataclass(frozen=True, slots=True)
class Subjects:
    """All versions of the subjects of a context, softly deleted ones too, and the latest number of each."""

    versions: Mapping[tuple[str, int], SchemaVersion]
    latest: Mapping[str, int]

    @classmethod
    def read(cls, registry: str) -> Self:
        """Read the subjects of the registry at a URL, in its context or the default one.

        Raises ``PipelineError``, and the errors of ``Client``.
        """
        # A token of the environment is for our own registry, and no business of any other.
        token = "" if registry.startswith(URL_PREFIX) else None
        try:
            with closing(connect(registry, timeout=_PATIENCE, token=token)) as found:
                return cls.listed(found)
        except UnusableRegistry as error:
            raise PipelineError(f"cannot read the subjects: {error}") from error

    @classmethod
    def listed(cls, registry: ConfluentRegistry) -> Self:
        """Return the subjects that a registry lists."""
        found = list(registry.versions())
        live = registry.live() if any(each.deleted is None for each in found) else {}
        versions: dict[tuple[str, int], SchemaVersion] = {}
        latest: dict[str, int] = {}
        for each in found:
            subject = parse_subject(each.subject, registry.context)
            if subject.context != registry.context or each.type not in _TYPES:
                continue
            versions[subject.name, each.version] = replace(each, subject=subject.name)
            deleted = each.version not in live.get(each.subject, ()) if each.deleted is None else each.deleted
            if not deleted:
                latest[subject.name] = max(each.version, latest.get(subject.name, 0))
        return cls(versions, latest)

    def definitions(self, strategy: Strategy) -> tuple[dict[str, JSONObject], dict[str, JSONObject]]:
        """Message definitions by xid, and the schemas that they name, as ``Snapshot`` has both."""
        names = self._ids()
        messages: dict[str, JSONObject] = {}
        for subject, number in self.latest.items():
            for kind in self._kinds(strategy, self.versions[subject, number]):
                if kind.topic is None or _TOPIC.fullmatch(kind.topic):
                    messages[f"{GROUP}/messages/{names[subject]}{kind.suffix}"] = {
                        "versionid": str(number),
                        "protocol": "KAFKA",
                        "protocoloptions": {} if kind.topic is None else {"topic": kind.topic},
                        "dataschemauri": f"{_SCHEMAS}/{names[subject]}/versions/{number}{kind.link}",
                    }
        return messages, dict(self._schemas(names))

    def _kinds(self, strategy: Strategy, latest: SchemaVersion) -> list[_Kind]:
        """The kinds of records of a subject; none if its name is no such one."""
        subject = latest.subject
        if strategy == "topic":
            topic = subject.removesuffix(_VALUE)
            return [] if topic == subject else [_Kind(topic, *each) for each in self._types(latest)]
        topic, _, name = subject.rpartition("-")
        if strategy == "record":
            topic, name = "", subject
        if latest.type == "PROTOBUF":
            found = [_Kind(topic, f":{each}") for each in self._message_types(latest) if each == name]
        else:
            # A title may have hyphens.
            name = record_name(latest)
            ends = subject.endswith(f"-{name}") if strategy == "topic-record" else subject == name
            found = [_Kind(subject.removesuffix(f"-{name}"))] if name and ends else []
        return found if strategy == "topic-record" else [each._replace(topic=None) for each in found]

    def _types(self, latest: SchemaVersion) -> list[tuple[str, str]]:
        """Link and suffix of each message type: that which the first version began with has the subject's name."""
        if latest.type != "PROTOBUF":
            return [("", "")]
        first = min(number for subject, number in self.versions if subject == latest.subject)
        there = self._message_types(latest)
        began = [each for each in self._message_types(self.versions[latest.subject, first])[:1] if each in there]
        own = next(iter((*began, *there)), "")
        others = [(f":{each}", f".{each.rpartition('.')[2]}") for each in there if each != own]
        return [(f":{own}" if own else "", ""), *others]

    def _message_types(self, version: SchemaVersion) -> tuple[str, ...]:
        """The message types of a version; none of one that does not compile, which is said where it is used."""
        files = {name: each.text.encode() for name, each in self._referred(version).items()}
        try:
            text = SchemaText(document=version.text.encode(), format=format_of(version), resolve=files.get)
            return PROTOBUF.message_types(text)
        except SchemaError:
            return ()

    def _ids(self) -> dict[str, str]:
        """The id that each subject has here: the one that was there first keeps its own."""
        found: dict[str, str] = {}
        taken: set[str] = set()
        for each in sorted(self.versions.values(), key=lambda each: (each.id, each.subject)):
            if each.subject not in found:
                wanted = list_schema_ids(each.subject)
                # Tables and folders may not tell cases apart.
                found[each.subject] = next((name for name in wanted if name.lower() not in taken), wanted[-1])
                taken.add(found[each.subject].lower())
        return found

    def _schemas(self, names: Mapping[str, str]) -> Iterator[tuple[str, JSONObject]]:
        for subject, version in self.latest.items():
            yield f"{_SCHEMAS}/{names[subject]}", {"versionid": str(version)}
        for (subject, version), each in self.versions.items():
            resource, versionid = f"{_SCHEMAS}/{names[subject]}", {"versionid": str(version)}
            referred = {
                name: f"{_SCHEMAS}/{names[found.subject]}/versions/{found.version}"
                for name, found in self._referred(each).items()
            }
            schema: JSONObject = {**versionid, "format": format_of(each), "schema": each.text}
            yield f"{resource}/versions/{version}", {**schema, "references": referred} if referred else schema
            for named in (each.id, each.guid):
                if named:
                    yield reference_of_number(resource, named), versionid

    def _referred(self, version: SchemaVersion) -> dict[str, SchemaVersion]:
        """Return the references of a version, transitively, by name."""
        found: dict[str, SchemaVersion] = {}
        waiting = [version]
        while waiting:
            for each in waiting.pop().references:
                subject = parse_subject(each.subject).name
                wanted = self.latest.get(subject, 0) if each.version == -1 else each.version
                target = self.versions.get((subject, wanted))
                if each.name not in found and target is not None:
                    found[each.name] = target
                    for name in list_defined_names(target.text.encode()) if target.type == "AVRO" else ():
                        found.setdefault(name, target)
                    waiting.append(target)
        return found


class _Kind(NamedTuple):
    """Records that are of one definition: on which topic, None for all, and of which message type.

    ``suffix`` tells the definition from that of the subject.
    """

    topic: str | None
    link: str = ""
    suffix: str = ""


def format_of(version: SchemaVersion) -> str:
    """The format of a schema."""
    try:
        return SchemaBody(text=version.text, type=version.type).format()
    except JSONError:  # which is said where the definition is compiled
        return "JsonSchema"


def record_name(version: SchemaVersion) -> str:
    """The name that serializers give records of Avro and JSON Schema: full name or title; empty for none."""
    try:
        schema = parse_json(version.text.encode(), max_depth=_MAX_DEPTH)
    except JSONError:
        return ""
    if not isinstance(schema, dict):
        return ""
    if version.type == "JSON":
        return str(schema.get("title") or "")
    name, space = str(schema.get("name") or ""), str(schema.get("namespace") or "")
    return f"{space}.{name}" if space and name and "." not in name else name
