"""Represent a link from a source to a target: its scope, the entities that may be copied, and the origin of copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from signalbook.cncf.ids import compose, message_path, schema_path
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Kind, Xid, XidError, check_id

LABEL: Final = "replicatedfrom"


def read_origins(entity: JSONObject) -> tuple[str, ...]:
    """Return the URLs of the registries from which a Group or Version was copied, the nearest first, its origin last.

    Return an empty tuple if the entity is an original.
    """
    labels = entity.get("labels")
    text = labels.get(LABEL) if isinstance(labels, dict) else None
    return tuple(text.split()) if isinstance(text, str) else ()


def with_origin(entity: JSONObject, source: str) -> JSONObject:
    """Return ``entity`` with a label that marks it as a copy from the registry at ``source``."""
    labels = {**(entity.get("labels") or {}), LABEL: " ".join((source, *read_origins(entity)))}
    return {**entity, "labels": labels}


def strip_origin(entity: JSONObject) -> JSONObject:
    """Return ``entity`` without the label that names its origins."""
    labels = {name: value for name, value in (entity.get("labels") or {}).items() if name != LABEL}
    members = {name: value for name, value in entity.items() if name != "labels"}
    return {**members, "labels": labels} if labels else members


def is_owned_by(entity: JSONObject, source: str) -> bool:
    """Return True if ``entity`` is a copy whose source or origin is the registry at ``source``, which may change it."""
    passed = read_origins(entity)
    return bool(passed) and source in (passed[0], passed[-1])


_SCOPES = (Kind.REGISTRY, Kind.GROUPS, Kind.GROUP, Kind.RESOURCE)


class ScopeError(SignalbookError):
    """The error for an invalid scope, or an invalid name of a Group at the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of a source to copy: ``xid`` and everything under it. ``renames`` has new ids of Groups (D-2)."""

    xid: Xid = ROOT
    renames: Mapping[Xid, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, xid: str = "/", renames: Iterable[str] = ()) -> Self:
        """Return the scope of ``xid``, with ``renames`` written as ``schemagroups/a=b``. Raises ``ScopeError``."""
        try:
            top = Xid.parse(xid)
        except XidError as error:
            raise ScopeError(f"{xid!r} is no xid: {error}") from None
        if top.kind not in _SCOPES:
            raise ScopeError(f"{xid} is no registry, collection of groups, group or resource")
        renamed_groups = dict(_rename(text) for text in renames)
        if len(_map_places(renamed_groups)) < len(renamed_groups):
            raise ScopeError("two groups cannot have the same name at the target")
        return cls(xid=top, renames=renamed_groups)

    def holds(self, xid: Xid) -> bool:
        """Return True if the source's entity or collection ``xid`` is copied."""
        return xid.parts[: len(self.xid.parts)] == self.xid.parts

    def reaches(self, xid: Xid) -> bool:
        """Return True if the xid, or something under it, is copied."""
        return self.holds(xid) or self.xid.parts[: len(xid.parts)] == xid.parts

    def there(self, xid: Xid) -> Xid | None:
        """Return the target's xid for the source's ``xid``, or None if another Group was renamed to it."""
        if len(xid.parts) < 2:
            return xid
        group = Xid(xid.parts[:2])
        # Another Group was renamed to the name of this Group, so this one cannot be copied.
        if group not in self.renames and group in _map_places(self.renames):
            return None
        return Xid((xid.group_type, self.renames.get(group, xid.group_id), *xid.parts[2:]))

    def here(self, xid: Xid) -> Xid | None:
        """Return the source's xid for the target's ``xid``, or None if there can be none."""
        if len(xid.parts) < 2:
            return xid
        group = Xid(xid.parts[:2])
        source_group = _map_places(self.renames).get(group)
        if source_group is None and group in self.renames:
            return None
        return Xid((*(source_group or group).parts, *xid.parts[2:]))

    def translate(self, value: JSON) -> JSON:
        """Return ``value`` with every xid of the source replaced by the xid at the target."""
        if not self.renames:
            return value
        if isinstance(value, dict):
            return {name: self.translate(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.translate(member) for member in value]
        return self._translate_xid(value) if isinstance(value, str) and value.startswith("/") else value

    def _translate_xid(self, text: str) -> str:
        try:
            xid = Xid.parse(text)
        except XidError:
            return text
        return str(self.there(xid) or xid)


def _rename(text: str) -> tuple[Xid, str]:
    """Parse ``schemagroups/a=b`` into the xid of the Group and its new id. Raises ``ScopeError``."""
    old, _, new = text.partition("=")
    try:
        group = Xid.parse("/" + old.strip("/"))
        check_id(new)
    except XidError as error:
        raise ScopeError(f"{text!r} renames no group: {error}; write GROUPTYPE/OLD=NEW") from None
    if group.kind is not Kind.GROUP:
        raise ScopeError(f"{text!r} renames no group; write GROUPTYPE/OLD=NEW")
    return group, new


def _map_places(renames: Mapping[Xid, str]) -> dict[Xid, Xid]:
    """Return the renamed Groups by their xid at the target."""
    return {Xid((group.group_type, new)): group for group, new in renames.items()}


API_PATHS: Final = {"schemas": schema_path, "messages": message_path}
"""For each type, the function that returns the path of a Version in the API for which its URI is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The link from ``source`` to ``target``, URLs of registry roots without a final slash.

    The target's URL may be ``""`` (unknown). ``bases`` are the base URLs for URIs of the source's Versions, by type of
    Resource, if they differ from the root URL. Only entities of these ``authorities`` may be copied, or all if it is
    empty. ``partial`` is True if the source may leave out some content of Versions.
    """

    source: str
    target: str = ""
    scope: Scope = field(default_factory=Scope)
    bases: Mapping[str, str] = field(default_factory=dict)
    authorities: tuple[str, ...] = ()
    partial: bool = False

    def returns(self, entity: JSONObject) -> str:
        """Return the reason if ``entity`` came from this target and must not be copied back (D-8), or ``""``."""
        if not self.target:
            return ""
        if self.target in read_origins(entity):
            return f"comes from {self.target}"
        authority = entity.get("authority")
        if isinstance(authority, str) and is_within(authority, self.target):
            return f"is under the authority of {self.target}"
        return ""

    def bars(self, entity: JSONObject, xid: Xid) -> str:
        """Return the reason if an authority that ``entity`` claims is not allowed on this link, or ``""``.

        An entity without an authority claims the authority of its source.
        """
        if not self.authorities or xid.resource_type not in API_PATHS:
            return ""
        claimed = [str(entity.get("authority") or self.base(xid.resource_type))]
        # An absolute ``globaluri`` also claims an authority.
        claimed += [uri] if "://" in (uri := str(entity.get("globaluri") or "")) else []
        for uri in claimed:
            if not any(is_within(uri, allowed) for allowed in self.authorities):
                return f"claims the authority of {uri}, which may not come this way"
        return ""

    def copy(self, version: JSONObject, xid: Xid, *, named: bool) -> JSONObject:
        """Return the source's Version ``xid`` in the form for the target.

        If ``named`` is True, the attributes ``authority`` and ``globaluri`` are added (D-3, D-4).
        """
        copied = self.scope.translate(version)
        assert isinstance(copied, dict)
        if named and xid.resource_type in API_PATHS:
            path = API_PATHS[xid.resource_type](xid) or str(xid)
            authority, base = str(version.get("authority") or ""), self.base(xid.resource_type)
            uri = compose(authority, str(version.get("globaluri") or path), base)
            copied = {**copied, "authority": authority or base, "globaluri": uri}
        return with_origin(copied, self.source)

    def base(self, kind: str) -> str:
        """Return the base URL for URIs of the source's Versions, for Resources of the type ``kind``."""
        return self.bases.get(kind, self.source)


def is_within(uri: str, authority: str) -> bool:
    """Return True if ``uri`` is the URI ``authority``, or a URI under it."""
    top = authority.rstrip("/")
    return uri.rstrip("/") == top or uri.startswith(f"{top}/" if "://" in top else (f"{top}/", f"{top}:"))


class RegistryDialect(StrEnum):
    """The API dialect of a registry."""

    XREGISTRY = "xregistry"
    SCHEMAREGISTRY = "schemaregistry"
    MESSAGECATALOG = "messagecatalog"
    MESSAGECATALOG_0_1 = "messagecatalog-0.1"
