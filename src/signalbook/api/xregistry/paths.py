"""URL paths of the door: what they name, and which methods go there (core/http.md "Registry HTTP APIs")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from signalbook.engine.commands import METHODS
from signalbook.errors import RegistryError
from signalbook.model import Model, ResourceType
from signalbook.xid import ROOT, Kind, Xid, XidError, check_id

DETAILS: Final = "$details"
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "capabilities": ("GET", "PUT", "PATCH"),
    "capabilitiesoffered": ("GET",),
    "export": ("GET",),
    "model": ("GET",),
    "modelsource": ("GET", "PUT"),
    "openapi.json": ("GET",),
    ".xregistry": ("GET",),
}
"""Paths beside the entities, and their methods. No name with a dot is that of a Group type (R135)."""
ALWAYS_THERE: Final = (".xregistry", "openapi.json")
"""Those that the capability ``available`` says nothing about."""

_DOCUMENTED: Final = frozenset({Kind.RESOURCE, Kind.VERSION})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPath:
    """One request path. ``name`` is one of ``NAMES`` or empty; then ``target`` is an entity or a collection.

    ``text`` is the path as errors quote it; ``details`` tells that it ended in ``$details``.
    """

    text: str
    target: Xid = ROOT
    name: str = ""
    details: bool = False

    def type(self, model: Model) -> ResourceType | None:
        """The Resource type of a Resource or Version path whose type has documents, else None."""
        found = model.resource_type(self.target) if self.target.kind in _DOCUMENTED else None
        return found if found is not None and found.hasdocument else None

    def methods(self, model: Model) -> tuple[str, ...]:
        """What may be done here; HEAD and OPTIONS wherever there is GET (R134, R138)."""
        methods = NAMES[self.name] if self.name else ("GET", *(m.value for m in METHODS[self.target.kind]))
        if self.type(model) is not None and not self.details:
            methods = tuple(method for method in methods if method != "PATCH")
        return (methods[0], "HEAD", *methods[1:], "OPTIONS")


@lru_cache(maxsize=4096)
def parse(raw: str) -> RegistryPath:
    """Read a path below the registry root, percent-encoded as sent; trailing slashes do not count.

    Raises ``api_not_found`` for a shape that does not exist and ``bad_details`` for a misplaced ``$details`` (R155).
    """
    parts = tuple(unquote(part) for part in raw.strip("/").split("/")) if raw.strip("/") else ()
    text = "/" + "/".join(parts)
    if parts and parts[0] in NAMES:
        if len(parts) > 1:
            raise RegistryError("api_not_found", subject=text)
        return RegistryPath(text=text, name=parts[0])
    details = bool(parts) and parts[-1].endswith(DETAILS)
    if details:
        parts = (*parts[:-1], parts[-1].removesuffix(DETAILS))
    if any(part.endswith(DETAILS) for part in parts) or (details and len(parts) not in (4, 6)) or text == f"/{DETAILS}":
        raise RegistryError("bad_details", subject=text)
    if not all(parts) or len(parts) > 6 or (len(parts) > 4 and not _nested(parts)):
        raise RegistryError("api_not_found", subject=text)
    return RegistryPath(text=text, target=Xid(parts), details=details)


def check(path: RegistryPath, model: Model) -> None:
    """The path's types exist, else ``not_found`` (GAP 14), and its ids are ids, else ``malformed_id`` (R25)."""
    target = path.target
    if target.parts and model.group_type(target) is None:
        raise RegistryError("not_found", subject=path.text)
    if target.resource_type and model.resource_type(target) is None:
        raise RegistryError("not_found", subject=path.text)
    for part in target.parts[1::2]:
        try:
            check_id(part)
        except XidError as error:
            raise RegistryError("malformed_id", subject=path.text, id=part, error_detail=str(error)) from None


def _nested(parts: tuple[str, ...]) -> bool:
    """Whether what follows a Resource is its meta, its Versions or one of these."""
    return parts[4:] == ("meta",) or parts[4] == "versions"
