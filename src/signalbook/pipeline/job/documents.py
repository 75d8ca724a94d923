"""Registry documents, and what they have of messages and schemas, whatever a run makes of it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from signalbook.client import Client
from signalbook.confluent.naming import URL_PREFIX
from signalbook.confluent.schemas import find_reference_targets
from signalbook.documents import Parts, SourceDocument, Upload, make_upload, read_bytes, read_folder, source_of
from signalbook.formats.imports import ROOT_LABEL
from signalbook.formats.references import ReferableSchema, is_referable, list_identities
from signalbook.messages.definitions.normalise import find_stated_base
from signalbook.messages.payloads import content
from signalbook.pipeline.errors import PipelineError
from signalbook.uris import without_user
from signalbook.values import JSONObject, dump_json

_NO_GROUPS: Final = frozenset({"capabilities", "labels", "model", "modelsource"})
MESSAGES: Final = "messages"
SCHEMAS: Final = "schemas"
VERSIONS: Final = "/versions/"
SCHEMA_GROUPS: Final = ("/schemagroups/",)
_MESSAGE_GROUPS: Final = ("/messagegroups/", "/endpoints/")
# Registry documents, each with a name.
Documents = Iterable[tuple[str, JSONObject]]


URL: Final = ("http://", "https://")
# Twice as long as a server waits for its database: its word on that is better than ours.
PATIENCE: Final = 120.0


def whole(upload: Upload) -> JSONObject:
    """A document about a part of a registry as one about the registry."""
    document: Any = upload.body
    for part in reversed(upload.target.parts):
        document = {part: document}
    return dict(document)


def message_of(resource: Any) -> JSONObject | None:
    """A message's default Version, None for what is no object or has Versions that are none."""
    return _default(resource)[1] if _is_resource(resource) else None


class SchemaEntries(NamedTuple):
    """The entries of a schema Resource, by the rest of the xid.

    These are the attributes of each Version that decide on payloads, and separately the default Version with the ids of
    all, the oldest first, and the Version for each number of wire prefixes. ``names`` are the names other than its xid
    by which schemas can refer to it, or None.
    """

    entries: tuple[tuple[str, JSONObject], ...]
    names: ReferableSchema | None


def schema_of(resource: Any) -> SchemaEntries | None:
    """Return the entries, or None for a value that is not an object."""
    if not _is_resource(resource):
        return None
    versionid, default = _default(resource)
    versions = resource.get("versions") or {versionid: default}
    ordered = sorted(versions, key=lambda name: _age(name, versions[name]))
    entries: list[tuple[str, JSONObject]] = [("", {"versionid": versionid, "versions": ordered})]
    for name, version in versions.items():
        if isinstance(version, dict):
            entries.append((f"{VERSIONS}{name}", _slim({**version, "versionid": name})))
            labels = version.get("labels")
            number = labels.get(content.NUMBER_LABEL) if isinstance(labels, dict) else None
            if number is not None:
                entries.append((content.reference_of_number("", number), {"versionid": name}))
    format = str(default.get("format") or "")  # noqa: A001  the spec's name
    document = contents(default)
    stated = () if document is None else list_identities(document, format)
    names = ReferableSchema("", format, str(default.get("name") or ""), identities=stated)
    return SchemaEntries(tuple(entries), names if is_referable(format) else None)


def import_roots(document: JSONObject) -> Iterator[tuple[str, str]]:
    """The import roots that groups state."""
    for group in groups_of(document):
        labels = (_entity(document, group) or {}).get("labels")
        if isinstance(labels, dict) and ROOT_LABEL in labels:
            yield group, str(labels[ROOT_LABEL])


def version_of(document: JSONObject, xid: str) -> JSONObject | None:
    """The attributes of a Version, if it is one of a message or schema here."""
    resource_xid, _, versionid = xid.partition(VERSIONS)
    parts = resource_xid.strip("/").split("/")
    resource = _entity(document, resource_xid)
    if resource is None or len(parts) != 4 or parts[2] not in (MESSAGES, SCHEMAS) or not versionid:
        return None
    resource = followed(document, resource)
    if not _is_resource(resource):
        return None
    found = (resource.get("versions") or dict([_default(resource)])).get(versionid)
    return {**found, "versionid": versionid} if isinstance(found, dict) else None


def with_bases(messages: Mapping[str, JSONObject | None], documents: Documents) -> dict[str, JSONObject | None]:
    """``messages`` by xid, with the Versions that they name as their bases, and those name, by the xid of the Version.

    Of several documents with the same Version the first counts.
    """
    found = {xid: message for xid, message in messages.items() if VERSIONS not in xid}
    known, waiting = list(documents), [message for message in found.values() if message is not None]
    while waiting:
        base = find_stated_base(waiting.pop())
        xid = message_xid(base) if base else ""
        if VERSIONS not in xid or xid in found:
            continue
        version = next((each for _, document in known if (each := version_of(document, xid)) is not None), None)
        if version is not None:
            found[xid] = version
            waiting.append(version)
    return found


def contents(schema: JSONObject) -> bytes | None:
    """The document of a schema Version, if it is in the registry document; one that lies elsewhere is not fetched."""
    encoded, text = schema.get("schemabase64"), schema.get("schema")
    if isinstance(encoded, str):
        try:
            return b64decode(encoded)
        except ValueError:
            return None
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else dump_json(text)


def resources(document: JSONObject, plural: str) -> Iterator[tuple[str, Any]]:
    for group_type, groups in document.items():
        if group_type in _NO_GROUPS or not isinstance(groups, dict):
            continue
        for group_id, group in groups.items():
            resources = group.get(plural) if isinstance(group, dict) else None
            for resource_id, resource in (resources or {}).items():
                yield _xid(group_type, group_id, plural, resource_id), resource


