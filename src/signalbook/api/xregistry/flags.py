"""Request flags: the query string (core/spec.md "Request Flags", core/http.md "Request Flags / Query Parameters")."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

from signalbook.engine import commands
from signalbook.engine.capabilities import resolve_ignore
from signalbook.errors import RegistryError
from signalbook.values import JSONObject
from signalbook.xid import Xid

_MAX_PARAMETERS: Final = 1000
_ONCE: Final = ("cursor", "epoch", "limit", "setdefaultversionid", "sort", "specversion")
_TEXTS: Final = ("cursor", "limit", "setdefaultversionid", "sort", "specversion")
_PAGING: Final = ("cursor", "limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFlags:
    """The flags of one request as sent; None is absence. Parameters that are no flags are not here (R136).

    ``limit`` and ``cursor`` are no flags, but ask for a page (R286).
    """

    binary: bool = False
    collections: bool = False
    cursor: str | None = None
    doc: bool = False
    epoch: int | None = None
    filter: tuple[str, ...] = ()
    ignore: tuple[str, ...] | None = None
    inline: tuple[str, ...] = ()
    limit: str | None = None
    setdefaultversionid: str | None = None
    sort: str | None = None
    specversion: str | None = None

    def supported(self, capabilities: JSONObject) -> QueryFlags:
        """These flags without those that are switched off: they are ignored (R119)."""
        if self is NOTHING:
            return self
        on = (*capabilities["flags"], *(_PAGING if capabilities.get("pagination") else ()))
        off = {name: value for name, value in _NONE.items() if name not in on}
        return replace(self, **off) if off else self

    def for_write(self, capabilities: JSONObject, target: Xid) -> commands.Flags:
        """The flags of a command. Raises ``bad_ignore`` (R204)."""
        ignore: frozenset[str] = frozenset()
        if self.ignore is not None:
            ignore = resolve_ignore(capabilities, self.ignore, target)
        return commands.Flags(epoch=self.epoch, ignore=ignore, setdefaultversionid=self.setdefaultversionid)


NOTHING: Final = QueryFlags()
_NONE: Final = {name: getattr(NOTHING, name) for name in QueryFlags.__dataclass_fields__}


def parse(query: bytes, *, subject: str) -> QueryFlags:
    """Read a query string.

    Raises ``bad_request`` for one that cannot be read and ``bad_flag`` for a single-valued flag that is repeated.
    """
    if not query:
        return NOTHING
    found: dict[str, list[str]] = {}
    for name, value in _pairs(query, subject):
        if name in _NONE:
            found.setdefault(name, []).append(value)
    for name in _ONCE:
        if len(found.get(name, ())) > 1:
            detail = f"?{name} may be given once"
            raise RegistryError("bad_flag", subject=subject, flag=name, detail=detail)
    return QueryFlags(
        binary=_on(found, "binary"),
        collections=_on(found, "collections"),
        doc=_on(found, "doc"),
        epoch=_epoch(found["epoch"][0], subject) if "epoch" in found else None,
        filter=tuple(found.get("filter", ())),
        ignore=_listed(found["ignore"]) if "ignore" in found else None,
        inline=tuple(found.get("inline", ())),
        **{name: found[name][0] for name in _TEXTS if name in found},
    )


def check_specversion(wanted: str | None, supported: Collection[str], *, subject: str) -> None:
    """The server speaks the version asked for, its patch number aside (R180), else ``unsupported_specversion``."""
    if wanted is None or _comparable(wanted) in {_comparable(version) for version in supported}:
        return
    listed = ", ".join(supported)
    raise RegistryError("unsupported_specversion", subject=subject, specversion=wanted, list=listed)


def _comparable(version: str) -> tuple[str, str]:
    numbers, _, suffix = version.casefold().removeprefix("v").partition("-")
    return ".".join(numbers.split(".")[:2]), suffix


def _pairs(query: bytes, subject: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        detail = f"the query string is not percent-encoded UTF-8 of at most {_MAX_PARAMETERS} parameters"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None


def _on(found: dict[str, list[str]], name: str) -> bool:
    """A boolean flag is on by being there (R175); ``=false`` is what a client means by it."""
    return name in found and found[name][-1].lower() != "false"


def _listed(values: list[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(","))


def _epoch(value: str, subject: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    detail = f'the flag "epoch" needs an unsigned integer, not "{value}"'
    raise RegistryError("bad_request", subject=subject, error_detail=detail)
