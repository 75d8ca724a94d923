"""One request to a Message Catalog API as a value: what its path names (domain.md B-17 to B-22, C-27 to C-36)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from starlette.types import Scope

from signalbook.api.cncf import CncfRequest, path_below
from signalbook.cncf.ids import entity_id, message_path, message_xid, version_number
from signalbook.cncf.lookup import UriBases
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.xid import ID, ROOT, Xid

FIRST: Final = "/compat/messagecatalog/v0"
V01: Final = "/compat/messagecatalog/v0.1"
MOUNTS: Final = (FIRST, V01)
CATALOG: Final = "messagecatalog"
DEFINITIONS: Final = "messagedefinitions"
VERSIONS: Final = "versions"
LOOKUP: Final = "messagedefinition"
GROUPS: Final = ROOT / "messagegroups"


class CatalogTarget(Enum):
    """What a path is of."""

    CATALOG = auto()
    GROUP = auto()
    DEFINITIONS = auto()
    DEFINITION = auto()
    VERSIONS = auto()
    VERSION = auto()
    LOOKUP = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPath:
    """A path below a door: ``text`` as it came, ``xid`` what it is in the registry.

    ``id`` is the last group's or definition's id as the path has it.
    """

    place: CatalogTarget
    text: str
    xid: Xid = GROUPS
    id: str = ""

    @property
    def group(self) -> Xid:
        """The group it is in."""
        return Xid(self.xid.parts[:2])


_PLACES: Final = (
    CatalogTarget.CATALOG,
    CatalogTarget.GROUP,
    CatalogTarget.DEFINITIONS,
    CatalogTarget.DEFINITION,
    CatalogTarget.VERSIONS,
    CatalogTarget.VERSION,
)
_LITERALS: Final = {0: CATALOG, 2: DEFINITIONS, 4: VERSIONS}


def parse_path(text: str) -> CatalogPath:
    """The path ``text``, percent-encoded; a slash at its end says nothing.

    Raises ``api_not_found`` for one that is none, ``not_found`` for an id that nothing can have.
    """
    if text.removesuffix("/") == f"/{LOOKUP}":
        return CatalogPath(place=CatalogTarget.LOOKUP, text=text)
    parts = text.removesuffix("/").split("/")[1:]
    right = 0 < len(parts) <= len(_PLACES)
    if not right or any(part != _LITERALS.get(position, part) for position, part in enumerate(parts)):
        raise RegistryError("api_not_found", subject=text)
    place, xid = _PLACES[len(parts) - 1], GROUPS
    for position, part in enumerate(parts[1:], 1):
        xid = xid / (_entity(part, position, text) if position not in _LITERALS else _KINDS[part])
    named = parts[3] if len(parts) > 3 else parts[1] if len(parts) > 1 else ""
    return CatalogPath(place=place, text=text, xid=xid, id=named)


_KINDS: Final = {DEFINITIONS: "messages", VERSIONS: "versions"}


def _entity(part: str, position: int, text: str) -> str:
    if position == 5:
        if version_number(part) is None:
            raise RegistryError("not_found", subject=text)
        return part
    found = entity_id(part)
    if not ID.fullmatch(found):
        detail = "an id is a segment of a path without colon, and not too long"
        raise RegistryError("malformed_id", subject=text, id=part[:200], error_detail=detail)
    return found


@dataclass(frozen=True, kw_only=True)
class CatalogRequest(CncfRequest[CatalogPath]):
    """A request to one of the two doors."""

    @property
    def places(self) -> UriBases:
        """Where versions are to be had."""
        bases = (self.base, *(f"{self.root}{mount}" for mount in MOUNTS if mount != self.mount))
        return UriBases(groups="messagegroups", urls=bases, root=self.root, path=message_path, xid=message_xid)

    def url(self, xid: Xid) -> str:
        """The URL of an entity at this door."""
        return f"{self.base}{message_path(xid)}"


def read_request(scope: Scope, body: bytes, settings: Settings, mount: str) -> CatalogRequest:
    """The request that an ASGI scope and body make. Raises ``RegistryError`` for a path or query that is none."""
    return CatalogRequest.of(scope, body, settings, path=parse_path(path_below(scope, mount)), mount=mount)
