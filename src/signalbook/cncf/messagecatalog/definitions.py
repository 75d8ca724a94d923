"""Convert posted definitions, versions and groups to attributes, and render them (B-1 to B-6, C-2 to C-17, J-16)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from signalbook.cncf.ids import draft_id, entity_id, is_segment
from signalbook.cncf.messagecatalog import metaschemas, originals, validation
from signalbook.cncf.messagecatalog.conversion import definition_to_message
from signalbook.cncf.messagecatalog.metaschemas import (
    ALIASES,
    CLOUDEVENTS,
    METASCHEMAS,
    NATS,
    format_attributes,
    format_of,
)
from signalbook.cncf.messagecatalog.originals import KNOWN, Content
from signalbook.cncf.messagecatalog.templates import literal
from signalbook.uris import is_uri, is_uri_reference
from signalbook.values import JSON, Finding, JSONObject

SPECVERSION: Final = "0.1"
TAGS: Final = "tags"

_LABEL_KEY: Final = re.compile(r"[a-z0-9][a-z0-9:_.-]{0,62}", re.ASCII)
_RENAMED_MEMBERS: Final = {"description": "description", "authority": "authority", "versionuri": "globaluri"} | {
    name: name for name in ("relatedvia", "relation")
}
_INHERITED: Final = ("name", "icon", "documentation", "deprecated")
"""Attributes of xRegistry that no draft has. A new version takes them from the last one."""
MEMBERS: Final = frozenset({*_RENAMED_MEMBERS, "documentation", "relatedto", TAGS})
"""The members of a definition that a client may set. A missing member keeps its value."""
SERVER: Final = frozenset(
    {"id", "format", "specversion", "version", "versions", "definition", "createdtimeutc", "updatedtimeutc"}
)
"""Members that are only checked, or set by the server."""


def build_message_attributes(document: Mapping[str, JSON], before: Mapping[str, JSON]) -> JSONObject:
    """Return a ``document`` as attributes of the definition's next version. ``before`` are those of the last one.

    Missing members stay, ``null`` removes them (C-10). The URI belongs to one version and does not stay.
    """
    described = describe(before)
    members = {name: document[name] if name in document else described.get(name) for name in MEMBERS}
    if "versionuri" not in document:
        members["versionuri"] = None
    # A Version has all its attributes, so those that no draft has are copied from the last one.
    attributes: JSONObject = {name: before[name] for name in _INHERITED if before.get(name) is not None}
    attributes |= {place: members[name] for name, place in _RENAMED_MEMBERS.items() if members[name] is not None}
    if members["relatedto"] is not None:
        attributes["relatedto"] = entity_id(members["relatedto"])
    if members["documentation"] is not None and members["documentation"] != before.get("documentation"):
        attributes["documentationtext"] = members["documentation"]
    if labels := add_tag_labels(before.get("labels"), members[TAGS]):
        attributes["labels"] = labels
    more = {name: value for name, value in document.items() if name not in MEMBERS | SERVER and value is not None}
    return originals.keep_members(attributes, {**originals.load_members(dict(before)), **more})


def describe(message: Mapping[str, JSON]) -> JSONObject:
    """Return the members of a definition of 0.1 for a message."""
    members: JSONObject = {
        name: message[place] for name, place in _RENAMED_MEMBERS.items() if message.get(place) is not None
    }
    if isinstance(message.get("relatedto"), str):
        members["relatedto"] = draft_id(message["relatedto"])
    text = message.get("documentationtext") or message.get("documentation")
    if text is not None:
        members["documentation"] = text
    if (tags := read_tags(message.get("labels"))) is not None:
        members[TAGS] = tags
    return {**members, **originals.load_members(dict(message))}


def add_tag_labels(labels: JSON, tags: JSON) -> JSONObject:
    """Return ``labels`` with ``tags``, each as a label without a value (J-16).

    If the tags cannot be restored from these labels, their text is kept in the label ``tags``.
    """
    untagged = {name: value for name, value in _read_labels(labels).items() if value != "" and name != TAGS}
    if not isinstance(tags, str):
        return untagged
    names = [name.strip() for name in tags.split(",")]
    labels_with_tags = {
        **untagged,
        **{name: "" for name in names if _LABEL_KEY.fullmatch(name) and name not in untagged},
    }
    # Tags that are not legal keys or not sorted cannot be restored from labels, so keep their text.
    return labels_with_tags if read_tags(labels_with_tags) == tags else {**labels_with_tags, TAGS: tags}


def read_tags(labels: JSON) -> str | None:
    """Return the tags in ``labels``, separated by commas, or None if there are none."""
    label_values = _read_labels(labels)
    if TAGS in label_values:
        return str(label_values[TAGS])
    names: Iterable[str] = [name for name, value in label_values.items() if value == ""]
    return ",".join(sorted(names)) or None


def group_properties(labels: JSON) -> JSONObject:
    """Return the labels with values, which are the ``groupProperties`` of a group."""
    return {name: value for name, value in _read_labels(labels).items() if value != "" and name != TAGS}


def _read_labels(labels: JSON) -> JSONObject:
    return labels if isinstance(labels, dict) else {}


DEFINITIONS: Final = ("definitions", "messagedefinitions")
_GROUP_TEXTS: Final = ("description", "documentation", "tags")
_GROUP_MEMBERS: Final = frozenset(
    {"id", "format", "specversion", *_GROUP_TEXTS, "groupProperties", "createdtimeutc", "updatedtimeutc", *DEFINITIONS}
)
GROUP_FILTERS: Final = ("id", "format", *_GROUP_TEXTS, "createdtimeutc", "updatedtimeutc")
"""The members by which groups can be filtered (C-27)."""


def validate_group(document: JSONObject) -> Iterator[Finding]:
    """Yield findings about a group, without its definitions."""
    if "id" in document and not is_segment(document["id"]):
        yield _group_finding("id", "it needs to be a segment of a path without colon (RFC3986 segment-nz-nc)")
    if not (isinstance(document.get("format"), str) and document["format"]):
        yield _group_finding("format", "a group needs one: CloudEvents, AMQP, MQTT, NATS, or another name")
    yield from validate_specversion(document)
    for name in _GROUP_TEXTS:
        if not isinstance(document.get(name), str | None):
            yield _group_finding(name, "it needs to be a string")
    values = document.get("groupProperties") or {}
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        yield _group_finding("groupProperties", "it needs to be an object of strings")


def validate_specversion(document: JSONObject) -> Iterator[Finding]:
    """Yield a finding if a document states another version of the draft (C-2, C-3)."""
    stated = document.get("specversion")
    if stated is not None and stated != SPECVERSION:
        yield _group_finding("specversion", f'it needs to be "{SPECVERSION}"')


def validate_stand_alone(document: JSONObject) -> Iterator[Finding]:
    """Yield a finding if a group of 0.1 that is a separate document lacks its ``specversion`` (C-2)."""
    if document.get("specversion") is None:
        yield _group_finding("specversion", f'a group needs it: "{SPECVERSION}"')


def read_format(document: Mapping[str, JSON]) -> str:
    """Return the format that a group states, with its spelling corrected (B-3)."""
    stated = str(document.get("format"))
    return ALIASES.get(stated, stated)


def first_group_attributes(document: JSONObject) -> JSONObject:
    """Return the body of a PATCH for a group of the first draft. Members that the draft lacks stay."""
    return {**_group_format(document), "description": document.get("description")}


def group_attributes(document: JSONObject, before: Mapping[str, JSON]) -> JSONObject:
    """Return the body of a PATCH for a group of 0.1. ``before`` are the current attributes."""
    text = document.get("documentation")
    properties = document.get("groupProperties")
    labels = before.get("labels") if properties is None else properties
    # Unchanged text came from the attribute ``documentation`` of xRegistry, which stays as it is.
    is_unchanged = text is not None and text == before.get("documentation")
    body: JSONObject = {
        **_group_format(document),
        "description": document.get("description"),
        "documentationtext": None if is_unchanged else text,
        "labels": add_tag_labels(labels, document.get("tags")) or None,
    }
    more = {name: value for name, value in document.items() if name not in _GROUP_MEMBERS and value is not None}
    return originals.keep_members(body, more)


def render_first_group(group: JSONObject) -> JSONObject:
    """Return a group in the form of the first draft."""
    rendered: JSONObject = {"id": draft_id(group["messagegroupid"]), "format": format_of(group)}
    if group.get("description") is not None:
        rendered["description"] = group["description"]
    return rendered | _group_times(group)


def render_group(group: JSONObject) -> JSONObject:
    """Return a group in the form of 0.1, without its definitions."""
    rendered: JSONObject = {
        "id": draft_id(group["messagegroupid"]),
        "specversion": SPECVERSION,
        "format": format_of(group),
    }
    texts = {
        "description": group.get("description"),
        "documentation": group.get("documentationtext") or group.get("documentation"),
        "tags": read_tags(group.get("labels")),
        "groupProperties": group_properties(group.get("labels")) or None,
    }
    rendered |= {name: value for name, value in texts.items() if value is not None}
    return {**rendered, **originals.load_members(group), **_group_times(group)}


def _group_format(document: JSONObject) -> JSONObject:
    return format_attributes(read_format(document))


def _group_times(group: JSONObject) -> JSONObject:
    return {"createdtimeutc": group["createdat"], "updatedtimeutc": group["modifiedat"]}


def _group_finding(path: str, message: str) -> Finding:
    return Finding(path=path, rule="group", message=message)


_TEXT_MEMBERS: Final = (
    "authority",
    "description",
    "documentation",
    "relatedto",
    "relatedvia",
    "relation",
    "tags",
    "versionuri",
)
DEFINITION_FILTERS: Final = ("id", "format", *_TEXT_MEMBERS, "version", "createdtimeutc", "updatedtimeutc")
"""The members by which definitions can be filtered, in addition to members of ``definition``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedVersion:
    """A version of a definition as a client sent it.

    ``document`` has the members of 0.1 that all versions share. ``definition`` has the spelling of 0.1. ``content`` is
    the document of the first draft, or None. ``number`` and ``created`` are used only for imported documents. ``path``
    is the place in a document, for findings.
    """

    id: str
    document: JSONObject
    definition: JSONObject
    content: Content | None = None
    number: int | None = None
    created: str | None = None
    path: str = ""

    def at(self, finding: Finding) -> Finding:
        """Return ``finding`` with its path in the whole document."""
        joint = "" if not (self.path and finding.path) or self.path.endswith(": ") else "."
        return replace(finding, path=f"{self.path}{joint}{finding.path}")


