"""Merge one Resource of a source into the target: what to write, to delete, and to leave unchanged with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from signalbook.replication.comparing import ComparedResource, build_difference, has_all, is_same
from signalbook.replication.link import Link, is_owned_by, read_origins
from signalbook.replication.report import CopyOutcome, CopyReport
from signalbook.replication.writing import Part
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

SLICE: Final = 500
"""The number of Versions in one write."""

Pair = tuple[str, JSONObject | None, JSONObject | None]
"""A Version's id, and its attributes at the source and at the target. None means that it is absent."""


@dataclass(slots=True, kw_only=True)
class Merge:
    """The merge of one Resource: ``source`` and ``target``, which is None if the target does not have it.

    ``held`` means that the source may not change it. ``named`` means that the target's model lets Versions state their
    URIs, ``ruled`` that Resources can have a compatibility rule. After ``parts`` has been consumed, ``gone`` has the
    Versions to delete. ``again`` is then True if ancestors were left out because they did not exist yet. If ``settled``
    is True, all ancestors exist, and none is left out.
    """

    xid: Xid
    there: Xid
    link: Link
    report: CopyReport
    source: ComparedResource
    target: ComparedResource | None
    singular: str
    held: bool
    named: bool
    ruled: bool
    settled: bool = False
    gone: list[str] = field(default_factory=list)
    again: bool = False
    _whole: bool = True
    _passed: set[str] = field(default_factory=set)

    def parts(self, pairs: Iterator[Pair]) -> Iterator[Part]:
        """Yield the parts to write. ``pairs`` are the Versions to compare, sorted by id."""
        admitted, following = False, list(islice(pairs, SLICE))
        # One slice is read ahead: the meta, which may name any Version as the default, goes with the last one.
        while following:
            current, following = following, list(islice(pairs, SLICE))
            versions, outcomes = self._slice(current, more=bool(following))
            admitted = admitted or self._is_admitted(current)
            meta = {} if following else self._build_meta(admitted)
            if versions or meta:
                yield self._build_part(versions, meta, outcomes)

    def reference(self) -> Iterator[Part]:
        """Yield the part to write for a cross reference, which is a Resource without Versions."""
        meta, target_meta = self._translate_meta(), self._read_target_meta()
        if self.target is not None and is_same(target_meta, meta):
            self.report.count(CopyOutcome.UNCHANGED, Kind.RESOURCE)
        elif self.target is not None and self.held:
            self._refuse()
        else:
            body = build_difference(meta, target_meta)
            outcome = CopyOutcome.CREATED if self.target is None else CopyOutcome.UPDATED
            yield Part(xid=self.there, source=self.xid, body={"meta": body}, outcomes=((outcome, Kind.RESOURCE, 1),))

    def _slice(self, pairs: Sequence[Pair], *, more: bool) -> tuple[JSONObject, list[CopyOutcome]]:
        versions: JSONObject = {}
        outcomes = []
        for name, ours, theirs in pairs:
            if ours is None:
                self._note_target_only(name, theirs)
                continue
            outcome, body = self._merge_version(name, ours, theirs)
            if body is not None:
                versions[name] = self._defer_ancestor(name, body, pairs[-1][0]) if more and theirs is None else body
            if outcome is not None:
                outcomes.append(outcome)
        return versions, outcomes

    def _note_target_only(self, name: str, theirs: JSONObject | None) -> None:
        """Handle a Version that only the target has: it is deleted if it came from the source."""
        if theirs is not None and is_owned_by(theirs, self.link.source):
            self.gone.append(name)
        else:
            self._whole = False

    def _merge_version(
        self, name: str, ours: JSONObject, theirs: JSONObject | None
    ) -> tuple[CopyOutcome | None, JSONObject | None]:
        """Return the outcome for a Version of the source and the body to write.

        Both are None if nothing is to be written.
        """
        if reason := self.link.returns(ours):
            self._pass(reason, refused=False)
            return None, None
        if reason := self.link.bars(ours, self.xid):
            self._pass(reason, refused=True)
            return None, None
        copied = self.link.copy(ours, self.xid / "versions" / name, named=self.named)
        if theirs is None:
            return (None, None) if self._is_held() else (CopyOutcome.CREATED, copied)
        # An equal Version without an origin was written by hand. It stays the target's own.
        by_hand = not read_origins(theirs) and self._is_same(ours, theirs)
        if by_hand or (self._is_same(copied, theirs) and not self._is_taken_over(theirs)):
            self.report.count(CopyOutcome.UNCHANGED, Kind.VERSION)
            return None, None
        if not is_owned_by(theirs, self.link.source):
            self._refuse(of=read_origins(theirs))
            return None, None
        return CopyOutcome.UPDATED, build_difference(copied, theirs, self.singular, partial=self.link.partial)

    def _is_same(self, version: JSONObject, theirs: JSONObject) -> bool:
        return has_all(theirs, version) if self.link.partial else is_same(version, theirs)

    def _is_taken_over(self, theirs: JSONObject) -> bool:
        """Return True if a copy that came another way now comes from its origin."""
        passed = read_origins(theirs)
        return len(passed) > 1 and passed[-1] == self.link.source

    def _defer_ancestor(self, name: str, body: JSONObject, last: str) -> JSONObject:
        """Return ``body`` without its ancestor if that is written later. Until then the Version is a root."""
        if self.settled or str(body.get("ancestorid", "")).lower() <= last.lower():
            return body
        self.again = True
        return {**body, "ancestorid": name}

    def _build_meta(self, admitted: bool) -> JSONObject:
        """Return the meta to write. ``admitted`` means that the target may have a Version of the source."""
        # The meta concerns all Versions. If some of them are the target's own, it is not changed.
        if not admitted or self.held or not self._whole or self.source.meta is None:
            return {}
        return build_difference(self._translate_meta(), self._read_target_meta())

    def _translate_meta(self) -> JSONObject:
        meta = self.link.scope.translate(self.source.meta or {})
        assert isinstance(meta, dict)
        return meta

    def _read_target_meta(self) -> JSONObject:
        return (self.target.meta if self.target is not None else None) or {}

    def _build_part(self, versions: JSONObject, meta: JSONObject, outcomes: Sequence[CopyOutcome]) -> Part:
        counted = [(outcome, Kind.VERSION, outcomes.count(outcome)) for outcome in dict.fromkeys(outcomes)]
        whole = CopyOutcome.CREATED if self.target is None else CopyOutcome.UPDATED
        # A copy has the compatibility rule of the source, or none. The target's default is only for its own schemas.
        if self.target is None and self.ruled:
            meta = {"compatibility": None, **meta}
        body = {**({"meta": meta} if meta else {}), **({"versions": versions} if versions else {})}
        return Part(xid=self.there, source=self.xid, body=body, outcomes=((whole, Kind.RESOURCE, 1), *counted))

    def _is_admitted(self, pairs: Sequence[Pair]) -> bool:
        return any(
            ours is not None and not self.link.returns(ours) and not self.link.bars(ours, self.xid)
            for _, ours, _ in pairs
        )

    def _is_held(self) -> bool:
        if self.held:
            self._refuse()
        return self.held

    def _refuse(self, of: Sequence[str] = ()) -> None:
        whose = f"one that came from {of[0]}" if of else "one of its own"
        self._pass(
            f"the target has {whose} at {self.there} that is different: rename the group to have both", refused=True
        )

    def _pass(self, reason: str, *, refused: bool) -> None:
        """Report a ``reason`` once for the Resource."""
        if reason not in self._passed:
            self._passed.add(reason)
            (self.report.refuse if refused else self.report.skip)(self.xid, reason)
