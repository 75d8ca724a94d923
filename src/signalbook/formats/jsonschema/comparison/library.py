"""The terms of one document and of all it refers to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from signalbook.formats.base import pointer as pointer_of
from signalbook.formats.jsonschema.comparison import keywords
from signalbook.formats.jsonschema.comparison.resources import Resource, Resources
from signalbook.formats.jsonschema.comparison.term import Accepts, Says, Term, made
from signalbook.formats.jsonschema.dialect import by_schema_uri
from signalbook.formats.jsonschema.document import UNUSABLE, Document, meta_validator
from signalbook.formats.jsonschema.references import absolute, fragment_of, uri_of
from signalbook.values import JSON

_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Spot:
    """A schema's place: the innermost resource and the pointer in it.

    ``scope`` are the resources gone through to get there, outermost first, where a dynamic reference may ask for them.
    """

    resource: Resource
    pointer: str
    scope: tuple[str, ...]


class Library:
    """Makes each term once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.year = document.dialect.year
        self.resources = Resources(document)
        self.terms: dict[tuple[str, str, tuple[str, ...]], Term] = {}
        self.checked: dict[Term, bool] = {}

    def refer(self, uri: str) -> Term:
        """The term at an absolute URI."""
        return self._refer(uri, Spot(self.resources.by_uri[self.document.base], "", ()))

    def _refer(self, reference: str, spot: Spot) -> Term:
        uri, fragment = absolute(spot.resource.uri, reference), fragment_of(reference)
        target = self.resources.by_uri.get(uri)
        pointed = not fragment or fragment.startswith("/")
        pointer = fragment if pointed else self.resources.anchors.get((target.uri, fragment)) if target else None
        if target is None or pointer is None:
            return self._opaque(uri_of(uri, fragment))
        found = self._descend(target, pointer, spot.scope)
        return (
            found
            if found.raw is not _MISSING and self._is_schema(found, pointer)
            else self._opaque(uri_of(uri, fragment))
        )

    def _is_schema(self, term: Term, pointer: str) -> bool:
        """Whether a target is a schema: where the draft knows of none, nothing has been checked so far."""
        keyword, _, name = pointer[1:].partition("/")
        known = ("definitions", "$defs") if self.year >= 2019 else ("definitions",)
        if not pointer or (keyword in known and "/" not in name):
            return True
        if term not in self.checked:
            self.checked[term] = bool(meta_validator(self.document.dialect).is_valid(term.raw))
        return self.checked[term]

    def _descend(self, resource: Resource, pointer: str, scope: tuple[str, ...]) -> Term:
        node, done = resource.root, ""
        for token in pointer.split("/")[1:]:
            node, done = _step(node, token), f"{done}/{token}"
            inner = self.resources.at(node, resource)
            if inner is not resource:
                resource, done = inner, ""
        return self._term(node, Spot(resource, done, scope))

    def _term(self, schema: JSON, spot: Spot) -> Term:
        if self.resources.scoped and spot.resource.uri not in spot.scope:
            spot = Spot(spot.resource, spot.pointer, (*spot.scope, spot.resource.uri))
        key = (spot.resource.uri, spot.pointer, spot.scope)
        if key not in self.terms:
            self.terms[key] = Term(
                self._path(spot), schema, self.year, lambda: self._says(schema, spot), lambda: self._accepts(spot)
            )
        return self.terms[key]

    def _path(self, spot: Spot) -> str:
        pointer, home = spot.resource.pointer + spot.pointer, spot.resource.document
        return pointer if home == self.document.base else uri_of(home, pointer)

    def _sub(self, schema: JSON, spot: Spot, *tokens: str | int) -> Term:
        inner = self.resources.at(schema, spot.resource)
        pointer = spot.pointer + pointer_of(tokens) if inner is spot.resource else ""
        return self._term(schema, Spot(inner, pointer, spot.scope))

    def _says(self, schema: JSON, spot: Spot) -> Says:
        if not isinstance(schema, dict):
            return {"never": True} if schema is False else {}
        if self._foreign(spot.resource):
            return {"ref": self._opaque(uri_of(spot.resource.uri, spot.pointer))}
        reference = schema.get("$ref")
        if self.year < 2019 and isinstance(reference, str):
            return {"ref": self._refer(reference, spot)}
        found: dict[str, Any] = keywords.says(schema, self.year, lambda item, *tokens: self._sub(item, spot, *tokens))
        if isinstance(reference, str):
            found["ref"] = self._refer(reference, spot)
        dynamic = schema.get("$dynamicRef" if self.year == 2020 else "$recursiveRef")
        if isinstance(dynamic, str) and self.year >= 2019:
            found["dynamicRef"] = self._outermost(dynamic, spot)
        return found

    def _outermost(self, reference: str, spot: Spot) -> Term:
        """What a dynamic reference names: the outermost anchor of that name, if the nearest one is dynamic."""
        name, nearest = fragment_of(reference), absolute(spot.resource.uri, reference)
        for uri in spot.scope if (nearest, name) in self.resources.dynamic else ():
            if (uri, name) in self.resources.dynamic:
                pointer = self.resources.anchors.get((uri, name), "")
                return self._descend(self.resources.by_uri[uri], pointer, spot.scope)
        return self._refer(reference, spot)

    def _accepts(self, spot: Spot) -> Accepts | None:
        if self.resources.scoped or self._foreign(spot.resource):
            return None
        try:
            validator = self.document.validator(uri_of(spot.resource.uri, spot.pointer))
        except UNUSABLE:
            return None
        return lambda value: bool(validator.is_valid(value))

    def _foreign(self, resource: Resource) -> bool:
        """Whether a resource is in another version of JSON Schema than the document."""
        uri = resource.root.get("$schema") if isinstance(resource.root, dict) else None
        return isinstance(uri, str) and by_schema_uri(uri) is not self.document.dialect

    def _opaque(self, uri: str) -> Term:
        """Something only the validator understands: the same as itself and as nothing else."""
        known = by_schema_uri(uri) is not None
        key = (uri, "opaque", ())
        if key not in self.terms:
            says = {"opaque": (uri, "" if known else self.document.fingerprint)}
            self.terms[key] = made(says, self.year, uri)
        return self.terms[key]


def _step(node: JSON, token: str) -> JSON:
    key = token.replace("~1", "/").replace("~0", "~")
    if isinstance(node, list):
        return node[int(key)] if key.isdecimal() and int(key) < len(node) else _MISSING
    return node.get(key, _MISSING) if isinstance(node, dict) else _MISSING
