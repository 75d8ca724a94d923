"""JSON, YAML and timestamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import yaml

from xregistry_conformance.errors import KitError

# A JSON value as decoded. `Any` inside, because a recursive alias makes every caller cast.
JSON = Any
JSONObject = dict[str, Any]

_MAX_DEPTH: Final = 128
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,12})?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)


def parse_json(data: bytes) -> JSON:
    """Decode JSON text. Raises ``ValueError`` for anything else, and for more than 128 levels of nesting."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if _is_deeper(value, _MAX_DEPTH):
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    return value


def _is_deeper(value: JSON, depth: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(items) and (depth == 0 or any(_is_deeper(item, depth - 1) for item in items))


def dump_json(value: JSON, *, indent: int | None = None) -> bytes:
    """Encode as compact UTF-8 JSON, or indented by ``indent`` spaces."""
    text = msgspec.json.encode(value)
    return text if indent is None else msgspec.json.format(text, indent=indent)


def parse_yaml(data: bytes, *, name: str) -> JSON:
    """Decode a YAML document. Raises ``KitError`` with ``name`` and the line."""
    try:
        return yaml.load(data, Loader=_LOADER)  # noqa: S506  both are safe loaders
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise KitError(f"{name}: {line}{error.problem or 'broken YAML'}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise KitError(f"{name}: {' '.join(str(error).split())}") from None


def parse_timestamp(text: str) -> datetime:
    """Parse an RFC3339 timestamp; without a zone it counts as UTC (R7). Digits beyond microseconds are cut.

    Raises ``ValueError`` for anything else.
    """
    if not _TIMESTAMP.fullmatch(text):
        raise ValueError(f"{text!r} is not an RFC3339 timestamp such as 2030-12-19T06:00:00Z")
    stamp = datetime.fromisoformat(text.upper())
    return stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
