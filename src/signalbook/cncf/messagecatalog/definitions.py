"""Message definitions and their versions: what is posted, what is shown (domain.md B-4 to B-6, C-3 to C-17)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from signalbook.cncf.messagecatalog import common, originals, spelling, validation
from signalbook.cncf.messagecatalog.formats import ALIASES
from signalbook.cncf.messagecatalog.groups import specversion_faults
from signalbook.cncf.messagecatalog.ids import is_segment
from signalbook.cncf.messagecatalog.metaschemas import CLOUDEVENTS, METASCHEMAS, NATS
from signalbook.cncf.messagecatalog.originals import KNOWN, Content
from signalbook.cncf.messagecatalog.projection import project
from signalbook.cncf.messagecatalog.templates import literal
from signalbook.cncf.paths import draft_id, entity_id
from signalbook.uris import is_uri, is_uri_reference
from signalbook.values import JSON, Finding, JSONObject

_TEXTS: Final = (
    "authority",
    "description",
    "documentation",
    "relatedto",
    "relatedvia",
    "relation",
    "tags",
    "versionuri",
)
FILTERABLE: Final = ("id", "format", *_TEXTS, "version", "createdtimeutc", "updatedtimeutc")
"""What definitions can be filtered by, beside whatever is in ``definition``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """One version of a definition as a client sent it.

    ``document`` has the members of 0.1 that are common to all versions, ``definition`` is spelt as there. ``content``
    is the document of the first draft, if it was one; ``number`` and ``created`` count only in documents that are
    imported. ``path`` is where in a document it is, for faults.
    """

    id: str
    document: JSONObject
    definition: JSONObject
    content: Content | None = None
    number: int | None = None
    created: str | None = None
    path: str = ""

    def at(self, finding: Finding) -> Finding:
        """``finding`` with its path in the whole document."""
        joint = "" if not (self.path and finding.path) or self.path.endswith(": ") else "."
        return replace(finding, path=f"{self.path}{joint}{finding.path}")


def first(id: str, format: str, document: JSON, content: Content, attributes: JSONObject) -> Posted:
    """A document of the first draft, with the ``attributes`` that came beside it.

    One of an unknown format is what it is; of others members that are no sections are taken out.
    """
    body = document if isinstance(document, dict) and format in KNOWN else {}
    sections = {name: value for name, value in body.items() if name not in originals.BESIDE}
    told = {name: body[name] for name in ("description", "authority") if body.get(name) is not None}
    return Posted(
        id=id, document=told | attributes, definition=spelling.lift(format, sections), content=content, path=""
    )


def first_faults(format: str, id: str, document: JSON, attributes: JSONObject) -> Iterator[Finding]:
    """What is wrong with a document of the first draft of a known format, and with what came beside it (B-4, B-23)."""
    yield from _uri_faults({"authority": attributes.get("authority")})
    versionuri = attributes.get("versionuri")
    if versionuri and not is_uri_reference(versionuri):
        yield _fault("id", "it needs to be a URI reference")
    if not _same_format(attributes.get("format"), format):
        yield _fault("format", f"the group has the format {format}")
    if format not in KNOWN:
        return
    if not isinstance(document, dict):
        yield _fault("", f"a definition of format {format} needs to be a JSON object")
        return
    if document.get("id") is not None and document["id"] != id:
        yield _fault("id", f"the path says {id}")
    if not _same_format(document.get("format"), format):
        yield _fault("format", f"the group has the format {format}")
    for name in ("description", "authority"):
        if attributes.get(name) is not None and document.get(name, attributes[name]) != attributes[name]:
            yield _fault(name, "the document and what came beside it do not agree")
        elif not isinstance(document.get(name), str | None):
            yield _fault(name, "it needs to be a string")
    if format in METASCHEMAS and format != NATS:
        yield from _first_metaschema(format, id, document)


def _first_metaschema(format: str, id: str, document: JSONObject) -> Iterator[Finding]:
    """What breaks the metaschema; NATS has none in the first draft (B-2)."""
    misspelt = list(spelling.faults(format, document))
    yield from misspelt
    if not misspelt:
        sections = {name: value for name, value in document.items() if name not in originals.BESIDE}
        yield from validation.faults(format, id, spelling.lift(format, sections))


