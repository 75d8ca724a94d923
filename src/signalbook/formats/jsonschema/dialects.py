"""The versions of JSON Schema: how documents name them, and their validators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

from signalbook.formats.base import shorten
from signalbook.formats.jsonschema import regexes
from signalbook.values import JSON, Finding

_FORMAT_NAME: Final = "JsonSchema"
UNUSABLE: Final = (ValueError, jsonschema_rs.ReferencingError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDialect:
    """A version of JSON Schema. ``year`` orders the versions; ``draft`` is the constant for it in ``jsonschema_rs``."""

    version: str
    uri: str
    draft: int
    year: int
    validator: Any

    @property
    def format(self) -> str:
        """The canonical ``format`` value."""
        return f"{_FORMAT_NAME}/{self.version}"


def _build_dialect(version: str, uri: str, draft: int, year: int, validator: Any) -> SchemaDialect:
    return SchemaDialect(version=version, uri=uri, draft=draft, year=year, validator=validator)


_HOST: Final = "http://json-schema.org"
DIALECTS: Final[tuple[SchemaDialect, ...]] = (
    _build_dialect("draft-04", f"{_HOST}/draft-04/schema", jsonschema_rs.Draft4, 2013, jsonschema_rs.Draft4Validator),
    _build_dialect("draft-06", f"{_HOST}/draft-06/schema", jsonschema_rs.Draft6, 2017, jsonschema_rs.Draft6Validator),
    _build_dialect("draft-07", f"{_HOST}/draft-07/schema", jsonschema_rs.Draft7, 2018, jsonschema_rs.Draft7Validator),
    _build_dialect(
        "draft/2019-09",
        "https://json-schema.org/draft/2019-09/schema",
        jsonschema_rs.Draft201909,
        2019,
        jsonschema_rs.Draft201909Validator,
    ),
    _build_dialect(
        "draft/2020-12",
        "https://json-schema.org/draft/2020-12/schema",
        jsonschema_rs.Draft202012,
        2020,
        jsonschema_rs.Draft202012Validator,
    ),
)
# The version for documents without `$schema` whose format names no version: draft-07, with which xRegistry begins.
DEFAULT: Final = DIALECTS[2]
# All these spellings occur in registries: draft-07, draft/07, draft/2020-12, draft-2020-12, 2020-12 (G-13).
_BY_VERSION: Final = {
    spelling: dialect
    for dialect in DIALECTS
    for tail in [dialect.version[len("draft-") :]]
    for spelling in (f"draft-{tail}", f"draft/{tail}", tail, f"draft{tail}", f"draft-{tail.lstrip('0')}")
}


def find_by_format(format: str) -> SchemaDialect | None:
    """Return the dialect that ``JsonSchema/<version>`` names, or None if it names no supported version."""
    return _BY_VERSION.get(format.partition("/")[2].strip().lower())


def find_by_schema_uri(uri: str) -> SchemaDialect | None:
    """Return the dialect of a ``$schema`` value, or None if it is unknown; a trailing ``#`` and http or https are
    ignored (G-14).
    """
    return _BY_URI.get(_normalize_uri(uri))


def choose_dialect(root: JSON, format: str) -> tuple[SchemaDialect, list[Finding]]:
    """Return the dialect of a document, and a finding if ``format`` and ``$schema`` disagree (G-14).

    If ``$schema`` is an unknown URI, such as a meta-schema that extends a version, the version in ``format`` is used
    and the finding is a warning.
    """
    stated = find_by_format(format)
    uri = root.get("$schema") if isinstance(root, dict) else None
    if not isinstance(uri, str):
        return stated or DEFAULT, []
    declared = find_by_schema_uri(uri)
    if declared is None:
        text = f"{shorten(repr(uri))} is not a known version of JSON Schema"
        if stated is not None:
            text = f"{text}: the document is read as {stated.format}, as its format says"
            return stated, [Finding(path="/$schema", rule="$schema", message=text, severity="warning")]
    elif stated is not None and stated is not declared:
        text = f"the format says {stated.format}, but $schema says {declared.format}"
    else:
        return declared, []
    return stated or DEFAULT, [Finding(path="/$schema", rule="$schema", message=text)]


def _normalize_uri(uri: str) -> str:
    return uri.rstrip("#").removeprefix("https://").removeprefix("http://").lower()


_BY_URI: Final = {_normalize_uri(dialect.uri): dialect for dialect in DIALECTS}


def compile_validator(
    dialect: SchemaDialect, schema: JSON, registry: jsonschema_rs.Registry | None, *, base_uri: str | None = None
) -> jsonschema_rs.Validator:
    """Return a validator for ``schema`` that never fetches documents and ignores ``format``. Raises
    one of ``UNUSABLE``.
    """
    validator: jsonschema_rs.Validator = dialect.validator(
        schema,
        registry=registry,
        base_uri=base_uri,
        offline=True,
        validate_formats=False,
        pattern_options=regexes.OPTIONS,
    )
    return validator


@lru_cache(maxsize=8)
def find_meta_validator(dialect: SchemaDialect) -> jsonschema_rs.Validator:
    """Return the validator for schemas of ``dialect``."""
    return compile_validator(dialect, {"$ref": dialect.uri + ("" if dialect.year >= 2019 else "#")}, None)
