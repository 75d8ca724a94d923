"""``typemap``: how a document of some content type is shown inside JSON (core/model.md "typemap", core R102, R103)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, get_args

from signalbook.model.faults import Place
from signalbook.model.types import describe
from signalbook.values import JSON

DocumentType: TypeAlias = Literal["binary", "json", "string"]

IMPLICIT: Final[Mapping[str, DocumentType]] = {"application/json": "json", "*+json": "json", "text/plain": "string"}


def check_typemap(given: JSON, place: Place) -> dict[str, DocumentType]:
    """The map with its values in lower case; notes at ``place`` what is wrong."""
    if not isinstance(given, dict):
        place.fault(f"must be an object, not {describe(given)}")
        return {}
    result: dict[str, DocumentType] = {}
    for key, value in given.items():
        kind = next((k for k in get_args(DocumentType) if isinstance(value, str) and k == value.lower()), None)
        if not key or key.count("*") > 1:
            place.fault("a media type is not empty and has at most one *", key)
        if kind is None:
            place.fault(f"{describe(value)} is none of binary, json, string", key)
        else:
            result[key] = kind
    return result


def compile_typemap(given: Mapping[str, DocumentType]) -> Callable[[str], DocumentType]:
    """A function from a content type, parameters and all, to how its documents are shown."""
    entries = {**IMPLICIT, **{key.lower(): value for key, value in given.items()}}
    patterns = [
        (re.compile(".*".join(map(re.escape, key.split("*"))), re.DOTALL), value) for key, value in entries.items()
    ]

    def type_of(contenttype: str) -> DocumentType:
        media_type = contenttype.partition(";")[0].strip().lower()
        kinds = {value for pattern, value in patterns if pattern.fullmatch(media_type)}
        return kinds.pop() if len(kinds) == 1 else "binary"

    return type_of
