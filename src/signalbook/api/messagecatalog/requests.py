"""One request to a Message Catalog API as a value: what its path names (domain.md B-17 to B-22, C-27 to C-36)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from signalbook.api.cncf import CncfRequest, find_route
from signalbook.cncf.ids import entity_id, message_path, message_xid, version_number
from signalbook.cncf.lookup import UriBases
from signalbook.errors import RegistryError
from signalbook.xid import ID, ROOT, Xid

FIRST: Final = "/compat/messagecatalog/v0"
V01: Final = "/compat/messagecatalog/v0.1"
MOUNTS: Final = (FIRST, V01)
CATALOG: Final = "/messagecatalog"
GROUP: Final = "/messagecatalog/{}"
DEFINITIONS: Final = "/messagecatalog/{}/messagedefinitions"
DEFINITION: Final = "/messagecatalog/{}/messagedefinitions/{}"
VERSIONS: Final = "/messagecatalog/{}/messagedefinitions/{}/versions"
VERSION: Final = "/messagecatalog/{}/messagedefinitions/{}/versions/{}"
LOOKUP: Final = "/messagedefinition"
GROUPS: Final = ROOT / "messagegroups"
_XIDS: Final = {
    CATALOG: (),
    GROUP: (),
    DEFINITIONS: ("messages",),
    DEFINITION: ("messages",),
    VERSIONS: ("messages", "versions"),
    VERSION: ("messages", "versions"),
    LOOKUP: (),
}
"""By template, the collections that stand behind the ids in the xid of what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPath:
    """A path below a mount: ``text`` as it was sent, ``xid`` what it is in the registry.

    ``id`` is the last group's or definition's id as the path has it.
    """

    template: str
    text: str
    xid: Xid = GROUPS
    id: str = ""

    @property
    def group(self) -> Xid:
        """The group it is in."""
        return Xid(self.xid.parts[:2])


def parse_path(text: str) -> CatalogPath:
    """The path ``text``, percent-encoded.

    Raises ``api_not_found`` for one that is none, ``malformed_id`` and ``not_found`` for an id that nothing can have.
    """
    template, ids = find_route(_XIDS, text)
    xid = GROUPS
    for part, collection in zip_longest(ids[:2], _XIDS[template]):
        xid = xid / _entity_id(part, text) if part is not None else xid
        xid = xid / collection if collection is not None else xid
    if template == VERSION:
        if version_number(ids[2]) is None:
            raise RegistryError("not_found", subject=text)
        xid = xid / ids[2]
    return CatalogPath(template=template, text=text, xid=xid, id=ids[:2][-1] if ids else "")


def _entity_id(part: str, text: str) -> str:
    found = entity_id(part)
    if not ID.fullmatch(found):
        detail = "an id is a segment of a path without colon, and not too long"
        raise RegistryError("malformed_id", subject=text, id=part[:200], error_detail=detail)
    return found


@dataclass(frozen=True, kw_only=True)
class CatalogRequest(CncfRequest[CatalogPath]):
    """A request to one of the two APIs."""

    @property
    def places(self) -> UriBases:
        """Where versions are to be had."""
        bases = (self.base, *(f"{self.root}{mount}" for mount in MOUNTS if mount != self.mount))
        return UriBases(groups="messagegroups", urls=bases, root=self.root, path=message_path, xid=message_xid)

    def url(self, xid: Xid) -> str:
        """The URL of an entity in this API."""
        return f"{self.base}{message_path(xid)}"
