"""What a registry document says of messages and schemas: the default Version of every message, all Versions of schemas.

Documents come as the API exports them, or as people write them: with ``versions`` or with the Version's attributes on
the Resource itself (core/spec.md "Doc Flag").
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from signalbook.documents import Upload
from signalbook.messages.payloads import wireprefix
from signalbook.pipeline.failures import PipelineError
from signalbook.values import JSONObject, dump_json

_NO_GROUPS: Final = frozenset({"capabilities", "labels", "model", "modelsource"})
_MESSAGES: Final = "messages"
_SCHEMAS: Final = "schemas"


def whole(upload: Upload) -> JSONObject:
    """A document about a part of a registry as one about the registry."""
    document: Any = upload.body
    for part in reversed(upload.target.parts):
        document = {part: document}
    return dict(document)


def messages_of(document: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    """Each message's xid and its default Version. Raises ``PipelineError`` for one that is no definition."""
    for xid, resource in _resources(document, _MESSAGES):
        yield xid, _default(xid, _followed(document, resource))[1]


def schemas_of(document: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    """Each schema Version's xid and attributes, and under the Resource's xid which Version is the default one.

    Which one wire prefixes mean by a number is there under that number, too.
    """
    for xid, resource in _resources(document, _SCHEMAS):
        resource = _followed(document, resource)
        versionid, default = _default(xid, resource)
        versions = resource.get("versions") or {versionid: default}
        yield xid, {"versionid": versionid}
        for name, version in versions.items():
            if isinstance(version, dict):
                yield f"{xid}/versions/{name}", {**version, "versionid": name}
                labels = version.get("labels")
                number = labels.get(wireprefix.LABEL) if isinstance(labels, dict) else None
                if number is not None:
                    yield wireprefix.reference(xid, number), {"versionid": name}


def version_of(document: JSONObject, xid: str) -> JSONObject | None:
    """The attributes of a Version, if it is one of a message or schema here."""
    resource_xid, _, versionid = xid.partition("/versions/")
    parts = resource_xid.strip("/").split("/")
    resource = _entity(document, resource_xid)
    if resource is None or len(parts) != 4 or parts[2] not in (_MESSAGES, _SCHEMAS) or not versionid:
        return None
    resource = _followed(document, resource)
    found = (resource.get("versions") or dict([_default(resource_xid, resource)])).get(versionid)
    return {**found, "versionid": versionid} if isinstance(found, dict) else None


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


def _resources(document: JSONObject, plural: str) -> Iterator[tuple[str, JSONObject]]:
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


def _followed(document: JSONObject, resource: JSONObject) -> JSONObject:
    """The Resource that one with an ``xref`` stands for, one step as core/spec.md "xref" has it."""
    target = (resource.get("meta") or {}).get("xref") or resource.get("xref")
    if not isinstance(target, str):
        return resource
    return _entity(document, target) or resource


def _entity(document: JSONObject, xid: str) -> JSONObject | None:
    found: Any = document
    for part in xid.strip("/").split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _default(xid: str, resource: JSONObject) -> tuple[str, JSONObject]:
    """Id and attributes of the default Version: the one named, else the newest (core/spec.md "Default Version")."""
    if not isinstance(resource, dict):
        raise PipelineError(f"{xid}: not an object")
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


def reach(document: JSONObject, groups: Sequence[str]) -> set[str]:
    """The xids of ``groups``, and of every message group an endpoint among them refers to (domain.md K-10)."""
    found = set(groups)
    for group in groups:
        endpoint = _entity(document, group)
        for reference in endpoint.get("messagegroups") or () if endpoint else ():
            found.add(_local(str(reference)))
    return found


def _local(reference: str) -> str:
    """A reference to a Group as an xid: fragments and URLs name it by their last two parts."""
    return "/" + "/".join(reference.rstrip("/").split("/")[-2:])
