"""Content types: how they compare, and which one a schema format implies (domain.md F-14, F-33, K-20)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

from signalbook.formats.base import is_json, media_type

# Schema format, in lower case -> the content type its payloads have unless the definition says otherwise.
IMPLIED: Final = {
    "jsonschema": "application/json",
    "jsonstructure": "application/json",
    "xsd": "application/xml",
    "xmlschema": "application/xml",
    "avro": "application/avro",
    "protobuf": "application/protobuf",
}
_ALSO: Final = {
    "application/xml": frozenset({"text/xml"}),
    "application/avro": frozenset({"avro/binary", "application/vnd.apache.avro", "application/x-avro"}),
    "application/protobuf": frozenset(
        {"application/x-protobuf", "application/vnd.google.protobuf", "application/x-google-protobuf"}
    ),
}

_LONGEST: Final = 256


def implied_content_type(format: str) -> str:
    """The content type of payloads of a schema format, ``""`` if none is known (F-33)."""
    return IMPLIED.get(format.partition("/")[0].strip().lower(), "")


def _remembered(compare: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    """``compare``, which remembers answers, but of no longer texts than are usual: strangers may send any."""
    known = lru_cache(maxsize=4096)(compare)

    @wraps(compare)
    def compared(expected: str, actual: str) -> bool:
        return known(expected, actual) if len(actual) <= _LONGEST else compare(expected, actual)

    return compared


@_remembered
def same_content_type(declared: str, actual: str) -> bool:
    """Whether ``actual`` is the declared type and has at least the declared parameters (K-20).

    Types and parameter names compare without case, and so do the values of ``charset``.
    """
    return media_type(declared) == media_type(actual) and _parameters(declared) <= _parameters(actual)


@_remembered
def is_implied(implied: str, actual: str) -> bool:
    """Whether ``actual`` is one of the names of an implied type (F-33)."""
    name = media_type(actual)
    if implied == "application/json":
        return is_json(name)
    if implied == "application/xml" and name.endswith("+xml"):
        return True
    return name == implied or name in _ALSO.get(implied, ())


def _parameters(content_type: str) -> set[tuple[str, str]]:
    pairs = (part.partition("=") for part in content_type.split(";")[1:] if "=" in part)
    return {_parameter(name.strip().lower(), value.strip().strip('"')) for name, _, value in pairs}


def _parameter(name: str, value: str) -> tuple[str, str]:
    return name, value.lower() if name == "charset" else value
