"""One request to a door as a value."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Scope

from signalbook.api.drafts.requests import DraftRequest, path_below
from signalbook.api.messagecatalog.paths import MOUNTS, Path, parse
from signalbook.cncf.ids import message_path, message_xid
from signalbook.engine.uris import Places
from signalbook.settings import Settings
from signalbook.xid import Xid


@dataclass(frozen=True, kw_only=True)
class Request(DraftRequest[Path]):
    """A request to one of the two doors."""

    @property
    def places(self) -> Places:
        """Where versions are to be had."""
        bases = (self.base, *(f"{self.root}{mount}" for mount in MOUNTS if mount != self.mount))
        return Places(groups="messagegroups", bases=bases, root=self.root, path=message_path, xid=message_xid)

    def url(self, xid: Xid) -> str:
        """The URL of an entity at this door."""
        return f"{self.base}{message_path(xid)}"


def read_request(scope: Scope, body: bytes, settings: Settings, mount: str) -> Request:
    """The request that an ASGI scope and body make. Raises ``RegistryError`` for a path or query that is none."""
    return Request.of(scope, body, settings, path=parse(path_below(scope, mount)), mount=mount)
