"""Convert a JSON Schema document into normal form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from signalbook.formats.jsonschema.document import (
    JsonSchemaDocument,
    find_fragment,
    list_nested_ids,
    lookup,
    make_uri,
    resolve_uri,
)
from signalbook.formats.jsonschema.normal import (
    ANY,
    BOTH,
    NEVER,
    Arrays,
    NormalForm,
    Numbers,
    Strings,
    intersect_all,
    make_objects,
    make_unknown,
    unite,
)
from signalbook.values import JSON, JSONObject

# Parts of a schema that are nested deeper than this are left to the validator.
MAX_LEVELS: Final = 64
_MAX_VALUES: Final = 2000
_CONTENT: Final = frozenset({"contentEncoding", "contentMediaType"})
# Keywords that constrain a value in ways that the normal form cannot express.
_UNSAID: Final = frozenset(
    {
        "not", "if", "patternProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas",
        "contains", "unevaluatedItems", "unevaluatedProperties", "prefixItems", "$dynamicRef", "$recursiveRef",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a schema: the URI of the document and the JSON Pointer in it."""

    document: str
    pointer: str

    def descend(self, *parts: str | int) -> Location:
        """Return the location of the sub-schema at ``parts``."""
        tail = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
        return Location(self.document, self.pointer + tail)

    @property
    def uri(self) -> str:
        return make_uri(self.document, self.pointer)


def read(document: JsonSchemaDocument, uri: str) -> NormalForm:
    """Return the normal form of the schema at ``uri``, cached in the document."""
    key = ("node", uri)
    if key not in document.cache:
        document.cache[key] = _read_cached(document, uri)
    node: NormalForm = document.cache[key]
    return node


def _read_cached(document: JsonSchemaDocument, uri: str) -> NormalForm:
    """Return the normal form of the schema at ``uri``, sharing results with other parts of the document.

    If recursion was cut, the shared results depend on where reading started, so the schema is read again alone.
    """
    if "reader" not in document.cache:
        document.cache["reader"] = _Reader(document)
    reader: _Reader = document.cache["reader"]
    node = reader.start(uri)
    return _Reader(document).start(uri) if reader.cut else node


