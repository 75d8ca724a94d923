"""Attributes as ``xRegistry-`` headers, both ways (core/http.md "HTTP Header Values", R158-R168). Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from signalbook.api.encoding import decode, encode
from signalbook.errors import RegistryError
from signalbook.model import Attribute, AttributeSet, ResourceType
from signalbook.values import JSON, JSONObject

PREFIX: Final = "xregistry-"
"""What the header names start with, in lower case."""
NULL: Final = "null"
"""The value that deletes an attribute (R162)."""

_NAVIGATION: Final = frozenset({"metaurl", "versionsurl", "versionscount"})
_NEVER: Final = frozenset({"meta", "versions", "contenttype"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", re.ASCII)


def read(headers: Iterable[tuple[str, str]], type: ResourceType, *, subject: str) -> JSONObject:
    """The attributes that a write in document form brings in ``headers`` (names in lower case).

    An attribute whose value is ``null`` is None; a map has exactly the keys that were sent (R163). Values take the type
    the model gives the attribute; one that does not read as such stays text, for the check of attributes to tell.
    Raises ``header_error`` and ``extra_xregistry_header``.
    """
    texts: JSONObject = {}
    for header, value in headers:
        if header.startswith(PREFIX):
            name, _, key = header.removeprefix(PREFIX).partition(".")
            _check_allowed(header, name, type, subject)
            if name not in _NAVIGATION:
                _collect(texts, name, key, _decoded(header, value, subject))
    return _typed(texts, type.attributes)


def _decoded(header: str, value: str, subject: str) -> str:
    try:
        return decode(value)
    except ValueError as error:
        raise RegistryError("header_error", subject=subject, name=header, error_detail=str(error)) from None


def _collect(texts: JSONObject, name: str, key: str, text: str) -> None:
    if not key:
        texts[name] = text
        return
    if not isinstance(texts.get(name), dict):
        texts[name] = {}
    if text != NULL:
        texts[name][key] = text


def refuse(headers: Iterable[tuple[str, str]], *, subject: str) -> None:
    """Raise ``extra_xregistry_header`` if there is one in ``headers``: the body says it all (R165)."""
    for header, _ in headers:
        if header.startswith(PREFIX):
            detail = "attributes are in the body of this request"
            raise RegistryError("extra_xregistry_header", subject=subject, name=header, error_detail=detail)


def _check_allowed(header: str, name: str, type: ResourceType, subject: str) -> None:
    if name in (type.singular, f"{type.singular}base64"):
        detail = "the document is the body of this request"
    elif name == "contenttype":
        detail = "the content type is the header Content-Type"
    elif name in _NEVER:
        detail = "nested entities need the $details form"
    else:
        return
    raise RegistryError("extra_xregistry_header", subject=subject, name=header, error_detail=detail)


def _typed(texts: JSONObject, rules: AttributeSet) -> JSONObject:
    """Each text as the type of its attribute, which may depend on other attributes (``ifvalues``)."""
    known = rules.active(texts)
    result: JSONObject = {}
    for name, text in texts.items():
        attribute = known.get(name)
        if isinstance(text, dict):
            item = attribute.item if attribute else None
            result[name] = {key: _value(part, item) for key, part in text.items()} or None
        else:
            result[name] = None if text == NULL else _value(text, attribute)
    return result


def _value(text: str, attribute: Attribute | None) -> JSON:
    """``text`` as the attribute's type; of an unknown or ``any`` one a string (R12)."""
    kind = attribute.type if attribute else "string"
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind in ("integer", "uinteger") and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "decimal" and _DECIMAL.fullmatch(text):
        return float(text)
    return text


def write(attributes: JSONObject, type: ResourceType) -> Iterator[tuple[str, str]]:
    """The headers that show an entity's ``attributes`` beside its document (R158-R160)."""
    never = {*_NEVER, type.singular, f"{type.singular}base64"}
    for name, value in attributes.items():
        if name in never:
            continue
        if not isinstance(value, (dict, list)):
            yield f"xRegistry-{name}", encode(_text(value))
        elif isinstance(value, dict) and _is_map(name, type.attributes):
            yield from ((f"xRegistry-{name}.{key}", encode(_text(item))) for key, item in value.items())


def _is_map(name: str, attributes: AttributeSet) -> bool:
    attribute = attributes.get(name)
    return attribute is not None and attribute.type == "map" and attribute.item is not None and attribute.item.scalar


def _text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
