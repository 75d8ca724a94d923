"""Read registry documents, and find messages, schemas and groups in them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from signalbook.client import Client
from signalbook.confluent.naming import URL_PREFIX
from signalbook.documents import Parts, SourceDocument, Upload, make_upload, read_bytes, read_folder, source_of
from signalbook.formats.imports import ROOT_LABEL
from signalbook.formats.references import ReferableSchema, find_reference_targets, is_referable, list_identities
from signalbook.messages import content
from signalbook.messages.definitions.normalise import find_stated_base
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
# The client timeout in seconds: twice the time that a server waits for its database, because the error of the server
# says more than a timeout.
PATIENCE: Final = 120.0


def build_document(upload: Upload) -> JSONObject:
    """Return the document of ``upload``, which may describe a part of a registry, as a document of the registry."""
    document: Any = upload.body
    for part in reversed(upload.target.parts):
        document = {part: document}
    return dict(document)


def find_message(resource: Any) -> JSONObject | None:
    """Return the default Version of the message ``resource``, or None if ``resource`` is not a valid message."""
    return _find_default(resource)[1] if _is_resource(resource) else None


class SchemaEntries(NamedTuple):
    """The entries of a schema Resource in a snapshot, each with the rest of its xid after the xid of the Resource.

    There is an entry for each Version with the attributes that matter for payloads. The entry of the Resource has the
    id of the default Version and the ids of all Versions, oldest first. Further entries map numbers in wire prefixes
    to Versions. ``names`` are the names by which other schemas can refer to the schema, None if its format has no
    references.
    """

    entries: tuple[tuple[str, JSONObject], ...]
    names: ReferableSchema | None


def find_schema_entries(resource: Any) -> SchemaEntries | None:
    """Return the entries of the schema ``resource``, or None if ``resource`` is not a valid schema."""
    if not _is_resource(resource):
        return None
    versionid, default = _find_default(resource)
    versions = resource.get("versions") or {versionid: default}
    ordered = sorted(versions, key=lambda name: _sort_key(name, versions[name]))
    entries: list[tuple[str, JSONObject]] = [("", {"versionid": versionid, "versions": ordered})]
    for name, version in versions.items():
        if isinstance(version, dict):
            entries.append((f"{VERSIONS}{name}", _select_attributes({**version, "versionid": name})))
            labels = version.get("labels")
            number = labels.get(content.NUMBER_LABEL) if isinstance(labels, dict) else None
            if number is not None:
                entries.append((content.reference_of_number("", number), {"versionid": name}))
    format = str(default.get("format") or "")  # noqa: A001  the spec's name
    document = read_contents(default)
    stated = () if document is None else list_identities(document, format)
    names = ReferableSchema("", format, str(default.get("name") or ""), identities=stated)
    return SchemaEntries(tuple(entries), names if is_referable(format) else None)


def import_roots(document: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the xid and the import root of each group that states an import root."""
    for group in list_groups(document):
        labels = (find_entity(document, group) or {}).get("labels")
        if isinstance(labels, dict) and ROOT_LABEL in labels:
            yield group, str(labels[ROOT_LABEL])


def find_version(document: JSONObject, xid: str) -> JSONObject | None:
    """Return the attributes of the message or schema Version ``xid``, or None if ``document`` does not have it."""
    resource_xid, _, versionid = xid.partition(VERSIONS)
    parts = resource_xid.strip("/").split("/")
    resource = find_entity(document, resource_xid)
    if resource is None or len(parts) != 4 or parts[2] not in (MESSAGES, SCHEMAS) or not versionid:
        return None
    resource = follow_xref(document, resource)
    if not _is_resource(resource):
        return None
    version = (resource.get("versions") or dict([_find_default(resource)])).get(versionid)
    return {**version, "versionid": versionid} if isinstance(version, dict) else None


