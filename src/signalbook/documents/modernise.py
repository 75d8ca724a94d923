"""Documents of older drafts with the names and shapes of today: which repairs are tried where, and those of models.

See docs/documents.md, "Repairs"; core l-1, l-4, l-7, l-18, domain F-56.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

from signalbook.documents.entityrepairs import (
    GROUP_TYPES,
    Page,
    legal_id,
    mend_endpoint,
    mend_message,
    mend_reference,
    mend_schema,
    mend_schema_version,
    mend_selectors,
    mend_timestamps,
)
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.uploads import collections, is_model, target_of
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

_SPECVERSION: Final = "1.0-rc4"
_GONE_CAPABILITIES: Final = ("apis", "schemas", "sticky", "mutable")
_FLAGS_GONE: Final = frozenset(
    {"nodefaultversionid", "nodefaultversionsticky", "noepoch", "noreadonly", "offered", "schema", "nested"}
)


def mend_registry(page: Page) -> None:
    """The Registry's own attributes, and the names of its collections."""
    stated = page.body.get("specversion")
    if stated not in (None, _SPECVERSION):
        page.drop("specversion", f"it was written for {stated}", "rc4")
    for old, new in GROUP_TYPES.items():
        page.rename(old, new, "I-6")
    capabilities = page.member("capabilities")
    if capabilities is not None:
        _capabilities(capabilities)


def _capabilities(page: Page) -> None:
    for name in _GONE_CAPABILITIES:
        page.drop(name, "there is no such capability any more", "rc4")
    flags = page.body.get("flags")
    if isinstance(flags, list):
        page.change("flags", [flag for flag in flags if flag not in _FLAGS_GONE], "left out flags of old", "rc4")


_GONE_ASPECTS: Final = ("setdefaultversionsticky", "matchcase")
# A Resource type with this singular has a document in an attribute that every Version has for something else.
TAKEN: Final = "format"


def mend_model(page: Page) -> None:
    """A model source."""
    for group in _type_definitions(page, "groups"):
        _aspects(group)
        for resource in _type_definitions(group, "resources"):
            _aspects(resource)
            if resource.body.get("singular") == TAKEN:
                resource.change("singular", f"{group.body.get('singular', '')}{TAKEN}", f"was {TAKEN}", "rc4")


def _type_definitions(page: Page, name: str) -> list[Page]:
    members = page.member(name)
    return list(members.members()) if members else []


def _aspects(page: Page) -> None:
    page.rename("compatiblewith", "modelcompatiblewith", "F-56")
    for name in _GONE_ASPECTS:
        page.drop(name, "the model language has it no more", "F-56")


Mend = Callable[[Page], None]

_SINGULARS: Final = {
    "endpoints": "endpoint",
    "messagegroups": "messagegroup",
    "schemagroups": "schemagroup",
    "messages": "message",
    "schemas": "schema",
    "versions": "version",
}
_GROUPS: Final[dict[str, Mend]] = {"endpoints": mend_endpoint, "messagegroups": mend_selectors}
_RESOURCES: Final[dict[str, Mend]] = {"messages": mend_message, "schemas": mend_schema}
_VERSIONS: Final[dict[str, Mend]] = {"messages": mend_message, "schemas": mend_schema_version}
_MARKERS: Final = frozenset(
    {"definition", "definitiongroup", "endpoint", "message", "messagegroup", "schema", "schemagroup", "schemaversion"}
)


def modernise(document: JSON, *, source: str, text: Sequence[Repair] = ()) -> tuple[JSON, tuple[Repair, ...]]:
    """A copy of ``document`` in today's names, shapes and values, and what that took.

    Each repaired entity has the labels ``import.source`` (``source``, a file's name) and ``import.repairs`` (the rules,
    L-38); so has each Group of a document whose ``text`` was repaired. What is sound is not touched, and what is not
    known to be a slip of old neither.
    """
    log: list[Repair] = []
    if isinstance(document, dict):
        document = copy.deepcopy(document)
        _Walk(log, source, [repair.rule for repair in text]).document(document)
    return document, tuple(log)


