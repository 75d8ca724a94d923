"""Change events as hints where to look: late, twice or in another order they lead to the same (D-19 to D-21)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid, XidError

_WHOLE: Final = ("io.xregistry.resource.created", "io.xregistry.resource.deleted")


@dataclass(slots=True)
class Hints:
    """What may be different: ``groups``, and ``resources`` by collection and id, each with the ids of its Versions.

    None instead of those says that any may be.
    """

    groups: set[Xid] = field(default_factory=set)
    resources: dict[Xid, dict[str, set[str] | None]] = field(default_factory=dict)

    def add(self, xid: Xid, *, whole: bool = False) -> None:
        """``xid`` changed; ``whole`` if all that is beneath it may have."""
        if xid.kind is Kind.GROUP:
            self.groups.add(xid)
        elif len(xid.parts) >= len(("groups", "g", "resources", "r")):
            resource = xid.resource
            versions = self.resources.setdefault(resource.parent, {})
            known = versions.setdefault(resource.id, set())
            if whole or known is None:
                versions[resource.id] = None
            elif xid.version_id:
                known.add(xid.version_id)

    def __bool__(self) -> bool:
        return bool(self.groups or self.resources)


def of_events(events: Iterable[JSONObject]) -> Hints:
    """What events of the xRegistry dialect tell. What cannot be read as one tells nothing."""
    hints = Hints()
    for event in events:
        subject = event.get("subject")
        try:
            xid = Xid.parse(subject) if isinstance(subject, str) else None
        except XidError:
            continue
        if xid is not None and not _only_counts(event, xid):
            hints.add(xid, whole=event.get("type") in _WHOLE)
    return hints


def _only_counts(event: JSONObject, xid: Xid) -> bool:
    """Whether a Group is told to be different for nothing but its members, which have events of their own."""
    data = event.get("data")
    changed = data.get("changed") if isinstance(data, dict) else None
    if xid.kind is not Kind.GROUP or not isinstance(changed, list) or not changed:
        return False
    names = {name for name in changed if isinstance(name, str)} - {"epoch", "modifiedat"}
    return all(name.endswith("count") or f"{name}count" in names for name in names)
