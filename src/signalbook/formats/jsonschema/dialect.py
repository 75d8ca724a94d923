"""The versions of JSON Schema: names in registries, ``$schema`` URIs, validators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from signalbook.values import JSON, Finding

_PREFIX: Final = "JsonSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One version of JSON Schema. ``year`` orders them; ``draft`` is the library's number for it."""

    version: str
    uri: str
    draft: int
    year: int
    validator: Any

    @property
    def format(self) -> str:
        """The canonical ``format`` value."""
        return f"{_PREFIX}/{self.version}"


def _dialect(version: str, uri: str, draft: int, year: int, validator: Any) -> Dialect:
    return Dialect(version=version, uri=uri, draft=draft, year=year, validator=validator)


_HOST: Final = "http://json-schema.org"
DIALECTS: Final[tuple[Dialect, ...]] = (
    _dialect("draft-04", f"{_HOST}/draft-04/schema", jsonschema_rs.Draft4, 2013, jsonschema_rs.Draft4Validator),
    _dialect("draft-06", f"{_HOST}/draft-06/schema", jsonschema_rs.Draft6, 2017, jsonschema_rs.Draft6Validator),
    _dialect("draft-07", f"{_HOST}/draft-07/schema", jsonschema_rs.Draft7, 2018, jsonschema_rs.Draft7Validator),
    _dialect(
        "draft/2019-09",
        "https://json-schema.org/draft/2019-09/schema",
        jsonschema_rs.Draft201909,
        2019,
        jsonschema_rs.Draft201909Validator,
    ),
    _dialect(
        "draft/2020-12",
        "https://json-schema.org/draft/2020-12/schema",
        jsonschema_rs.Draft202012,
        2020,
        jsonschema_rs.Draft202012Validator,
    ),
)
# What a document without `$schema` is taken for, if its format names no version: the version xRegistry starts with.
DEFAULT: Final = DIALECTS[2]
# draft-07, draft/07, draft/2020-12, draft-2020-12, 2020-12: all are met in registries (G-13).
_BY_VERSION: Final = {
    spelling: dialect
    for dialect in DIALECTS
    for tail in [dialect.version[len("draft-") :]]
    for spelling in (f"draft-{tail}", f"draft/{tail}", tail, f"draft{tail}", f"draft-{tail.lstrip('0')}")
}


def by_format(format: str) -> Dialect | None:
    """The dialect ``JsonSchema/<version>`` names, or ``None`` if it names none that is known."""
    return _BY_VERSION.get(format.partition("/")[2].strip().lower())


def by_schema_uri(uri: str) -> Dialect | None:
    """The dialect of a ``$schema`` value; a trailing ``#`` and http for https do not matter (G-14)."""
    return _BY_URI.get(_bare(uri))


def choose(root: JSON, format: str) -> tuple[Dialect, list[Finding]]:
    """The dialect to read a document by, and what is wrong if ``format`` and ``$schema`` disagree (G-14)."""
    named = by_format(format)
    uri = root.get("$schema") if isinstance(root, dict) else None
    if not isinstance(uri, str):
        return named or DEFAULT, []
    declared = by_schema_uri(uri)
    if declared is None:
        text = f"{uri!r} is not a known version of JSON Schema"
    elif named is not None and named is not declared:
        text = f"the format says {named.format}, but $schema says {declared.format}"
    else:
        return declared, []
    return named or DEFAULT, [Finding(path="/$schema", rule="$schema", message=text)]


def _bare(uri: str) -> str:
    return uri.rstrip("#").removeprefix("https://").removeprefix("http://").lower()


_BY_URI: Final = {_bare(dialect.uri): dialect for dialect in DIALECTS}
