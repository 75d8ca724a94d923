"""Update documents of older drafts to current names and structures. This module selects the repairs for each entity.

See docs/documents.md, "Repair old or faulty documents"; core l-1, l-4, l-7, l-18, domain F-56.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

from signalbook.documents.entityrepairs import (
    GROUP_TYPES,
    RepairedObject,
    make_legal_id,
    repair_documentation,
    repair_endpoint,
    repair_message,
    repair_reference,
    repair_schema,
    repair_schema_version,
    repair_selectors,
    repair_timestamps,
)
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.importing import collections, is_model, target_of
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

_SPECVERSION: Final = "1.0-rc4"
_GONE_CAPABILITIES: Final = ("apis", "schemas", "sticky", "mutable")
_FLAGS_GONE: Final = frozenset(
    {"nodefaultversionid", "nodefaultversionsticky", "noepoch", "noreadonly", "offered", "schema", "nested"}
)


def repair_registry(entity: RepairedObject) -> None:
    """Repair the attributes of the Registry, and the names of its collections."""
    stated = entity.body.get("specversion")
    if stated not in (None, _SPECVERSION):
        entity.drop("specversion", f"it was written for {stated}", "rc4")
    repair_documentation(entity)
    for old, new in GROUP_TYPES.items():
        entity.rename(old, new, "I-6")
    capabilities = entity.member("capabilities")
    if capabilities is not None:
        _repair_capabilities(capabilities)


def _repair_capabilities(entity: RepairedObject) -> None:
    for name in _GONE_CAPABILITIES:
        entity.drop(name, "there is no such capability any more", "rc4")
    flags = entity.body.get("flags")
    if isinstance(flags, list):
        entity.change("flags", [flag for flag in flags if flag not in _FLAGS_GONE], "left out flags of old", "rc4")


_GONE_ASPECTS: Final = ("setdefaultversionsticky", "matchcase")
REPAIRED: Final = {"import.source": ", ", "import.repairs": " "}
"""The labels of a repaired entity (its file, and the rules of its repairs), with the separator between values."""
# The documents of a Resource type with this singular would be in ``format``, which Versions use for another purpose.
TAKEN: Final = "format"


def repair_model(entity: RepairedObject) -> None:
    """Repair a model source."""
    for group in _list_type_definitions(entity, "groups"):
        _repair_aspects(group)
        for resource in _list_type_definitions(group, "resources"):
            _repair_aspects(resource)
            if resource.body.get("singular") == TAKEN:
                resource.change("singular", f"{group.body.get('singular', '')}{TAKEN}", f"was {TAKEN}", "rc4")


def _list_type_definitions(entity: RepairedObject, name: str) -> list[RepairedObject]:
    members = entity.member(name)
    return list(members.members()) if members else []


def _repair_aspects(entity: RepairedObject) -> None:
    entity.rename("compatiblewith", "modelcompatiblewith", "F-56")
    for name in _GONE_ASPECTS:
        entity.drop(name, "the model language has it no more", "F-56")


RepairFunction = Callable[[RepairedObject], None]

_SINGULARS: Final = {
    "endpoints": "endpoint",
    "messagegroups": "messagegroup",
    "schemagroups": "schemagroup",
    "messages": "message",
    "schemas": "schema",
    "versions": "version",
}
_GROUP_REPAIRS: Final[dict[str, RepairFunction]] = {"endpoints": repair_endpoint, "messagegroups": repair_selectors}
_RESOURCE_REPAIRS: Final[dict[str, RepairFunction]] = {"messages": repair_message, "schemas": repair_schema}
_VERSION_REPAIRS: Final[dict[str, RepairFunction]] = {"messages": repair_message, "schemas": repair_schema_version}
_MARKERS: Final = frozenset(
    {"definition", "definitiongroup", "endpoint", "message", "messagegroup", "schema", "schemagroup", "schemaversion"}
)


def modernise(document: JSON, *, source: str, text: Sequence[Repair] = ()) -> tuple[JSON, tuple[Repair, ...]]:
    """Return a copy of ``document`` with current names, structures and values, and the repairs that were made.

    Each repaired entity gets the labels ``import.source`` (``source``, the name of a file) and ``import.repairs`` (the
    rules, L-38). If ``text`` has repairs of the text of the document, each Group gets these labels. Only known
    differences to older drafts are repaired.
    """
    log: list[Repair] = []
    if isinstance(document, dict):
        # Do not change the original: callers also use this function to list the repairs without applying them.
        document = copy.deepcopy(document)
        _Walk(log, source, [repair.rule for repair in text]).repair_document(document)
    return document, tuple(log)


class _Walk:
    def __init__(self, log: list[Repair], source: str, everywhere: list[str]) -> None:
        self._log = log
        self._source = source
        self._everywhere = everywhere

    def repair_document(self, document: JSONObject) -> None:
        if is_model(document):
            repair_model(RepairedObject(xid="/", body=document, log=self._log))
            return
        try:
            target = target_of(document)
        except DocumentError:
            return
        # Repairs start at a parent entity, so a collection is put into an otherwise empty parent.
        if target.is_collection:
            item = RepairedObject(xid=str(target.parent), body={target.parts[-1]: document}, log=self._log)
            self._repair_members(item, target.parts[-1], target.parts)
        else:
            self._repair_entity(RepairedObject(xid=str(target), body=document, log=self._log), target)

    def _repair_entity(self, entity: RepairedObject, xid: Xid) -> None:
        if xid.kind is Kind.REGISTRY:
            self._repair_registry(entity)
        elif xid.kind is Kind.GROUP:
            self._repair_group(entity, xid.parts[0])
        elif xid.kind is Kind.RESOURCE:
            self._repair_resource(entity, xid.parts[0], xid.parts[2])
        elif xid.kind is Kind.VERSION:
            self._repair_version(entity, xid.parts[2])

    def _repair_members(self, entity: RepairedObject, collection: str, parts: tuple[str, ...]) -> None:
        self._repair_ids(entity, collection)
        for member in entity.entities(collection):
            if len(parts) == 1:
                self._repair_group(member, collection)
            elif len(parts) == 3:
                self._repair_resource(member, parts[0], collection)
            else:
                self._repair_version(member, parts[2])

    def _repair_registry(self, entity: RepairedObject) -> None:
        repair_registry(entity)
        repair_timestamps(entity)
        source = entity.member("modelsource")
        if source is not None:
            repair_model(source)
        for plural in collections(entity.body):
            self._repair_members(entity, plural, (plural,))

    def _repair_group(self, entity: RepairedObject, plural: str) -> None:
        entity.rules += self._everywhere
        _repair_common(entity, plural)
        if plural in _SINGULARS:
            entity.rename("definitions", "messages", "I-6")
        _GROUP_REPAIRS.get(plural, _repair_nothing)(entity)
        for collection in collections(entity.body):
            _rename_format(entity, plural, collection)
            self._repair_members(entity, collection, (plural, "", collection))
        self._add_labels(entity)

    def _repair_resource(self, entity: RepairedObject, group: str, plural: str) -> None:
        _repair_common(entity, plural)
        _RESOURCE_REPAIRS.get(plural, _repair_nothing)(entity)
        meta = entity.member("meta")
        if meta is not None:
            _repair_meta(meta)
        if isinstance(entity.body.get("versions"), dict):
            self._repair_members(entity, "versions", (group, "", plural, "", "versions"))
        # A Resource with ``xref`` shows the labels of its target, and must not have its own labels.
        if meta is None or "xref" not in meta.body:
            self._add_labels(entity)

    def _repair_version(self, entity: RepairedObject, plural: str) -> None:
        _repair_common(entity, "versions")
        _VERSION_REPAIRS.get(plural, _repair_nothing)(entity)
        self._add_labels(entity)

    def _repair_ids(self, entity: RepairedObject, collection: str) -> None:
        """Rename keys with characters that ids must not have (L-4).

        A key whose new name is already in use is kept. The registry refuses it later.
        """
        members = entity.body[collection]
        for name in [name for name in members if make_legal_id(name) != name]:
            if make_legal_id(name) not in members:
                members[make_legal_id(name)] = members.pop(name)
                entity.report(f"{collection}.{name}", f"renamed to {make_legal_id(name)}", "L-4")

    def _add_labels(self, entity: RepairedObject) -> None:
        if entity.rules and isinstance(entity.body.get("labels", {}), dict):
            # Labels let later readers of an entity see how an import changed it.
            rules = " ".join(sorted(set(entity.rules)))
            entity.body["labels"] = {
                **entity.body.get("labels", {}), "import.source": self._source, "import.repairs": rules
            }  # fmt: skip


def _repair_nothing(_: RepairedObject) -> None:
    """Repair nothing: no repairs are known for this type."""


def _repair_common(entity: RepairedObject, plural: str) -> None:
    """Repair the common parts of an entity: its id's name and value, its xid, its dates."""
    singular = _SINGULARS.get(plural)
    entity_id = entity.xid.rpartition("/")[2]
    if singular is not None:
        if isinstance(entity.body.get("type"), str) and entity.body["type"] in _MARKERS:
            entity.drop("type", "entities do not name their type any more", "I-6")
        entity.rename("id", f"{singular}id", "I-6")
        if f"{singular}id" in entity.body:
            stated = entity.body[f"{singular}id"]
            entity.change(f"{singular}id", entity_id, f"was {stated}, which is not its key", "L-27")
        entity.rename("docs", "documentation", "rc2")
    repair_documentation(entity)
    entity.rename("ancestor", "ancestorid", "F-50")
    if entity.body.get("xid") not in (None, entity.xid):
        entity.drop("xid", f"{entity.body['xid']} is not where it stands", "I-5")
    repair_timestamps(entity)
    deprecated = entity.member("deprecated")
    if deprecated is not None and plural != "endpoints":
        deprecated.rename("docs", "documentation", "H-21")


def _repair_meta(entity: RepairedObject) -> None:
    repair_timestamps(entity)
    repair_reference(entity, "xref")
    entity.drop("validation", "the model says what is validated", "G-10")
    entity.drop("compatibilityauthority", "it is no attribute any more", "rc4")
    if str(entity.body.get("compatibility", "")).lower() == "none":
        entity.drop("compatibility", "its absence says that there is no rule", "rc4")


def _rename_format(group: RepairedObject, plural: str, collection: str) -> None:
    """Rename the attributes of documents that are called ``format``, as ``repair_model`` renames their type."""
    if collection != f"{TAKEN}s":
        return
    items = [item for member in group.entities(collection) for item in (member, *member.entities("versions"))]
    # A value with spaces or base64 is a document. The ``format`` of a Version is a name without spaces.
    if any(f"{TAKEN}base64" in item.body or " " in str(item.body.get(TAKEN, "")) for item in items):
        for item in items:
            for suffix in ("", "base64", "url", "id"):
                item.rename(f"{TAKEN}{suffix}", f"{plural.removesuffix('s')}{TAKEN}{suffix}", "rc4")