def faults(format: str, posted: Posted) -> Iterator[Finding]:
    """What is wrong with a version of 0.1 in a group of ``format``, but for what it relates to."""
    document = posted.document
    yield from (posted.at(finding) for finding in _member_faults(format, document))
    for finding in validation.faults(format, posted.id, posted.definition):
        yield posted.at(replace(finding, path=f"definition.{finding.path}".rstrip(".")))
    via = document.get("relatedvia")
    if isinstance(via, str):
        wrong = "" if is_segment(via) else "it needs to be a segment of a path without colon"
        wrong = wrong or validation.relatedvia_fault(format, posted.definition, via)
        if wrong:
            yield posted.at(_fault("relatedvia", wrong))


def strict_faults(posted: Posted) -> Iterator[Finding]:
    """What is refused through the API only: documents in folders have it (L-19)."""
    yield from (posted.at(finding) for finding in _uri_faults(posted.document))


def relation_faults(posted: Posted, known: Collection[str]) -> Iterator[Finding]:
    """What a version relates to is there; ``known`` are the ids of the group's definitions in xRegistry (C-15)."""
    other = posted.document.get("relatedto")
    if isinstance(other, str) and entity_id(other) not in known:
        yield posted.at(_fault("relatedto", f"the group has no definition {other}"))


def criteria(format: str, definition: JSONObject) -> JSON:
    """What identifies the message, the same in all versions (B-6): of CloudEvents the type, of others nothing told."""
    attributes = definition.get("attributes") if format == CLOUDEVENTS else None
    return literal(attributes.get("type")) if isinstance(attributes, dict) else None


def attributes(
    format: str, posted: Posted, group: Mapping[str, JSON], before: Mapping[str, JSON] | None = None
) -> JSONObject:
    """The attributes of a message's new version in ``group``; ``before`` are those of the last one."""
    message = common.message_attributes(posted.document, before or {})
    if format in KNOWN:
        message |= project(format, posted.definition, group)
    if posted.content is not None:
        return originals.keep_content(format, message, posted.content)
    return originals.keep_definition(format, message, posted.definition)


def render(format: str, latest: JSONObject, version: JSONObject) -> JSONObject:
    """A version as one object with what is common to all (C-9 (b)); ``latest`` is the message that says that."""
    said = common.describe(latest)
    said.pop("versionuri", None)
    own = {"versionuri": version["globaluri"]} if version.get("globaluri") else {}
    return {
        "id": draft_id(latest["messageid"]),
        "specversion": common.SPECVERSION,
        "format": format,
        **said,
        **own,
        "version": int(version["versionid"]),
        "createdtimeutc": version["createdat"],
        "updatedtimeutc": latest["modifiedat"],
        "definition": originals.definition(format, version),
    }


def embed(versions: list[JSONObject]) -> JSONObject:
    """Versions, each as ``render`` makes it, the latest last, as one document of their definition (C-9 (a))."""
    shared = {name: value for name, value in versions[-1].items() if name not in (*_OF_VERSION, "specversion")}
    return {**shared, "versions": [{n: each[n] for n in _OF_VERSION if n in each} for each in versions]}


def standalone(document: JSONObject, number: int) -> JSONObject | None:
    """Version ``number`` of a document with embedded versions as one object (C-9, C-11), None if it has none such."""
    shared = {name: value for name, value in document.items() if name != "versions"}
    versions = document.get("versions")
    listed = list(versions.values()) if isinstance(versions, dict) else versions or []
    found = next((each for each in listed if each.get("version") == number), None)
    return None if found is None else {**shared, **found}


_OF_VERSION: Final = ("version", "createdtimeutc", "versionuri", "definition")


def _member_faults(format: str, document: JSONObject) -> Iterator[Finding]:
    yield from specversion_faults(document)
    if not _same_format(document.get("format"), format):
        yield _fault("format", f"the group has the format {format}")
    for name in _TEXTS:
        if not isinstance(document.get(name), str | None):
            yield _fault(name, "it needs to be a string")
    other = document.get("relatedto")
    if isinstance(other, str) and not is_segment(other):
        yield _fault("relatedto", "it needs to be a segment of a path without colon")


def _uri_faults(document: Mapping[str, JSON]) -> Iterator[Finding]:
    authority = document.get("authority")
    if isinstance(authority, str) and authority and not is_uri(authority):
        yield _fault("authority", "it needs to be an absolute URI")


def _same_format(stated: JSON, format: str) -> bool:
    return stated is None or (isinstance(stated, str) and ALIASES.get(stated, stated) == format)


def _fault(path: str, message: str) -> Finding:
    return Finding(path=path, rule="definition", message=message)