def read_first_draft(id: str, format: str, document: JSON, content: Content, attributes: JSONObject) -> PostedVersion:
    """Return the version in a document of the first draft, with the ``attributes`` that were sent next to it.

    For known formats, only sections are kept. For unknown formats, ``definition`` is empty.
    """
    body = document if isinstance(document, dict) and format in KNOWN else {}
    sections = metaschemas.select_sections(format, body, originals.BESIDE)
    stated = {name: body[name] for name in ("description", "authority") if body.get(name) is not None}
    return PostedVersion(
        id=id,
        document=stated | attributes,
        definition=metaschemas.to_newer_spelling(format, sections),
        content=content,
        path="",
    )


def validate_first_definition(format: str, id: str, document: JSON, attributes: JSONObject) -> Iterator[Finding]:
    """Yield findings about a document of the first draft of a known format, and its metadata (B-4, B-23)."""
    yield from _validate_uris({"authority": attributes.get("authority")})
    versionuri = attributes.get("versionuri")
    if versionuri and not is_uri_reference(versionuri):
        yield _build_definition_finding("id", "it needs to be a URI reference")
    if not _is_same_format(attributes.get("format"), format):
        yield _build_definition_finding("format", f"the group has the format {format}")
    if format not in KNOWN:
        return
    if not isinstance(document, dict):
        yield _build_definition_finding("", f"a definition of format {format} needs to be a JSON object")
        return
    if document.get("id") is not None and document["id"] != id:
        yield _build_definition_finding("id", f"the path says {id}")
    if not _is_same_format(document.get("format"), format):
        yield _build_definition_finding("format", f"the group has the format {format}")
    for name in ("description", "authority"):
        if attributes.get(name) is not None and document.get(name, attributes[name]) != attributes[name]:
            yield _build_definition_finding(name, "the document and what came beside it do not agree")
        elif not isinstance(document.get(name), str | None):
            yield _build_definition_finding(name, "it needs to be a string")
    if format in METASCHEMAS and format != NATS:
        yield from _validate_first_metaschema(format, id, document)


