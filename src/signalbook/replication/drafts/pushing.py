"""Copies into a registry that speaks a draft: versions are looked up by URI, and added where they are not (D-6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.client import Refused
from signalbook.cncf.paths import draft_id, entity_id, message_path, schema_path
from signalbook.cncf.uris import compose
from signalbook.replication import walking
from signalbook.replication.drafts.base import Draft
from signalbook.replication.entities import Resource, Types, group
from signalbook.replication.hints import Hints
from signalbook.replication.link import Link, within
from signalbook.replication.registry import Refusal, Source
from signalbook.replication.report import Outcome, Report
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

_PATHS: Final = {"schemas": schema_path, "messages": message_path}


class Push:
    """Copies what a draft has words for from ``source`` to ``target``. As ``copying.Copy``, but that URIs tell what
    is there: numbers of versions are the target's own."""

    def __init__(self, source: Source, target: Draft, link: Link, report: Report) -> None:
        self._source = source
        self._target = target
        self._link = link
        self._report = report
        self._types = Types(source.model())
        self._groups = ROOT / target.kinds[0]
        self._kind = target.kinds[1]

    def everything(self) -> None:
        """As ``Copy.everything``. A Group stays at the target, though nothing of it may be left."""
        if not self._link.scope.reaches(self._groups) or self._groups.group_type not in self._types.groups():
            return
        for name, shown in self._source.members(self._groups, deep=False):
            if self._link.scope.reaches(self._groups / name):
                self._group(self._groups / name, shown)
        for there in self._known_groups():
            here = self._link.scope.here(there)
            if here is not None and self._link.scope.reaches(here) and self._source.find(here, deep=False) is None:
                self._rest(here, there, set())

    def changed(self, hints: Hints) -> None:
        """As ``Copy.changed``."""
        for collection, members in hints.resources.items():
            if collection.group_type == self._groups.group_type and collection.resource_type == self._kind:
                for name in sorted(members):
                    if self._link.scope.holds(collection / name):
                        self._one(collection / name)

    def _known_groups(self) -> Iterator[Xid]:
        return (self._groups / name for name in map(entity_id, self._target.groups()))

    def _group(self, xid: Xid, shown: JSONObject) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            self._report.refuse(xid, "another group was renamed to its name")
            return
        self._ensure(xid, there, shown)
        seen: set[str] = set()
        for name, resource in walking.resources(self._source, xid / self._kind, self._types):
            if self._link.scope.holds(xid / self._kind / name):
                seen.add(name)
                self._resource(xid / self._kind / name, there / self._kind / name, resource)
        self._rest(xid, there, seen)

    def _ensure(self, xid: Xid, there: Xid, shown: JSONObject) -> None:
        """A Group at the target: made if it is not there, and else left as it is."""
        if self._target.group(draft_id(there.id)) is not None:
            return
        try:
            self._target.put_group(draft_id(there.id), group(shown, xid, self._types))
            self._report.count(Outcome.CREATED, Kind.GROUP)
        except Refused as error:
            self._report.refuse(xid, str(error))

    def _one(self, xid: Xid) -> None:
        there = self._link.scope.there(xid)
        if there is None:
            return
        found = walking.found(self._source, xid, self._types)
        if found is not None:
            shown = self._source.find(Xid(xid.parts[:2]), deep=False)
            self._ensure(Xid(xid.parts[:2]), Xid(there.parts[:2]), shown or {})
            self._resource(xid, there, found)
        else:
            self._prune(there, set())

    def _resource(self, xid: Xid, there: Xid, known: Resource) -> None:
        uris: set[str] = set()
        for name, version in sorted(walking.versions(self._source, xid, known, self._types), key=_age):
            copied = self._link.copy(version, xid / "versions" / name, named=True)
            uris.add(str(copied["globaluri"]))
            self._version(xid / "versions" / name, there, version, copied)
        self._prune(there, uris)

    def _version(self, xid: Xid, there: Xid, version: JSONObject, copied: JSONObject) -> None:
        if reason := self._link.returns(version):
            self._report.skip(xid, reason)
        elif reason := self._link.bars(version, xid):
            self._report.refuse(xid, reason)
        elif self._target.holds(str(copied["globaluri"])):
            self._report.count(Outcome.UNCHANGED, Kind.VERSION)
        else:
            try:
                self._target.post(draft_id(there.group_id), draft_id(there.resource_id), copied)
                self._report.count(Outcome.CREATED, Kind.VERSION)
            except (Refused, Refusal) as error:
                self._report.refuse(xid, str(error))

    def _rest(self, xid: Xid, there: Xid, seen: set[str]) -> None:
        """What the target has in a Group beside those ``seen``."""
        for name in map(entity_id, self._target.members(draft_id(there.id))):
            if name not in seen and self._link.scope.holds(xid / self._kind / name):
                self._prune(there / self._kind / name, set())

    def _prune(self, there: Xid, uris: set[str]) -> None:
        """Delete versions under the source's authority that it does not have (D-9)."""
        group, member = draft_id(there.group_id), draft_id(there.resource_id)
        for number, version in list(self._target.versions(group, member)):
            path = str(_PATHS[self._kind](there / "versions" / str(number)))
            named = str(version.get("globaluri") or path)
            uri = compose(str(version.get("authority") or ""), named, self._target.url)
            if uri not in uris and within(uri, self._link.base(self._kind)):
                self._target.delete(group, member, number)
                self._report.count(Outcome.DELETED, Kind.VERSION)


def _age(version: tuple[str, JSONObject]) -> tuple[int, str, str]:
    """In which order Versions came: by number, by time."""
    name, attributes = version
    return (int(name) if name.isdigit() else 0, str(attributes.get("createdat", "")), name)
