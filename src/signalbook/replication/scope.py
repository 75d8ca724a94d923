"""What of a source is copied, and under which names: the whole registry, one Group, one Resource (D-14, D-15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from signalbook.errors import SignalbookError
from signalbook.values import JSON
from signalbook.xid import ROOT, Kind, Xid, XidError, check_id

_SCOPES = (Kind.REGISTRY, Kind.GROUPS, Kind.GROUP, Kind.RESOURCE)


class ScopeError(SignalbookError):
    """A scope or a name that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of a source at ``xid`` and beneath; ``renames`` gives Groups other ids at the target (D-2)."""

    xid: Xid = ROOT
    renames: Mapping[Xid, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, xid: str = "/", renames: Iterable[str] = ()) -> Self:
        """Read an xid, and names as in ``schemagroups/a=b``. Raises ``ScopeError``."""
        try:
            top = Xid.parse(xid)
        except XidError as error:
            raise ScopeError(f"{xid!r} is no xid: {error}") from None
        if top.kind not in _SCOPES:
            raise ScopeError(f"{xid} is no registry, collection of groups, group or resource")
        named = dict(_rename(text) for text in renames)
        if len(_places(named)) < len(named):
            raise ScopeError("two groups cannot have the same name at the target")
        return cls(xid=top, renames=named)

    def holds(self, xid: Xid) -> bool:
        """Whether the source's entity or collection ``xid`` is copied."""
        return xid.parts[: len(self.xid.parts)] == self.xid.parts

    def reaches(self, xid: Xid) -> bool:
        """Whether it is copied, or something beneath it is."""
        return self.holds(xid) or self.xid.parts[: len(xid.parts)] == xid.parts

    def there(self, xid: Xid) -> Xid | None:
        """Where the source's ``xid`` is at the target; None if a Group was renamed to its name."""
        if len(xid.parts) < 2:
            return xid
        group = Xid(xid.parts[:2])
        if group not in self.renames and group in _places(self.renames):
            return None
        return Xid((xid.group_type, self.renames.get(group, xid.group_id), *xid.parts[2:]))

    def here(self, xid: Xid) -> Xid | None:
        """What of the source is at the target's ``xid``; None if nothing can be."""
        if len(xid.parts) < 2:
            return xid
        group = Xid(xid.parts[:2])
        known = _places(self.renames).get(group)
        if known is None and group in self.renames:
            return None
        return Xid((*(known or group).parts, *xid.parts[2:]))

    def translated(self, value: JSON) -> JSON:
        """``value`` with every xid of the source in it as at the target."""
        if not self.renames:
            return value
        if isinstance(value, dict):
            return {name: self.translated(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.translated(member) for member in value]
        return self._xid(value) if isinstance(value, str) and value.startswith("/") else value

    def _xid(self, text: str) -> str:
        try:
            xid = Xid.parse(text)
        except XidError:
            return text
        return str(self.there(xid) or xid)


def _rename(text: str) -> tuple[Xid, str]:
    """Read ``schemagroups/a=b``."""
    old, _, new = text.partition("=")
    try:
        group = Xid.parse("/" + old.strip("/"))
        check_id(new)
    except XidError as error:
        raise ScopeError(f"{text!r} renames no group: {error}; write GROUPTYPE/OLD=NEW") from None
    if group.kind is not Kind.GROUP:
        raise ScopeError(f"{text!r} renames no group; write GROUPTYPE/OLD=NEW")
    return group, new


def _places(renames: Mapping[Xid, str]) -> dict[Xid, Xid]:
    """The renamed Groups by their xid at the target."""
    return {Xid((group.group_type, new)): group for group, new in renames.items()}
