"""Make definitions from the subjects of a registry with Confluent's API, for records that contain a schema id.

A subject becomes a message definition; its latest version is the payload schema. The id that a serializer writes into a
record identifies the schema version that the record was written with.
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
from signalbook.messages.content import reference_of_number
from signalbook.pipeline.errors import PipelineError
from signalbook.values import JSONError, JSONObject, parse_json

Strategy = Literal["", "topic", "record", "topic-record"]
"""The naming strategy of subjects: by topic, by record type, or by both. Empty means that subjects are not used."""
GROUP: Final = "/messagegroups/subjects"
"""The xid of the group of the definitions that are made from subjects."""
_SCHEMAS: Final = "/schemagroups/subjects/schemas"
_PATIENCE: Final = 120.0
_MAX_DEPTH: Final = 128
_VALUE: Final = "-value"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TYPES: Final = frozenset(SCHEMA_TYPES.values())


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of one context: all versions by subject and number, also softly deleted ones.

    ``latest`` has the number of the latest version of each subject that is not deleted.
    """

    versions: Mapping[tuple[str, int], SchemaVersion]
    latest: Mapping[str, int]

    @classmethod
    def read(cls, registry: str) -> Self:
        """Return the subjects of the registry at the URL ``registry``, in the context of the URL or the default one.

        Raises ``PipelineError``, and the errors of ``Client``.
        """
        # A token in the environment is for our own registry, and must not be sent to another registry.
        token = "" if registry.startswith(URL_PREFIX) else None
        try:
            with closing(connect(registry, timeout=_PATIENCE, token=token)) as confluent_registry:
                return cls.from_registry(confluent_registry)
        except UnusableRegistry as error:
            raise PipelineError(f"cannot read the subjects: {error}") from error

    @classmethod
    def from_registry(cls, registry: ConfluentRegistry) -> Self:
        """Return the subjects that ``registry`` lists."""
        all_versions = list(registry.versions())
        live = registry.live() if any(version.deleted is None for version in all_versions) else {}
        versions: dict[tuple[str, int], SchemaVersion] = {}
        latest: dict[str, int] = {}
        for version in all_versions:
            subject = parse_subject(version.subject, registry.context)
            if subject.context != registry.context or version.type not in _TYPES:
                continue
            versions[subject.name, version.version] = replace(version, subject=subject.name)
            deleted = (
                version.version not in live.get(version.subject, ()) if version.deleted is None else version.deleted
            )
            if not deleted:
                latest[subject.name] = max(version.version, latest.get(subject.name, 0))
        return cls(versions, latest)

    def build_definitions(self, strategy: Strategy) -> tuple[dict[str, JSONObject], dict[str, JSONObject]]:
        """Return message definitions by xid, and their schemas, both in the form of ``Snapshot``."""
        names = self._assign_ids()
        messages: dict[str, JSONObject] = {}
        for subject, number in self.latest.items():
            for kind in self._find_kinds(strategy, self.versions[subject, number]):
                if kind.topic is None or _TOPIC.fullmatch(kind.topic):
                    messages[f"{GROUP}/messages/{names[subject]}{kind.suffix}"] = {
                        "versionid": str(number),
                        "protocol": "KAFKA",
                        "protocoloptions": {} if kind.topic is None else {"topic": kind.topic},
                        "dataschemauri": f"{_SCHEMAS}/{names[subject]}/versions/{number}{kind.link}",
                    }
        return messages, dict(self._build_schemas(names))

    def _find_kinds(self, strategy: Strategy, latest: SchemaVersion) -> list[_Kind]:
        """Return the kinds of records of the subject of ``latest``; none if its name does not follow the strategy."""
        subject = latest.subject
        if strategy == "topic":
            topic = subject.removesuffix(_VALUE)
            return [] if topic == subject else [_Kind(topic, *type_parts) for type_parts in self._list_types(latest)]
        topic, _, name = subject.rpartition("-")
        if strategy == "record":
            topic, name = "", subject
        if latest.type == "PROTOBUF":
            kinds = [_Kind(topic, f":{name}")] if name in self._list_message_types(latest) else []
        else:
            # Compare with the end of the subject, because a title may contain hyphens.
            name = record_name(latest)
            ends = subject.endswith(f"-{name}") if strategy == "topic-record" else subject == name
            kinds = [_Kind(subject.removesuffix(f"-{name}"))] if name and ends else []
        return kinds if strategy == "topic-record" else [kind._replace(topic=None) for kind in kinds]

    def _list_types(self, latest: SchemaVersion) -> list[tuple[str, str]]:
        """Return link and suffix of each message type in ``latest``, as in ``_Kind``.

        The first message type of the subject's first version has no suffix. If ``latest`` lacks this type, the
        first type of ``latest`` has none.
        """
        if latest.type != "PROTOBUF":
            return [("", "")]
        first = min(number for subject, number in self.versions if subject == latest.subject)
        message_types = self._list_message_types(latest)
        first_types = self._list_message_types(self.versions[latest.subject, first])[:1]
        main_type = next((name for name in (*first_types, *message_types) if name in message_types), "")
        other_types = [(f":{name}", f".{name.rpartition('.')[2]}") for name in message_types if name != main_type]
        return [(f":{main_type}" if main_type else "", ""), *other_types]

    def _list_message_types(self, version: SchemaVersion) -> tuple[str, ...]:
        """Return the message types of a version; none if it does not compile, which is reported by its users."""
        files = {name: referred.text.encode() for name, referred in self._collect_references(version).items()}
        try:
            text = SchemaText(document=version.text.encode(), format=format_of(version), resolve=files.get)
            return PROTOBUF.message_types(text)
        except SchemaError:
            return ()

    def _assign_ids(self) -> dict[str, str]:
        """Return a unique id for each subject.

        Of similar names, the subject that was registered first keeps its name.
        """
        ids: dict[str, str] = {}
        used: set[str] = set()
        for version in sorted(self.versions.values(), key=lambda version: (version.id, version.subject)):
            if version.subject not in ids:
                candidates = list_schema_ids(version.subject)
                # Names of tables and folders may be case-insensitive.
                ids[version.subject] = next((name for name in candidates if name.lower() not in used), candidates[-1])
                used.add(ids[version.subject].lower())
        return ids

    def _build_schemas(self, names: Mapping[str, str]) -> Iterator[tuple[str, JSONObject]]:
        for subject, version in self.latest.items():
            yield f"{_SCHEMAS}/{names[subject]}", {"versionid": str(version)}
        for (subject, version), schema_version in self.versions.items():
            resource, versionid = f"{_SCHEMAS}/{names[subject]}", {"versionid": str(version)}
            referred = {
                name: f"{_SCHEMAS}/{names[target.subject]}/versions/{target.version}"
                for name, target in self._collect_references(schema_version).items()
            }
            schema: JSONObject = {**versionid, "format": format_of(schema_version), "schema": schema_version.text}
            yield f"{resource}/versions/{version}", {**schema, "references": referred} if referred else schema
            for identifier in (schema_version.id, schema_version.guid):
                if identifier:
                    yield reference_of_number(resource, identifier), versionid

    def _collect_references(self, version: SchemaVersion) -> dict[str, SchemaVersion]:
        """Return the versions that ``version`` refers to, directly or indirectly, by the name of the reference.

        A version in Avro is also listed by each name that it defines.
        """
        collected: dict[str, SchemaVersion] = {}
        waiting = [version]
        while waiting:
            for reference in waiting.pop().references:
                subject = parse_subject(reference.subject).name
                number = self.latest.get(subject, 0) if reference.version == -1 else reference.version
                target = self.versions.get((subject, number))
                if reference.name not in collected and target is not None:
                    collected[reference.name] = target
                    for name in list_defined_names(target.text.encode()) if target.type == "AVRO" else ():
                        collected.setdefault(name, target)
                    waiting.append(target)
        return collected


class _Kind(NamedTuple):
    """The records of one definition.

    ``topic`` is their topic, None for all topics. ``link`` is ``:`` and the Protobuf message type, if any. ``suffix``
    is appended to the id of the subject, to distinguish several definitions of one subject.
    """

    topic: str | None
    link: str = ""
    suffix: str = ""


def format_of(version: SchemaVersion) -> str:
    """Return the xRegistry format of the schema of ``version``."""
    try:
        return SchemaBody(text=version.text, type=version.type).format()
    except JSONError:  # compiling the definition reports this error
        return "JsonSchema"


def record_name(version: SchemaVersion) -> str:
    """Return the name that serializers use for records of an Avro or JSON Schema: full name or title, or ""."""
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
