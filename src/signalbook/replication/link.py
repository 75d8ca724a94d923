"""One way of copying, from a source to a target: what may go it, and what a copy says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from signalbook.cncf.paths import message_path, schema_path
from signalbook.cncf.uris import compose
from signalbook.replication import origin
from signalbook.replication.scope import Scope
from signalbook.values import JSONObject
from signalbook.xid import Xid

DOORS: Final = {"schemas": "/compat/schemaregistry/v0.2", "messages": "/compat/messagecatalog/v0.1"}
"""Where Signalbook has the APIs that URIs of Versions are made for, below its root, by type of Resource."""
_PATHS: Final = {"schemas": schema_path, "messages": message_path}
"""What gives Versions of these types their path in the API that their URIs are made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From ``source`` to ``target``, URLs of registries' roots without a slash at the end; the target's may be unknown.

    ``bases`` are the URLs of the APIs that URIs of the source's Versions are made for, by type of Resource, where they
    are not the root's. ``authorities`` are those whose definitions may come this way, all if it is empty. It is
    ``partial`` if the source does not tell all there may be of a Version.
    """

    source: str
    target: str = ""
    scope: Scope = field(default_factory=Scope)
    bases: Mapping[str, str] = field(default_factory=dict)
    authorities: tuple[str, ...] = ()
    partial: bool = False

    def returns(self, entity: JSONObject) -> str:
        """Why ``entity`` is not for this target: it comes from there, or has passed it (D-8); ``""`` if it is."""
        if not self.target:
            return ""
        if self.target in origin.path(entity):
            return f"comes from {self.target}"
        authority = entity.get("authority")
        if isinstance(authority, str) and within(authority, self.target):
            return f"is under the authority of {self.target}"
        return ""

    def bars(self, entity: JSONObject, xid: Xid) -> str:
        """Why ``entity`` may not go this way for the authority it claims, its own or the source's; ``""`` if it may."""
        if not self.authorities or xid.resource_type not in _PATHS:
            return ""
        claimed = [str(entity.get("authority") or self.base(xid.resource_type))]
        claimed += [uri] if "://" in (uri := str(entity.get("globaluri") or "")) else []
        for uri in claimed:
            if not any(within(uri, allowed) for allowed in self.authorities):
                return f"claims the authority of {uri}, which may not come this way"
        return ""

    def copy(self, version: JSONObject, xid: Xid, *, named: bool) -> JSONObject:
        """The source's Version ``xid`` as it is at the target.

        If it is ``named``, it says who has authority over it, and by which URI it is known everywhere (D-3, D-4).
        """
        copied = self.scope.translated(version)
        assert isinstance(copied, dict)
        if named and xid.resource_type in _PATHS:
            path = _PATHS[xid.resource_type](xid) or str(xid)
            authority, base = str(version.get("authority") or ""), self.base(xid.resource_type)
            uri = compose(authority, str(version.get("globaluri") or path), base)
            copied = {**copied, "authority": authority or base, "globaluri": uri}
        return origin.stamped(copied, self.source)

    def base(self, kind: str) -> str:
        """The URL of the API that URIs of the source's Versions of a type are made for."""
        return self.bases.get(kind, self.source)


def within(uri: str, authority: str) -> bool:
    """Whether ``uri`` is that of an ``authority``, or something under it."""
    top = authority.rstrip("/")
    return uri.rstrip("/") == top or uri.startswith(f"{top}/" if "://" in top else (f"{top}/", f"{top}:"))
