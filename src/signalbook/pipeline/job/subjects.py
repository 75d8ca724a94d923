"""Subjects of a registry that speaks Confluent's API as definitions: of records that say by which schema they came.

A subject becomes a message definition, whose payload schema is its latest version. The ids that serializers write into
records name the versions that wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, Self
from urllib.parse import quote, unquote, urlsplit

import msgspec

from signalbook.client.responses import BadResponse, Refused
from signalbook.client.transport import Transport
from signalbook.confluent.avro import defined_type
from signalbook.confluent.naming import DEFAULT_CONTEXT, parse_subject, schema_ids
from signalbook.confluent.schemas import SCHEMA_TYPES, SchemaBody
from signalbook.formats import SchemaError
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.protobuf.format import FORMAT as PROTOBUF
from signalbook.messages.payloads.content import reference_of_number
from signalbook.pipeline.errors import PipelineError
from signalbook.uris import without_user
from signalbook.values import JSON, JSONError, JSONObject, parse_json

Strategy = Literal["", "topic", "record", "topic-record"]
"""How subjects are named: after topics, types of records, or both; empty for none."""
PREFIX: Final = "confluent+"
"""What the URL of a registry begins with that speaks Confluent's API and no other."""
GROUP: Final = "/messagegroups/subjects"
"""The group of the definitions that subjects are."""
_SCHEMAS: Final = "/schemagroups/subjects/schemas"
_MOUNTS: Final = ("", "/apis/ccompat/v7", "/compat/confluent")
"""Where registries have the API below their URLs; ours has it at the last."""
_PATIENCE: Final = 120.0
_MAX_BYTES: Final = 256 * 1024 * 1024
_PAGE: Final = 1000
_MAX_DEPTH: Final = 128
_VALUE: Final = "-value"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CONTEXT: Final = re.compile(r"/contexts/(:?\.[^/:]*):?/?$")
_TYPES: Final = frozenset(SCHEMA_TYPES.values())
_ABSENT: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
# Unknown parameters are passed over, as by all clients.
_HEADERS: Final = {"Confluent-Accept-Unknown-Properties": "true"}


class Reference(msgspec.Struct, frozen=True):
    """What a schema refers to by ``name``."""

    name: str
    subject: str
    version: int


class SubjectVersion(msgspec.Struct, frozen=True, kw_only=True, rename={"type": "schemaType", "text": "schema"}):
    """A version of a subject, as registries list them."""

    subject: str
    version: int
    id: int
    text: str
    type: str = "AVRO"
    guid: str = ""
    references: tuple[Reference, ...] | None = None

    @property
    def format(self) -> str:
        """The format of the schema."""
        try:
            return SchemaBody(text=self.text, type=self.type).format()
        except JSONError:  # which is said where the definition is compiled
            return "JsonSchema"


@dataclass(frozen=True, slots=True)
class Subjects:
    """All versions of the subjects of a context, those deleted softly too, and the number of the latest of each."""

    versions: Mapping[tuple[str, int], SubjectVersion]
    latest: Mapping[str, int]

    @classmethod
    def read(cls, registry: str) -> Self:
        """Those of the registry at a URL. Raises ``PipelineError``, and what ``Client`` raises."""
        foreign = registry.startswith(PREFIX)
        url = registry.removeprefix(PREFIX).rstrip("/")
        # A token of the environment is for our own registry, and no business of any other.
        token = "" if foreign else None
        for mount in _MOUNTS if foreign else _MOUNTS[-1:]:
            transport = Transport(
                url + mount, timeout=_PATIENCE, max_bytes=_MAX_BYTES, attempts=4, headers=_HEADERS, token=token
            )
            with closing(transport):
                listing = _Listing(transport)
                if listing.is_there():
                    return cls.listed(listing)
        raise PipelineError(f"{without_user(url)} has no subjects: it does not speak Confluent's API")

    @classmethod
    def listed(cls, listing: _Listing) -> Self:
        """Those that a registry lists."""
        latest: dict[str, int] = {}
        live = list(listing.versions(deleted=False))
        for each in live:
            latest[each.subject] = max(each.version, latest.get(each.subject, 0))
        # Afterwards: what is registered meanwhile may be known by its id, and is a latest version the next time.
        found = {(each.subject, each.version): each for each in (*live, *listing.versions(deleted=True))}
        return cls(found, latest)

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

    def _kinds(self, strategy: Strategy, latest: SubjectVersion) -> list[_Kind]:
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

    def _types(self, latest: SubjectVersion) -> list[tuple[str, str]]:
        """Link and suffix of each message type: that which the first version began with has the subject's name."""
        if latest.type != "PROTOBUF":
            return [("", "")]
        first = min(number for subject, number in self.versions if subject == latest.subject)
        there = self._message_types(latest)
        began = [each for each in self._message_types(self.versions[latest.subject, first])[:1] if each in there]
        own = next(iter((*began, *there)), "")
        others = [(f":{each}", f".{each.rpartition('.')[2]}") for each in there if each != own]
        return [(f":{own}" if own else "", ""), *others]

    def _message_types(self, version: SubjectVersion) -> tuple[str, ...]:
        """The message types of a version; none of one that does not compile, which is said where it is used."""
        files = {name: each.text.encode() for name, each in self._referred(version).items()}
        try:
            text = SchemaText(document=version.text.encode(), format=version.format, resolve=files.get)
            return PROTOBUF.message_types(text)
        except SchemaError:
            return ()

    def _ids(self) -> dict[str, str]:
        """The id that each subject has here: the one that was there first keeps its own."""
        found: dict[str, str] = {}
        taken: set[str] = set()
        for each in sorted(self.versions.values(), key=lambda each: (each.id, each.subject)):
            if each.subject not in found:
                wanted = schema_ids(each.subject)
                # Tables and folders may not tell cases apart.
                found[each.subject] = next((name for name in wanted if name.lower() not in taken), wanted[-1])
                taken.add(found[each.subject].lower())
        return found

    def _schemas(self, names: Mapping[str, str]) -> Iterator[tuple[str, JSONObject]]:
        for (subject, version), each in self.versions.items():
            resource, versionid = f"{_SCHEMAS}/{names[subject]}", {"versionid": str(version)}
            referred = {
                name: f"{_SCHEMAS}/{names[found.subject]}/versions/{found.version}"
                for name, found in self._referred(each).items()
            }
            schema: JSONObject = {**versionid, "format": each.format, "schema": each.text}
            yield f"{resource}/versions/{version}", {**schema, "references": referred} if referred else schema
            for named in (each.id, each.guid):
                if named:
                    yield reference_of_number(resource, named), versionid

    def _referred(self, version: SubjectVersion) -> dict[str, SubjectVersion]:
        """What a version refers to, and what that refers to in turn, by name."""
        found: dict[str, SubjectVersion] = {}
        waiting = [version]
        while waiting:
            for each in waiting.pop().references or ():
                subject = parse_subject(each.subject).name
                wanted = self.latest.get(subject, 0) if each.version == -1 else each.version
                target = self.versions.get((subject, wanted))
                if each.name not in found and target is not None:
                    found[each.name] = target
                    defined = defined_type(target.text.encode()) if target.type == "AVRO" else None
                    if defined is not None:
                        found.setdefault(defined, target)
                    waiting.append(target)
        return found