def with_bases(messages: Mapping[str, JSONObject | None], documents: Documents) -> dict[str, JSONObject | None]:
    """Return ``messages`` together with the Versions that are their bases, directly or not, by the xid of the Version.

    If several documents contain a Version, the first document is used.
    """
    collected = {xid: message for xid, message in messages.items() if VERSIONS not in xid}
    all_documents, waiting = list(documents), [message for message in collected.values() if message is not None]
    while waiting:
        base = find_stated_base(waiting.pop())
        xid = resolve_message_xid(base) if base else ""
        if VERSIONS not in xid or xid in collected:
            continue
        version = next(
            (candidate for _, document in all_documents if (candidate := find_version(document, xid)) is not None), None
        )
        if version is not None:
            collected[xid] = version
            waiting.append(version)
    return collected


def read_contents(schema: JSONObject) -> bytes | None:
    """Return the document of a schema Version, or None if the registry document lacks it. Nothing is fetched."""
    encoded, text = schema.get("schemabase64"), schema.get("schema")
    if isinstance(encoded, str):
        try:
            return b64decode(encoded)
        except ValueError:
            return None
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else dump_json(text)


def iterate_resources(document: JSONObject, plural: str) -> Iterator[tuple[str, Any]]:
    for group_type, groups in document.items():
        if group_type in _NO_GROUPS or not isinstance(groups, dict):
            continue
        for group_id, group in groups.items():
            resources = group.get(plural) if isinstance(group, dict) else None
            for resource_id, resource in resources.items() if isinstance(resources, dict) else ():
                yield _build_xid(group_type, group_id, plural, resource_id), resource


def _build_xid(*parts: str) -> str:
    for part in parts:
        if not part or "/" in part:
            raise PipelineError(f"{part!r} is no id: it is empty or has a slash in it (in {'/'.join(parts)})")
    return "/" + "/".join(parts)


def follow_xref(document: JSONObject, resource: Any) -> Any:
    """Return the target of ``resource`` if it is a cross reference, otherwise ``resource`` (core/spec.md, "xref").

    Only one step is followed. Return None for a dangling cross reference, because a definition without attributes
    would match every message.
    """
    target_xid = find_xref(resource)
    if not target_xid:
        return resource
    target = find_entity(document, target_xid)
    if target is not None and not find_xref(target):
        return target
    # A document in API view repeats the attributes of the target at the cross reference.
    return resource if resource.get("versions") or "versionid" in resource else None


def is_dangling(document: JSONObject, resource: Any) -> bool:
    """Return True if ``resource`` is a cross reference without a usable target in ``document``."""
    return bool(find_xref(resource)) and follow_xref(document, resource) is None


def find_xref(resource: Any) -> str:
    """Return the xid of the target of a cross reference, or "" if ``resource`` is not a cross reference."""
    if not isinstance(resource, dict):
        return ""
    meta = resource.get("meta")
    target = (meta.get("xref") if isinstance(meta, dict) else None) or resource.get("xref")
    return target if isinstance(target, str) else ""


def find_entity(document: JSONObject, xid: str) -> JSONObject | None:
    """Return the entity ``xid`` of ``document``, or None if it does not have it."""
    entity: Any = document
    for part in xid.strip("/").split("/"):
        entity = entity.get(part) if isinstance(entity, dict) else None
    return entity if isinstance(entity, dict) else None


def _is_resource(resource: object) -> bool:
    """Return True if ``resource`` is an object whose ``meta`` and Versions, if any, are objects."""
    if not isinstance(resource, dict) or not isinstance(resource.get("meta") or {}, dict):
        return False
    versions = resource.get("versions") or {}
    return isinstance(versions, dict) and all(isinstance(version, dict) for version in versions.values())


