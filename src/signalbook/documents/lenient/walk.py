"""From the top of a document to its last Version: which repairs are tried where."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

from signalbook.documents.aiming import is_model, target_of
from signalbook.documents.entities import collections
from signalbook.documents.faults import DocumentError
from signalbook.documents.lenient.messages import mend_endpoint, mend_message, mend_reference, mend_selectors
from signalbook.documents.lenient.models import TAKEN, mend_model
from signalbook.documents.lenient.page import Page
from signalbook.documents.lenient.references import legal_id
from signalbook.documents.lenient.registries import mend_registry
from signalbook.documents.lenient.schemas import mend_schema, mend_schema_version
from signalbook.documents.lenient.values import mend_timestamps
from signalbook.documents.repairs import Repair
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

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
        _common(page, plural)
        if plural in _SINGULARS:
            page.rename("definitions", "messages", "I-6")
        _GROUPS.get(plural, _nothing)(page)
        for collection in collections(page.body):
            _free_format(page, plural, collection)
            self._members(page, collection, (plural, "", collection))
        self._label(page)

    def _resource(self, page: Page, group: str, plural: str) -> None:
        _common(page, plural)
        _RESOURCES.get(plural, _nothing)(page)
        meta = page.member("meta")
        if meta is not None:
            _meta(meta)
        if isinstance(page.body.get("versions"), dict):
            self._members(page, "versions", (group, "", plural, "", "versions"))
        if meta is None or "xref" not in meta.body:
            self._label(page)

    def _version(self, page: Page, plural: str) -> None:
        _common(page, "versions")
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


def _common(page: Page, plural: str) -> None:
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


def _meta(page: Page) -> None:
    mend_timestamps(page)
    mend_reference(page, "xref")
    page.drop("validation", "the model says what is validated", "G-10")
    page.drop("compatibilityauthority", "it is no attribute any more", "rc4")
    if str(page.body.get("compatibility", "")).lower() == "none":
        page.drop("compatibility", "no rule is told by its absence", "rc4")


def _free_format(group: Page, plural: str, collection: str) -> None:
    """Documents in an attribute ``format``, which every Version has for something else, as ``mend_model`` names it."""
    if collection != f"{TAKEN}s":
        return
    pages = [page for member in group.entities(collection) for page in (member, *member.entities("versions"))]
    if any(f"{TAKEN}base64" in page.body or " " in str(page.body.get(TAKEN, "")) for page in pages):
        for page in pages:
            for suffix in ("", "base64", "url", "id"):
                page.rename(f"{TAKEN}{suffix}", f"{plural.removesuffix('s')}{TAKEN}{suffix}", "rc4")