def _validate_first_metaschema(format: str, id: str, document: JSONObject) -> Iterator[Finding]:
    """Yield violations of the metaschema. NATS has none in the first draft (B-2)."""
    misspelt = list(metaschemas.validate_spelling(format, document))
    yield from misspelt
    if not misspelt:
        sections = metaschemas.select_sections(format, document, originals.BESIDE)
        yield from validation.validate_against_metaschema(format, id, metaschemas.to_newer_spelling(format, sections))


def validate_definition(format: str, posted: PostedVersion) -> Iterator[Finding]:
    """Yield findings about a version of 0.1 in a group of ``format``, except about its relations."""
    document = posted.document
    yield from (posted.at(finding) for finding in _validate_members(format, document))
    for finding in validation.validate_against_metaschema(format, posted.id, posted.definition):
        yield posted.at(replace(finding, path=f"definition.{finding.path}".rstrip(".")))
    via = document.get("relatedvia")
    if isinstance(via, str):
        wrong = "" if is_segment(via) else "it needs to be a segment of a path without colon"
        wrong = wrong or validation.find_relatedvia_error(format, posted.definition, via)
        if wrong:
            yield posted.at(_build_definition_finding("relatedvia", wrong))


def validate_strictly(posted: PostedVersion) -> Iterator[Finding]:
    """Yield findings for which the API rejects a version. Documents in folders are accepted with them (L-19)."""
    yield from (posted.at(finding) for finding in _validate_uris(posted.document))


