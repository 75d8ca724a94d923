"""An object of a document while it is put right: every change is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from signalbook.documents.repairs import Repair
from signalbook.values import JSON, JSONObject


@dataclass(slots=True, kw_only=True)
class Page:
    """An entity at ``xid``, or an object ``within`` it, and what was repaired in the document so far.

    ``rules`` are those of the repairs to this entity; the objects within it share them.
    """

    xid: str
    body: JSONObject
    log: list[Repair]
    within: str = ""
    rules: list[str] = field(default_factory=list)

    def told(self, name: str, message: str, rule: str) -> None:
        """Tell that ``message`` was done to the attribute ``name``."""
        path = f"{self.within}{name}"
        self.log.append(Repair(path=f"{self.xid}#{path}" if path else self.xid, message=message, rule=rule))
        self.rules.append(rule)

    def member(self, name: str) -> Page | None:
        """The object at ``name``, if there is one."""
        body = self.body.get(name)
        if not isinstance(body, dict):
            return None
        return Page(xid=self.xid, body=body, log=self.log, within=f"{self.within}{name}.", rules=self.rules)

    def members(self) -> Iterator[Page]:
        """Every object that is a value here."""
        for name in list(self.body):
            page = self.member(name)
            if page is not None:
                yield page

    def _entity(self, collection: str, name: str) -> Page | None:
        body = self.body[collection].get(name)
        if not isinstance(body, dict):
            return None
        return Page(xid=f"{self.xid.rstrip('/')}/{collection}/{name}", body=body, log=self.log)

    def entities(self, collection: str) -> Iterator[Page]:
        """All entities of a collection that is inlined here."""
        members = self.body.get(collection)
        for name in list(members) if isinstance(members, dict) else ():
            page = self._entity(collection, name)
            if page is not None:
                yield page

    def rename(self, old: str, new: str, rule: str) -> None:
        """Give the value of ``old`` to ``new``. Where both say different things nothing is done: it will be refused."""
        if old in self.body and self.body.get(new) in (None, self.body[old]):
            self.body[new] = self.body.pop(old)
            self.told(old, f"renamed to {new}", rule)

    def change(self, name: str, value: JSON, message: str, rule: str) -> None:
        """Put ``value`` at ``name``, which ``message`` tells."""
        if self.body.get(name) != value:
            self.body[name] = value
            self.told(name, message, rule)

    def drop(self, name: str, why: str, rule: str) -> None:
        """Leave ``name`` out, if it is there."""
        if name in self.body:
            del self.body[name]
            self.told(name, f"left out: {why}", rule)

    def move(self, name: str, inner: str, new: str, rule: str) -> None:
        """Give the value of ``name`` to the member ``new`` of the object ``inner``, which is made if it is missing."""
        target = self.body.setdefault(inner, {}) if name in self.body else None
        if isinstance(target, dict) and target.get(new) in (None, self.body[name]):
            target[new] = self.body.pop(name)
            self.told(name, f"moved to {inner}.{new}", rule)
