"""Write copies, many in one request. If the target rejects some, the others are still written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import groupby
from typing import Final

from signalbook.batches import batched
from signalbook.client.registry import Refusal, Registry
from signalbook.errors import SignalbookError
from signalbook.replication.report import CopyOutcome, CopyReport
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

_MAX_VERSIONS: Final = 500
_MAX_BYTES: Final = 8 * 1024 * 1024
_CLOSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED)


class Closed(SignalbookError):
    """The error for a target that accepts no copies at all (D-12)."""


def reason_of(error: Refusal) -> str:
    """Return why a copy was rejected. Raises ``Closed`` if none will ever be accepted."""
    if error.status in _CLOSED:
        raise Closed(f"the target takes no copies: {error.status}: {error}")
    return f"{error.status}: {error}" if error.status else str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One entity of a write: a Group or Resource of the target, the PATCH, and its xid at the source.

    ``outcomes`` are the outcomes for each kind of entity once the write is done.
    """

    xid: Xid
    source: Xid
    body: JSONObject
    outcomes: tuple[tuple[CopyOutcome, Kind, int], ...]

    @property
    def versions(self) -> JSONObject:
        """The Versions in this part, by id."""
        versions: JSONObject = self.body.get("versions") or {}
        return versions

    def apart(self) -> Iterable[Part]:
        """Yield each Version of this part separately, the oldest first, and then the other attributes."""
        versions = sorted(self.versions.items(), key=lambda item: (str(item[1].get("createdat", "")), item[0]))
        for name, body in versions:
            source = self.source / "versions" / name
            yield replace(
                self,
                source=source,
                body={"versions": {name: body}},
                outcomes=((_choose_outcome(body), Kind.VERSION, 1),),
            )
        members = {name: value for name, value in self.body.items() if name != "versions"}
        if members:
            outcomes = tuple(outcome for outcome in self.outcomes if outcome[1] is not Kind.VERSION)
            yield replace(self, body=members, outcomes=outcomes)


class CopyWriter:
    """Collects writes to ``target`` until they fill a request. The results go into ``report``."""

    def __init__(self, target: Registry, report: CopyReport) -> None:
        self._target = target
        self._report = report
        self._parts: list[Part] = []
        self._gone: list[tuple[Xid, Xid]] = []
        self._versions = 0
        self._bytes = 0

    def add(self, part: Part) -> None:
        """Add a part to the next request, which is sent when it is large enough."""
        self._parts.append(part)
        self._versions += max(1, len(part.versions))
        self._bytes += sum(map(_measure, part.versions.values()))
        if self._versions >= _MAX_VERSIONS or self._bytes >= _MAX_BYTES:
            self.flush()

    def delete(self, xids: Sequence[tuple[Xid, Xid]]) -> None:
        """Delete entities of the target with the next request.

        Each pair has the xid at the target and at the source.
        """
        self._gone += xids
        if len(self._gone) >= _MAX_VERSIONS:
            self.flush()

    def flush(self) -> None:
        """Send all collected writes and deletions."""
        parts, self._parts, self._versions, self._bytes = self._parts, [], 0, 0
        gone, self._gone = self._gone, []
        if parts:
            self._send(parts)
        for collection, group in groupby(gone, key=lambda pair: pair[0].parent):
            for pairs in batched(group, _MAX_VERSIONS):
                self._delete(collection, pairs)

    def _delete(self, collection: Xid, pairs: Sequence[tuple[Xid, Xid]]) -> None:
        try:
            self._target.delete(collection, [xid.id for xid, _ in pairs])
        except Refusal as error:
            reason = reason_of(error)
            if len(pairs) == 1:
                self._report.refuse(pairs[0][1], f"cannot be deleted: {reason}")
                return
            # Delete one by one, to find out which of them is rejected.
            for pair in pairs:
                self._delete(collection, [pair])
            return
        self._report.count(CopyOutcome.DELETED, pairs[0][0].kind, len(pairs))

    def _send(self, parts: Sequence[Part]) -> None:
        """Send parts together; if they are rejected, send each half separately."""
        try:
            self._target.patch(*_request(parts))
        except Refusal as error:
            reason = reason_of(error)
            if len(parts) > 1:
                # Halving finds the rejected part in few requests.
                middle = len(parts) // 2
                self._send(parts[:middle])
                self._send(parts[middle:])
            else:
                self._send_apart(parts[0], reason)
            return
        for part in parts:
            for outcome in part.outcomes:
                self._report.count(*outcome)

    def _send_apart(self, part: Part, reason: str) -> None:
        if len(part.versions) < 2:
            self._report.refuse(part.source, reason)
            return
        for piece in part.apart():
            self._send([piece])


def _request(parts: Sequence[Part]) -> tuple[Xid, JSONObject]:
    """Return the target and body of one PATCH with all parts.

    The target is as close to the parts as possible, because all entities on the way to them count as changed.
    """
    collections = {part.xid.parent for part in parts}
    top = collections.pop() if len(collections) == 1 else ROOT
    tree: JSONObject = {}
    for part in parts:
        place = tree
        for step in part.xid.parts[len(top.parts) :]:
            place = place.setdefault(step, {})
        _merge(place, part.body)
    return top, tree


def _merge(place: JSONObject, body: JSONObject) -> None:
    """Add ``body`` to the members in ``place``. A Resource may come in several parts."""
    versions = {**place.get("versions", {}), **body.get("versions", {})}
    place.update(body)
    if versions:
        place["versions"] = versions


def _measure(version: JSONObject) -> int:
    # Add 200 for names and for values that are not strings.
    return sum(len(value) for value in version.values() if isinstance(value, str)) + 200


def _choose_outcome(body: JSONObject) -> CopyOutcome:
    return CopyOutcome.CREATED if "createdat" in body else CopyOutcome.UPDATED