def validate_relations(posted: PostedVersion, definition_ids: Collection[str]) -> Iterator[Finding]:
    """Yield findings about missing related definitions. ``definition_ids`` are the group's ids in xRegistry (C-15)."""
    other = posted.document.get("relatedto")
    if isinstance(other, str) and entity_id(other) not in definition_ids:
        yield posted.at(_build_definition_finding("relatedto", f"the group has no definition {other}"))


def criteria(format: str, definition: JSONObject) -> JSON:
    """Return the value that must be the same in all versions (B-6): the type of a CloudEvent, else None."""
    attributes = definition.get("attributes") if format == CLOUDEVENTS else None
    return literal(attributes.get("type")) if isinstance(attributes, dict) else None


def build_definition_attributes(
    format: str, posted: PostedVersion, group: Mapping[str, JSON], before: Mapping[str, JSON] | None = None
) -> JSONObject:
    """Return the attributes of a new version of a message in ``group``.

    ``before`` are those of the last version, if any.
    """
    message = build_message_attributes(posted.document, before or {})
    if format in KNOWN:
        message |= definition_to_message(format, posted.definition, group)
    if posted.content is not None:
        return originals.keep_content(format, message, posted.content)
    return originals.keep_definition(format, message, posted.definition)


def render_definition(format: str, latest: JSONObject, version: JSONObject) -> JSONObject:
    """Return a version as one object that includes the members all versions share (C-9 (b)), taken from ``latest``."""
    members = describe(latest)
    # The URI belongs to one version, so the latest one's is not shared.
    members.pop("versionuri", None)
    version_uri = {"versionuri": version["globaluri"]} if version.get("globaluri") else {}
    return {
        "id": draft_id(latest["messageid"]),
        "specversion": SPECVERSION,
        "format": format,
        **members,
        **version_uri,
        "version": int(version["versionid"]),
        "createdtimeutc": version["createdat"],
        "updatedtimeutc": latest["modifiedat"],
        "definition": originals.restore_definition(format, version),
    }


def build_embedded_definition(versions: list[JSONObject]) -> JSONObject:
    """Return one document for a definition with all its versions (C-9 (a)).

    ``versions`` come from ``render_definition``, the latest last.
    """
    shared = {name: value for name, value in versions[-1].items() if name not in (*_OF_VERSION, "specversion")}
    return {**shared, "versions": [{n: version[n] for n in _OF_VERSION if n in version} for version in versions]}


_OF_VERSION: Final = ("version", "createdtimeutc", "versionuri", "definition")


def _validate_members(format: str, document: JSONObject) -> Iterator[Finding]:
    yield from validate_specversion(document)
    if not _is_same_format(document.get("format"), format):
        yield _build_definition_finding("format", f"the group has the format {format}")
    for name in _TEXT_MEMBERS:
        if not isinstance(document.get(name), str | None):
            yield _build_definition_finding(name, "it needs to be a string")
    other = document.get("relatedto")
    if isinstance(other, str) and not is_segment(other):
        yield _build_definition_finding("relatedto", "it needs to be a segment of a path without colon")


def _validate_uris(document: Mapping[str, JSON]) -> Iterator[Finding]:
    authority = document.get("authority")
    if isinstance(authority, str) and authority and not is_uri(authority):
        yield _build_definition_finding("authority", "it needs to be an absolute URI")


def _is_same_format(stated: JSON, format: str) -> bool:
    return stated is None or (isinstance(stated, str) and ALIASES.get(stated, stated) == format)


def _build_definition_finding(path: str, message: str) -> Finding:
    return Finding(path=path, rule="definition", message=message)