def _find_default(resource: JSONObject) -> tuple[str, JSONObject]:
    """Return the id and attributes of the default Version (spec "Default Version").

    This is the stated Version, or else the newest one.
    """
    versions: Mapping[str, JSONObject] = resource.get("versions") or {}
    if not versions:
        versionid = str(resource.get("versionid") or "1")
        return versionid, {**resource, "versionid": versionid}
    stated = (resource.get("meta") or {}).get("defaultversionid") or resource.get("versionid")
    chosen = str(stated) if stated in versions else max(versions, key=lambda name: _sort_key(name, versions[name]))
    return chosen, {**versions[chosen], "versionid": chosen}


def _sort_key(versionid: str, version: JSONObject) -> tuple[str, int, str]:
    """Return a key that sorts Versions from old to new: by creation time, then by id, numeric ids by value."""
    return str(version.get("createdat") or ""), int(versionid) if versionid.isdecimal() else 0, versionid


def list_groups(document: JSONObject) -> set[str]:
    """Return the xids of all Groups in ``document``."""
    kinds = {kind: groups for kind, groups in document.items() if kind not in _NO_GROUPS and isinstance(groups, dict)}
    return {f"/{kind}/{name}" for kind, groups in kinds.items() for name in groups}


def find_reachable_groups(document: JSONObject, groups: Sequence[str]) -> set[str]:
    """Return ``groups`` and the xids of all message groups that endpoints in ``groups`` refer to (K-10)."""
    reachable = set(groups)
    for group in groups:
        endpoint = find_entity(document, group)
        for reference in endpoint.get("messagegroups") or () if endpoint else ():
            reachable.add(_resolve_reference(str(reference)))
    return reachable


def _resolve_reference(reference: str) -> str:
    """Return the xid of the Group that ``reference`` names: the last two parts of its path."""
    return "/" + "/".join(reference.rstrip("/").split("/")[-2:])


def read_documents(registry: str, *, parts: Parts | None = None) -> list[tuple[str, JSONObject]]:
    """Return names and contents of the registry documents at a URL, in a file or in a folder.

    Unchanged parts of a document from a URL are taken from ``parts`` as the same objects. Raises ``PipelineError``.
    """
    if registry.startswith(URL):
        with Client(registry, timeout=PATIENCE) as client:
            return [(registry, client.export(parts=parts))]
    path = Path(registry)
    if not path.exists():
        registry_name = without_user(registry)
        raise PipelineError(
            f"the definitions {registry_name} are not there: give a registry's URL, a document or a folder"
        )
    sources = read_folder(path) if path.is_dir() else [source_of(path, read_bytes(path))]
    return list(map(build_named_document, sources))


def build_named_document(source: SourceDocument) -> tuple[str, JSONObject]:
    return source.name, build_document(make_upload(source.document))


def is_foreign(registry: str) -> bool:
    """Return True for the URL of a registry that supports only Confluent's API."""
    return registry.startswith(URL_PREFIX)


def _select_attributes(schema: JSONObject) -> JSONObject:
    """Return the attributes of a schema Version that matter for payloads, with ``references`` as xids by name."""
    selected: JSONObject = {
        name: schema[name] for name in ("format", "schema", "schemabase64", "versionid") if name in schema
    }
    references = {name: str(xid) for name, xid in find_reference_targets(schema).items()}
    return {**selected, "references": references} if references else selected


def resolve_xid(reference: str, groups: Sequence[str]) -> str:
    """Return the xid in ``reference``: the part from the first of the Group types ``groups`` on.

    Return ``reference`` unchanged if it contains none of them.
    """
    starts = [start for group in groups if (start := reference.find(group)) >= 0]
    return reference[min(starts) :] if starts else reference


def resolve_message_xid(reference: str) -> str:
    """Return the xid in a reference to a message or message Version, in any form that a registry accepts."""
    path = reference.removeprefix("#").partition("#")[0].partition("?")[0].removesuffix("$details")
    return resolve_xid(unquote(path if "://" in path else f"/{path.removeprefix('/')}"), _MESSAGE_GROUPS)
