"""What a document is about, and the one request that brings it into a registry without touching anything else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from signalbook.documents.faults import DocumentError
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Xid, XidError

_MODEL_KEYS: Final = frozenset({"$schema", "attributes", "description", "documentation", "groups", "icon", "labels"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A document as the body of a PATCH on ``target`` (an entity or a collection).

    PATCH creates and changes what it names and leaves the rest alone (R50, R144). ``ignore`` is the flag of that name:
    epochs are those of another day, and the id is that of another registry.
    """

    target: Xid
    body: JSONObject
    ignore: tuple[str, ...] = ("epoch",)


def aim(document: JSON, *, to: Xid | None = None) -> Upload:
    """Where ``document`` belongs; ``to`` says it, else the document itself.

    By its own words it is a registry's, a Group's, a Resource's, a Version's or a collection's (as exported: their
    ``xid`` tells), a model source, or, without any of these signs, a map of Groups. Raises ``DocumentError``.
    """
    if not isinstance(document, dict):
        raise DocumentError("a registry document is a JSON object")
    if to is not None:
        return Upload(target=to, body=_without_identity(document, to))
    if is_model(document):
        return Upload(target=ROOT, body={"modelsource": document})
    target = target_of(document)
    if target == ROOT and "registryid" in document:
        return Upload(target=ROOT, body=document, ignore=("epoch", "id"))
    return Upload(target=target, body=document)


def extend_model(upload: Upload, current: JSONObject) -> Upload:
    """``upload`` with a ``modelsource`` that keeps the Group types and attributes of ``current`` it does not name.

    Sent as it is, it would take the place of the registry's whole model. Left out if it changes nothing.
    """
    given = upload.body["modelsource"]
    if not isinstance(given, dict):
        return upload
    wanted = {**current, **given}
    for name in ("groups", "attributes"):
        if isinstance(given.get(name), dict) and isinstance(current.get(name), dict):
            wanted[name] = {**current[name], **given[name]}
    body = {name: value for name, value in upload.body.items() if name != "modelsource"}
    return replace(upload, body=body if wanted == current else {"modelsource": wanted, **body})


def _without_identity(document: JSONObject, to: Xid) -> JSONObject:
    """``document`` under another name: its ids go. Raises ``DocumentError`` if it is no such thing as ``to``."""
    own = target_of(document)
    if own != ROOT and own.kind is not to.kind:
        raise DocumentError(f"it is a {own.kind} ({own}) and cannot become {to}, a {to.kind}")
    names = {"xid", "self", "shortself"}
    if own != ROOT and not own.is_collection:
        names |= {name for name, value in document.items() if name.endswith("id") and value == own.id}
    return {name: value for name, value in document.items() if name not in names}


def is_model(document: JSONObject) -> bool:
    """Whether ``document`` is a model source, and no entity."""
    groups = document.get("groups")
    return (
        document.keys() <= _MODEL_KEYS
        and isinstance(groups, dict)
        and all(isinstance(group, dict) and group.keys() & {"singular", "resources"} for group in groups.values())
    )


def target_of(document: JSONObject) -> Xid:
    """The entity or collection that ``document`` is, by its own words; the Registry without any."""
    if isinstance(document.get("xid"), str):
        return _parse(document["xid"])
    members = [value.get("xid") if isinstance(value, dict) else None for value in document.values()]
    xids = [_parse(xid) for xid in members if isinstance(xid, str)]
    parents = {xid.parent for xid in xids}
    if len(xids) == len(members) and len(parents) == 1 and (parent := parents.pop()).is_collection:
        return parent
    return ROOT


def _parse(text: str) -> Xid:
    try:
        return Xid.parse(text)
    except XidError as error:
        raise DocumentError(f"its xid {text!r} is none: {error}") from None