class _Reader:
    """Reads schemas of one document and of documents that it refers to; each reference target is read once."""

    def __init__(self, document: JsonSchemaDocument) -> None:
        self.document = document
        self.year = document.dialect.year
        self.known: dict[str, NormalForm] = {}
        self.open: set[str] = set()
        self.cut = False
        self.depth = 0
        # A nested `$id` changes the meaning of pointers and references, so leave all references to the validator.
        self.plain = not any(True for base, root in document.documents.items() for _ in list_nested_ids(root, base))

    def start(self, uri: str) -> NormalForm:
        """Return the normal form of the schema at the absolute ``uri``."""
        base, _, fragment = uri.partition("#")
        return self.refer(f"#{fragment}", Location(base, ""))

    def refer(self, reference: str, at: Location) -> NormalForm:
        """Return the normal form of a reference's target; unknown if the target contains the
        reference or cannot be read.
        """
        target = resolve_uri(at.document, reference)
        fragment = find_fragment(reference)
        place = Location(target, fragment)
        root = self.document.documents.get(target)
        odd = not self.plain or (fragment and not fragment.startswith("/"))
        if root is None or odd or self.document.is_foreign(root):
            return make_unknown(place.uri)
        if place.uri in self.open:
            self.cut = True
            return make_unknown(place.uri)
        if place.uri not in self.known:
            self.open.add(place.uri)
            self.known[place.uri] = self.read(lookup(root, fragment), place)
            self.open.discard(place.uri)
        return self.known[place.uri]

    def read(self, schema: JSON, at: Location) -> NormalForm:
        """Return the normal form of ``schema``, which is located at ``at``."""
        if isinstance(schema, bool):
            return ANY if schema else NEVER
        if not schema:
            return ANY
        if self.depth == MAX_LEVELS:
            self.cut = True
            return make_unknown(at.uri)
        self.depth += 1
        node = intersect_all(self._read_parts(schema, at))
        self.depth -= 1
        if node is ANY and not _find_description(schema):
            return ANY
        return replace(node, uris=(at.uri,), description=_find_description(schema) or node.description)

    def _read_parts(self, schema: JSONObject, at: Location) -> list[NormalForm]:
        """Return the normal forms whose intersection is the normal form of ``schema``."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and self.year < 2019:
            return [self.refer(reference, at)]
        parts = [self._read_own(schema, at), *self._read_values(schema)]
        if isinstance(reference, str):
            parts.append(self.refer(reference, at))
        parts += [self.read(item, at.descend("allOf", i)) for i, item in enumerate(schema.get("allOf", ()))]
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                choices = [self.read(item, at.descend(keyword, i)) for i, item in enumerate(schema[keyword])]
                parts.append(unite(choices, once=keyword == "oneOf"))
        return parts

    def _read_own(self, schema: JSONObject, at: Location) -> NormalForm:
        """Return the normal form of the keywords in ``schema`` itself, without references and combined schemas."""
        allowed = schema.get("type", _JSON_TYPES)
        allowed = {allowed} if isinstance(allowed, str) else set(allowed)
        content = self.year in (2017, 2018) and bool(_CONTENT & schema.keys())
        return NormalForm(
            null="null" in allowed,
            booleans=BOTH if "boolean" in allowed else frozenset(),
            numbers=self._read_numbers(schema, "number" not in allowed) if allowed & {"number", "integer"} else None,
            strings=_read_strings(schema, exact=not content) if "string" in allowed else None,
            arrays=self._read_arrays(schema, at) if "array" in allowed else None,
            objects=self._read_objects(schema, at) if "object" in allowed else None,
            exact=not _UNSAID & schema.keys(),
        )

    def _read_values(self, schema: JSONObject) -> list[NormalForm]:
        nodes = []
        if isinstance(schema.get("enum"), list):
            nodes.append(_build_closed(schema["enum"]))
        if "const" in schema and self.year > 2013:
            nodes.append(_build_closed([schema["const"]]))
        return nodes

    def _read_numbers(self, schema: JSONObject, integer: bool) -> Numbers:
        low, low_open = _read_bound(schema, "minimum", "exclusiveMinimum", max)
        high, high_open = _read_bound(schema, "maximum", "exclusiveMaximum", min)
        step = schema.get("multipleOf")
        whole = step is None or step == int(step)
        return Numbers(
            integer=integer,
            low=low,
            low_open=low_open,
            high=high,
            high_open=high_open,
            step=int(step) if step is not None and whole else None,
            scale=0 if step is None or whole else -int(Decimal(str(step)).as_tuple().exponent),
            exact=whole,
        )

    def _read_arrays(self, schema: JSONObject, at: Location) -> Arrays:
        items = schema.get("items", True)
        single = not isinstance(items, list) and "prefixItems" not in schema
        return Arrays(
            item=self.read(items, at.descend("items")) if single else ANY,
            low=int(schema.get("minItems", 0)),
            high=_parse_whole(schema.get("maxItems")),
            exact=single and schema.get("uniqueItems") is not True,
        )

    def _read_objects(self, schema: JSONObject, at: Location) -> Any:
        members = {
            name: self.read(member, at.descend("properties", name))
            for name, member in schema.get("properties", {}).items()
        }
        required = schema.get("required", ())
        extra = schema.get("additionalProperties", True)
        return make_objects(
            members,
            required if isinstance(required, list) else (),
            ANY if "patternProperties" in schema else self.read(extra, at.descend("additionalProperties")),
            low=int(schema.get("minProperties", 0)),
            high=_parse_whole(schema.get("maxProperties")),
        )


_JSON_TYPES: Final = ("null", "boolean", "number", "string", "array", "object")


def _find_description(schema: JSONObject) -> str:
    text = schema.get("description") or schema.get("title") or ""
    return text if isinstance(text, str) else ""


def _parse_whole(value: JSON) -> int | None:
    return None if value is None else int(value)


def _read_strings(schema: JSONObject, *, exact: bool) -> Strings:
    return Strings(
        low=int(schema.get("minLength", 0)),
        high=_parse_whole(schema.get("maxLength")),
        patterns=(schema["pattern"],) if "pattern" in schema else (),
        format=form if isinstance(form := schema.get("format"), str) else "",
        exact=exact,
    )


def _read_bound(
    schema: JSONObject, closed: str, opened: str, stricter: Callable[..., Any]
) -> tuple[int | float | None, bool]:
    """Return a bound, and True if the bound itself is excluded, which draft-04 states with a boolean."""
    bound, limit = schema.get(closed), schema.get(opened)
    if limit is None or isinstance(limit, bool):
        return bound, bool(limit) and bound is not None
    if bound is None or stricter(bound, limit) == limit:
        return limit, True
    return bound, False


def _build_closed(values: list[JSON]) -> NormalForm:
    """Return the normal form for an ``enum`` or ``const`` with these ``values``."""
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    whole = [int(value) for value in numbers if value == int(value)]
    strings = frozenset(value for value in values if isinstance(value, str))
    small = len(values) <= _MAX_VALUES
    lists = any(isinstance(value, list) for value in values)
    dicts = any(isinstance(value, dict) for value in values)
    return NormalForm(
        null=None in values,
        booleans=frozenset(value for value in values if isinstance(value, bool)),
        numbers=_build_closed_numbers(numbers, whole, small=small),
        strings=(Strings(values=strings) if small else Strings(exact=False)) if strings else None,
        arrays=Arrays(item=ANY, exact=False) if lists else None,
        objects=make_objects({}, (), ANY, exact=False) if dicts else None,
    )


def _build_closed_numbers(numbers: list[int | float], whole: list[int], *, small: bool) -> Numbers | None:
    if not numbers:
        return None
    if small and len(whole) == len(numbers):
        return Numbers(integer=True, values=frozenset(whole))
    return Numbers(exact=False)
