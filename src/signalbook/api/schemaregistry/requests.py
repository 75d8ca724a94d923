"""One request to the door as a value: what its path names, and what comes with it (domain.md A.5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.types import Scope

from signalbook.api.drafts.requests import DraftRequest, path_below
from signalbook.api.encoding import decode
from signalbook.cncf.ids import entity_id, is_segment, schema_path, schema_xid, version_number
from signalbook.cncf.schemaregistry import ATTRIBUTES, GROUPS, Given, given_faults
from signalbook.engine.uris import Places
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.xid import Xid, XidError, check_id

MOUNT: Final = "/compat/schemaregistry/v0.2"
_SHOWN: Final = 200


class Place(Enum):
    """What a path is of; the value is its shape, empty where ids are."""

    LOOKUP = ("schema",)
    GROUPS = ("schemagroups",)
    GROUP = ("schemagroups", "")
    SCHEMAS = ("schemagroups", "", "schemas")
    SCHEMA = ("schemagroups", "", "schemas", "")
    VERSIONS = ("schemagroups", "", "schemas", "", "versions")
    VERSION = ("schemagroups", "", "schemas", "", "versions", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A path below the door. ``text`` is the path as it came, ``id`` its last id of a group or schema.

    ``target`` is what it is in the registry, None for one that nothing can have; ``fault`` says why.
    """

    place: Place
    text: str
    id: str = ""
    target: Xid | None = GROUPS
    fault: str = ""


def parse(text: str) -> Path:
    """The path ``text``, percent-encoded; a slash at its end says nothing. Raises ``api_not_found``."""
    parts = tuple(text.removesuffix("/").split("/")[1:])
    place = next((place for place in Place if _fits(parts, place.value)), None)
    if place is None:
        raise RegistryError("api_not_found", subject=text)
    named = parts[1:4:2][-1:]
    path = Path(place=place, text=text, id=named[0] if named else "")
    try:
        return Path(place=place, text=text, id=path.id, target=_target(parts))
    except XidError as error:
        return Path(place=place, text=text, id=path.id, target=None, fault=str(error))


def _fits(parts: tuple[str, ...], shape: tuple[str, ...]) -> bool:
    return len(parts) == len(shape) and all(
        part == word if word else part for part, word in zip(parts, shape, strict=True)
    )


def _target(parts: tuple[str, ...]) -> Xid:
    """What is at a path in the registry. Raises ``XidError`` if nothing ever is."""
    found: list[str] = []
    for position, part in enumerate(parts):
        if position in (1, 3):
            if not is_segment(part):
                raise XidError("an id is a segment of a path without colon (RFC3986 segment-nz-nc)")
            part = check_id(entity_id(part))
        elif position == 5 and version_number(part) is None:
            raise XidError("a version is a number from 1 on, without leading zeros")
        found.append(part)
    return Xid(tuple(found))


@dataclass(frozen=True, kw_only=True)
class Request(DraftRequest[Path]):
    """A request to the door."""

    @property
    def target(self) -> Xid:
        """What the path names in the registry. Raises ``not_found``, and ``malformed_id`` where it was to be made."""
        if self.path.target is not None:
            return self.path.target
        if self.method in ("PUT", "POST"):
            shown = self.path.id[:_SHOWN]
            raise RegistryError("malformed_id", subject=self.path.text, id=shown, error_detail=self.path.fault)
        raise RegistryError("not_found", subject=self.path.text, detail=self.path.fault)

    @property
    def places(self) -> Places:
        """Where versions of schemas are to be had."""
        return Places(groups="schemagroups", bases=(self.base,), root=self.root, path=schema_path, xid=schema_xid)

    def url(self, xid: Xid) -> str:
        """The URL of an entity at this door."""
        return f"{self.base}{schema_path(xid)}"

    @property
    def given(self) -> Given:
        """What came beside the document, in the query or in headers (A-47). Raises ``bad_request``."""
        found = Given(**{name: self._given(name) for name in ATTRIBUTES})
        faults = given_faults(found)
        if faults:
            detail = "what came beside the document cannot be used"
            raise RegistryError("bad_request", subject=self.path.text, error_detail=detail, faults=faults)
        return found

    def _given(self, name: str) -> str:
        """An attribute, "" if it is nowhere. All who say it say the same."""
        said = {value for key, value in self.query if key == name}
        header = f"schema-{name}"
        if header in self.headers:
            said.add(self._decoded(header, name))
        if len(said) > 1:
            raise self.wrong(f'"{name}" is given more than once, and differently (query, header {header})')
        if name == "format" and said == {""}:
            raise self.wrong('"format" needs to be a name, or to be left out')
        return said.pop() if said else ""

    def _decoded(self, header: str, name: str) -> str:
        value = self.headers[header]
        if name in ("id", "authority"):  # URIs are ASCII, and what is percent-encoded in them stays so
            return value.strip(" \t")
        try:
            return decode(value)
        except ValueError as error:
            raise RegistryError("header_error", subject=self.path.text, name=header, error_detail=str(error)) from None


def read_request(scope: Scope, body: bytes, settings: Settings) -> Request:
    """The request that an ASGI scope and body make. Raises ``RegistryError`` for a path or query that is none."""
    return Request.of(scope, body, settings, path=parse(path_below(scope, MOUNT)), mount=MOUNT)
