"""What an import has to do: a document against what is there already.

PATCH touches every entity it names, and new epochs and events tell of it; so what says nothing new is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from signalbook.documents.aiming import Upload
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

Find = Callable[[Xid], JSONObject | None]
Collections = Callable[[Xid], Iterable[str]]

# What the server sets, or says in other words too.
_SERVER: Final = frozenset(
    {"self", "shortself", "xid", "epoch", "modifiedat", "isdefault", "metaurl", "versionsurl", "versionscount"}
    | {"defaultversionurl", "formatvalidated", "formatvalidatedreason", "compatibilityvalidated", "$schema"}
    | {"compatibilityvalidatedreason", "specversion", "registryid", "model", "meta", "versions"}
)


@dataclass(slots=True, kw_only=True)
class Work:
    """What is left of a document: ``upload``, None if nothing is, and what it will do to which entities."""

    upload: Upload | None = None
    created: list[Xid] = field(default_factory=list)
    changed: list[Xid] = field(default_factory=list)
    unchanged: list[Xid] = field(default_factory=list)


def compare(upload: Upload, find: Find, collections: Collections) -> Work:
    """What ``upload`` has to say that is new.

    ``find`` gives an entity in document view with all beneath it, None where there is none (of the Registry its own
    attributes are enough); ``collections`` the names of the collections an entity has by the model.
    """
    comparison = _Comparison(find, collections)
    target = upload.target
    if target.is_collection:
        body: JSONObject | None = comparison.members(target, upload.body, None)
    else:
        body = comparison.entity(target, upload.body, find(target))
    comparison.work.upload = None if body is None else replace(upload, body=body)
    return comparison.work


def attributes(tree: JSONObject, xid: Xid, collections: Collections) -> dict[Xid, JSONObject]:
    """The own attributes of every entity in ``tree``, which is at ``xid``, without what the server sets."""
    own = {xid: _own(tree, xid, tuple(collections(xid)))}
    for plural in collections(xid):
        for name, member in (tree.get(plural) or {}).items():
            own |= attributes(member, xid / plural / name, collections)
    return own


class _Comparison:
    def __init__(self, find: Find, collections: Collections) -> None:
        self.work = Work()
        self._find = find
        self._collections = collections

    def entity(self, xid: Xid, given: JSONObject, current: JSONObject | None) -> JSONObject | None:
        """What of ``given`` is new."""
        if current is None:
            self._created(xid, given)
            return given
        plurals = tuple(self._collections(xid))
        there = _own(_effective(given, current), xid, plurals)
        wanted = _own(given, xid, plurals)
        news: JSONObject = {name: given[name] for name in wanted if name != "meta" and wanted[name] != there.get(name)}
        if "meta" in wanted and _meta_differs(wanted["meta"], there.get("meta")):
            news["meta"] = given["meta"]
        if wanted or xid.kind is not Kind.REGISTRY:  # a document of Groups says nothing of the Registry
            (self.work.changed if news else self.work.unchanged).append(xid)
        for plural in plurals:
            members = self.members(xid / plural, given.get(plural), current.get(plural) or {})
            news |= {plural: members} if members else {}
        return news or None

    def members(self, collection: Xid, given: JSON, current: JSONObject | None) -> JSONObject | None:
        """What of a collection is new; ``current`` None asks for each member, and so do the Registry's Groups."""
        if not isinstance(given, dict):
            refused: JSONObject | None = given  # by the registry, in its words
            return refused
        news = {}
        for name, body in given.items():
            news[name] = body
            if isinstance(body, dict):
                xid = collection / name
                known = self._find(xid) if current is None or xid.kind is Kind.GROUP else current.get(name)
                news[name] = self.entity(xid, body, known)
        return {name: body for name, body in news.items() if body is not None} or None

    def _created(self, xid: Xid, given: JSONObject) -> None:
        self.work.created.append(xid)
        for plural in self._collections(xid):
            members = given.get(plural)
            for name, body in members.items() if isinstance(members, dict) else ():
                if isinstance(body, dict):
                    self._created(xid / plural / name, body)


def _effective(given: JSONObject, current: JSONObject) -> JSONObject:
    """``current`` with the attributes that a Resource shows of its default Version, or of the one ``given`` names."""
    versions = current.get("versions") or {}
    default = (current.get("meta") or {}).get("defaultversionid")
    shown = versions.get(given.get("versionid", default))
    return {**shown, **current} if shown else current


def _own(body: JSONObject, xid: Xid, plurals: tuple[str, ...]) -> JSONObject:
    derived = {f"{plural}{suffix}" for plural in plurals for suffix in ("", "url", "count")}
    own = {name: value for name, value in body.items() if name not in _SERVER and name not in derived}
    if xid.kind is Kind.RESOURCE and isinstance(body.get("meta"), dict):
        own["meta"] = _own(body["meta"], xid, ())
    return own


def _meta_differs(given: JSONObject, current: JSONObject | None) -> bool:
    there = current or {}
    return any(value != there.get(name) for name, value in given.items())