class _Walk:
    def __init__(self, log: list[Repair], source: str, everywhere: list[str]) -> None:
        self._log = log
        self._source = source
        self._everywhere = everywhere

    def document(self, document: JSONObject) -> None:
        if is_model(document):
            mend_model(Page(xid="/", body=document, log=self._log))
            return
        try:
            target = target_of(document)
        except DocumentError:
            return
        if target.is_collection:
            page = Page(xid=str(target.parent), body={target.parts[-1]: document}, log=self._log)
            self._members(page, target.parts[-1], target.parts)
        else:
            self._entity(Page(xid=str(target), body=document, log=self._log), target)

    def _entity(self, page: Page, xid: Xid) -> None:
        if xid.kind is Kind.REGISTRY:
            self._registry(page)
        elif xid.kind is Kind.GROUP:
            self._group(page, xid.parts[0])
        elif xid.kind is Kind.RESOURCE:
            self._resource(page, xid.parts[0], xid.parts[2])
        elif xid.kind is Kind.VERSION:
            self._version(page, xid.parts[2])

    def _members(self, page: Page, collection: str, parts: tuple[str, ...]) -> None:
        self._ids(page, collection)
        for member in page.entities(collection):
            if len(parts) == 1:
                self._group(member, collection)
            elif len(parts) == 3:
                self._resource(member, parts[0], collection)
            else:
                self._version(member, parts[2])

    def _registry(self, page: Page) -> None:
        mend_registry(page)
        mend_timestamps(page)
        source = page.member("modelsource")
        if source is not None:
            mend_model(source)
        for plural in collections(page.body):
            self._members(page, plural, (plural,))

    def _group(self, page: Page, plural: str) -> None:
        page.rules += self._everywhere
        _repair_common(page, plural)
        if plural in _SINGULARS:
            page.rename("definitions", "messages", "I-6")
        _GROUPS.get(plural, _nothing)(page)
        for collection in collections(page.body):
            _rename_format(page, plural, collection)
            self._members(page, collection, (plural, "", collection))
        self._label(page)

    def _resource(self, page: Page, group: str, plural: str) -> None:
        _repair_common(page, plural)
        _RESOURCES.get(plural, _nothing)(page)
        meta = page.member("meta")
        if meta is not None:
            _repair_meta(meta)
        if isinstance(page.body.get("versions"), dict):
            self._members(page, "versions", (group, "", plural, "", "versions"))
        if meta is None or "xref" not in meta.body:
            self._label(page)

    def _version(self, page: Page, plural: str) -> None:
        _repair_common(page, "versions")
        _VERSIONS.get(plural, _nothing)(page)
        self._label(page)

    def _ids(self, page: Page, collection: str) -> None:
        """Keys with characters that no id has (L-4); a key that would take another's place stays, and is refused."""
        members = page.body[collection]
        for name in [name for name in members if legal_id(name) != name]:
            if legal_id(name) not in members:
                members[legal_id(name)] = members.pop(name)
                page.told(f"{collection}.{name}", f"renamed to {legal_id(name)}", "L-4")

    def _label(self, page: Page) -> None:
        if page.rules and isinstance(page.body.get("labels", {}), dict):
            rules = " ".join(sorted(set(page.rules)))
            page.body["labels"] = {
                **page.body.get("labels", {}), "import.source": self._source, "import.repairs": rules
            }  # fmt: skip


def _nothing(_: Page) -> None:
    """No repairs are known for this type."""


def _repair_common(page: Page, plural: str) -> None:
    """What every entity has: its id under the right name and equal to its key, its xid, its dates."""
    singular = _SINGULARS.get(plural)
    own = page.xid.rpartition("/")[2]
    if singular is not None:
        if isinstance(page.body.get("type"), str) and page.body["type"] in _MARKERS:
            page.drop("type", "entities do not name their type any more", "I-6")
        page.rename("id", f"{singular}id", "I-6")
        if f"{singular}id" in page.body:
            stated = page.body[f"{singular}id"]
            page.change(f"{singular}id", own, f"was {stated}, which is not its key", "L-27")
        page.rename("docs", "documentation", "rc2")
    page.rename("ancestor", "ancestorid", "F-50")
    if page.body.get("xid") not in (None, page.xid):
        page.drop("xid", f"{page.body['xid']} is not where it stands", "I-5")
    mend_timestamps(page)
    deprecated = page.member("deprecated")
    if deprecated is not None and plural != "endpoints":
        deprecated.rename("docs", "documentation", "H-21")


def _repair_meta(page: Page) -> None:
    mend_timestamps(page)
    mend_reference(page, "xref")
    page.drop("validation", "the model says what is validated", "G-10")
    page.drop("compatibilityauthority", "it is no attribute any more", "rc4")
    if str(page.body.get("compatibility", "")).lower() == "none":
        page.drop("compatibility", "no rule is told by its absence", "rc4")


def _rename_format(group: Page, plural: str, collection: str) -> None:
    """Documents in an attribute ``format``, which every Version has for something else, as ``mend_model`` names it."""
    if collection != f"{TAKEN}s":
        return
    pages = [page for member in group.entities(collection) for page in (member, *member.entities("versions"))]
    if any(f"{TAKEN}base64" in page.body or " " in str(page.body.get(TAKEN, "")) for page in pages):
        for page in pages:
            for suffix in ("", "base64", "url", "id"):
                page.rename(f"{TAKEN}{suffix}", f"{plural.removesuffix('s')}{TAKEN}{suffix}", "rc4")