def _xid(*parts: str) -> str:
    for part in parts:
        if not part or "/" in part:
            raise PipelineError(f"{part!r} is no id: it is empty or has a slash in it (in {'/'.join(parts)})")
    return "/" + "/".join(parts)


def followed(document: JSONObject, resource: Any) -> Any:
    """Return the Resource that one with an ``xref`` stands for, one step as core/spec.md "xref" has it.

    Return None for a dangling cross reference: as a definition without attributes it would match every message.
    """
    target_xid = xref_of(resource)
    if not target_xid:
        return resource
    target = _entity(document, target_xid)
    if target is not None and not xref_of(target):
        return target
    # A document in API view has what the target has at the cross reference, too.
    return resource if resource.get("versions") or "versionid" in resource else None


def is_dangling(document: JSONObject, resource: Any) -> bool:
    """Return True if a Resource is a cross reference that shows nothing."""
    return bool(xref_of(resource)) and followed(document, resource) is None


def xref_of(resource: Any) -> str:
    """Return the xid that a Resource is a cross reference to, or "" if it is none."""
    if not isinstance(resource, dict):
        return ""
    meta = resource.get("meta")
    target = (meta.get("xref") if isinstance(meta, dict) else None) or resource.get("xref")
    return target if isinstance(target, str) else ""


def _entity(document: JSONObject, xid: str) -> JSONObject | None:
    found: Any = document
    for part in xid.strip("/").split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _is_resource(resource: object) -> bool:
    """Return True for an object whose ``meta`` and Versions, if any, are objects."""
    if not isinstance(resource, dict) or not isinstance(resource.get("meta") or {}, dict):
        return False
    versions = resource.get("versions") or {}
    return isinstance(versions, dict) and all(isinstance(version, dict) for version in versions.values())


def _default(resource: JSONObject) -> tuple[str, JSONObject]:
    """Id and attributes of the default Version: the one named, else the newest (core/spec.md "Default Version")."""
    versions: Mapping[str, JSONObject] = resource.get("versions") or {}
    if not versions:
        versionid = str(resource.get("versionid") or "1")
        return versionid, {**resource, "versionid": versionid}
    named = (resource.get("meta") or {}).get("defaultversionid") or resource.get("versionid")
    chosen = str(named) if named in versions else max(versions, key=lambda name: _age(name, versions[name]))
    return chosen, {**versions[chosen], "versionid": chosen}


def _age(versionid: str, version: JSONObject) -> tuple[str, int, str]:
    """Orders Versions from old to new: by creation, then by id, numbers by their value."""
    return str(version.get("createdat") or ""), int(versionid) if versionid.isdecimal() else 0, versionid


def groups_of(document: JSONObject) -> set[str]:
    """The xids of all Groups."""
    kinds = {kind: groups for kind, groups in document.items() if kind not in _NO_GROUPS and isinstance(groups, dict)}
    return {f"/{kind}/{name}" for kind, groups in kinds.items() for name in groups}


def reachable_groups(document: JSONObject, groups: Sequence[str]) -> set[str]:
    """The xids of ``groups``, and of every message group an endpoint among them refers to (K-10)."""
    found = set(groups)
    for group in groups:
        endpoint = _entity(document, group)
        for reference in endpoint.get("messagegroups") or () if endpoint else ():
            found.add(_local(str(reference)))
    return found


def _local(reference: str) -> str:
    """A reference to a Group as an xid: fragments and URLs name it by their last two parts."""
    return "/" + "/".join(reference.rstrip("/").split("/")[-2:])


def read_documents(registry: str, *, parts: Parts | None = None) -> list[tuple[str, JSONObject]]:
    """The registry documents behind a URL, a document or a folder, each with a name. Raises ``PipelineError``.

    What that of a URL has of ``parts``, too, are the same objects.
    """
    if registry.startswith(URL):
        with Client(registry, timeout=PATIENCE) as client:
            return [(registry, client.export(parts=parts))]
    path = Path(registry)
    if not path.exists():
        shown = without_user(registry)
        raise PipelineError(f"the definitions {shown} are not there: give a registry's URL, a document or a folder")
    sources = read_folder(path) if path.is_dir() else [source_of(path, read_bytes(path))]
    return list(map(named, sources))


def named(source: SourceDocument) -> tuple[str, JSONObject]:
    return source.name, whole(make_upload(source.document))


def is_foreign(registry: str) -> bool:
    """Return True for the URL of a registry that supports only Confluent's API."""
    return registry.startswith(URL_PREFIX)


def _slim(schema: JSONObject) -> JSONObject:
    """Return the attributes of a schema Version that decide on payloads; ``references`` as xids by name."""
    kept: JSONObject = {
        name: schema[name] for name in ("format", "schema", "schemabase64", "versionid") if name in schema
    }
    references = {name: str(xid) for name, xid in find_reference_targets(schema).items()}
    return {**kept, "references": references} if references else kept


def local_xid(reference: str, groups: Sequence[str]) -> str:
    """A reference as an xid: what precedes the first type of Group in it is host and base path, or a ``#``."""
    starts = [start for group in groups if (start := reference.find(group)) >= 0]
    return reference[min(starts) :] if starts else reference


def message_xid(reference: str) -> str:
    """A reference to a message or a Version of one as an xid, in every form that a registry takes it in."""
    path = reference.removeprefix("#").partition("#")[0].partition("?")[0].removesuffix("$details")
    return local_xid(unquote(path if "://" in path else f"/{path.removeprefix('/')}"), _MESSAGE_GROUPS)