class _Kind(NamedTuple):
    """Records that are of one definition: on which topic, None for all, and of which message type.

    ``suffix`` tells the definition from that of the subject.
    """

    topic: str | None
    link: str = ""
    suffix: str = ""


def record_name(version: SubjectVersion) -> str:
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


class _Listing:
    """What a registry lists of one context: the one its URL names, or else the default one."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        named = _CONTEXT.search(unquote(urlsplit(transport.base_url).path))
        self._context = named[1].removeprefix(":") if named else DEFAULT_CONTEXT

    def is_there(self) -> bool:
        """Whether there is anything to list."""
        return isinstance(self._get("/schemas/types", {}), list)

    def versions(self, *, deleted: bool) -> Iterator[SubjectVersion]:
        """The latest version of each subject, or with ``deleted`` all versions there are."""
        query = {"deleted": "true"} if deleted else {"latestOnly": "true"}
        for value in self._all("/schemas", query) or self._walked(query):
            found = self._version(value)
            subject = parse_subject(found.subject, self._context)
            if subject.context == self._context and found.type in _TYPES:
                yield msgspec.structs.replace(found, subject=subject.name)

    def _version(self, value: JSON) -> SubjectVersion:
        try:
            return msgspec.convert(value, SubjectVersion)
        except msgspec.ValidationError as error:
            raise BadResponse(f"{self._transport.base_url}: this is no version of a subject: {error}") from None

    def _walked(self, query: Mapping[str, str]) -> Iterator[JSON]:
        """The same where there is no list of schemas: subject by subject."""
        for subject in self._all("/subjects", query) or ():
            path = f"/subjects/{quote(str(subject), safe='')}/versions"
            for number in self._all(path, query) or ():
                yield self._get(f"{path}/{number}", query)

    def _all(self, path: str, query: Mapping[str, str]) -> list[JSON] | None:
        """The members of a list, page after page; None if there is no such list."""
        found: list[JSON] = []
        while True:
            page = self._get(path, {**query, "offset": str(len(found)), "limit": str(_PAGE)})
            if page is None:
                return None
            if not isinstance(page, list):
                raise BadResponse(f"{self._transport.base_url}{path}: a list is expected")
            # A registry without pages answers the same again.
            if not page or (found and page[0] == found[0]):
                return found
            found += page
            if len(page) != _PAGE:
                return found

    def _get(self, path: str, query: Mapping[str, str]) -> JSON:
        """What is at a path; None if there is nothing."""
        try:
            response = self._transport.send("GET", path, query=query)
            return parse_json(response.content, max_depth=_MAX_DEPTH)
        except Refused as error:
            if error.status in _ABSENT:
                return None
            raise PipelineError(f"cannot read the subjects of {self._transport.base_url}: {error}") from error
        except JSONError as error:
            raise BadResponse(f"{self._transport.base_url}{path}: this is no JSON: {error}") from None
