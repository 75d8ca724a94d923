"""Schemas, and values that stand a chance with them."""

from typing import Any

from hypothesis import strategies as st

from signalbook.formats import PayloadError, Schema

NAMES = st.sampled_from(["a", "b", "c", "class", "_x", "x-y", "", "é", "field_2"])
TEXTS = st.one_of(st.sampled_from(["a", "b", "ab", "", "1", "12", "a-1", "é", "😀", "a\n", "٣"]), st.text(max_size=3))
WHOLE = st.one_of(st.integers(-3, 12), st.sampled_from([2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**70]))
NUMBERS = st.one_of(WHOLE, st.sampled_from([0.5, 1.0, 2.5, -1.5, 1e20, 3.0, 9007199254740992.0]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
PATTERNS = st.sampled_from(["^[a-z]+$", "^\\d{1,2}$", "b", "^(?:a|ab)-?[0-9]$", "^.$", "^(a+)+$", "[^a]", "^\\w*$"])
SMALL = st.integers(0, 3)


LEAVES: list[dict[str, st.SearchStrategy[Any]]] = [
    {"type": st.just("integer")},
    {"type": st.just("integer"), "minimum": NUMBERS},
    {"type": st.just("integer"), "exclusiveMaximum": NUMBERS, "multipleOf": st.sampled_from([1, 2, 3])},
    {"type": st.just("number")},
    {"type": st.just("number"), "minimum": NUMBERS, "exclusiveMaximum": NUMBERS},
    {"type": st.just("string"), "format": st.just("date-time")},
    {"type": st.just("string"), "minLength": SMALL, "maxLength": SMALL},
    {"type": st.just("string"), "pattern": PATTERNS},
    {"type": st.just(["string", "null"]), "maxLength": SMALL},
    {"type": st.just(["integer", "string"]), "minimum": SMALL},
    {"type": st.just("boolean")},
    {"type": st.just("boolean"), "enum": st.sampled_from([[True], [False]])},
    {"type": st.just("null")},
    {"type": st.just("object")},
    {"enum": st.lists(TEXTS, min_size=1, max_size=4)},
    {"enum": st.lists(SCALARS, min_size=1, max_size=4)},
    {"const": SCALARS},
    {"not": st.just({"type": "string"})},
    {},
]
COMBINED = ["nullable", "nullable", "allOf", "anyOf", "oneOf"]


@st.composite
def schemas(draw: st.DrawFn, depth: int) -> Any:
    kinds = ["leaf"] * 4 + (["object", "object", "array", "map", "combined", "ref"] if depth else ["bool"])
    match draw(st.sampled_from(kinds)):
        case "leaf":
            return draw(st.sampled_from(LEAVES).flatmap(st.fixed_dictionaries))
        case "object":
            return draw(objects(depth - 1))
        case "array":
            choices = [{}, {"minItems": 1}, {"maxItems": 2}, {"uniqueItems": True}]
            limits: dict[str, Any] = draw(st.sampled_from(choices))
            return {"type": "array", "items": draw(schemas(depth - 1)), **limits}
        case "map":
            return {"type": "object", "additionalProperties": draw(schemas(depth - 1))}
        case "combined":
            return draw(combined(depth - 1))
        case "bool":
            return draw(st.booleans())
    return {"$ref": "#/definitions/shared"}


@st.composite
def objects(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    members = {name: draw(schemas(depth)) for name in draw(st.lists(NAMES, max_size=4, unique=True))}
    some = st.sampled_from([*members, "a"])
    closed = {"additionalProperties": False}
    extra: dict[str, Any] = draw(st.sampled_from([{}, closed, closed, {"maxProperties": 2}]))
    return {"type": "object", "properties": members, "required": draw(st.lists(some, max_size=2, unique=True)), **extra}


@st.composite
def combined(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    keyword = draw(st.sampled_from(COMBINED))
    if keyword == "nullable":
        return {draw(st.sampled_from(["oneOf", "anyOf"])): [draw(schemas(depth)), {"type": "null"}]}
    if keyword == "allOf":
        return {"allOf": [draw(objects(depth)), draw(objects(depth))]}
    return {keyword: draw(st.lists(schemas(depth), min_size=1, max_size=3))}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    root = draw(objects(2)) if draw(st.integers(0, 9)) else draw(combined(2))
    shared = draw(objects(0)) if draw(st.booleans()) else draw(schemas(0))
    return {**root, "definitions": {"shared": shared}}


def instance_of(schema: Any, document: Any, draw: st.DrawFn, depth: int = 0) -> Any:
    """A value that stands a chance with ``schema``."""
    if not isinstance(schema, dict) or depth > 4:
        return draw(VALUES)
    if "$ref" in schema:
        return instance_of(document["definitions"]["shared"], document, draw, depth + 1)
    if "allOf" in schema:
        parts = [instance_of(part, document, draw, depth + 1) for part in schema["allOf"]]
        return {name: member for part in parts if isinstance(part, dict) for name, member in part.items()}
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return instance_of(draw(st.sampled_from(schema[keyword])), document, draw, depth + 1)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            declared = schema.get("properties", {})
            names = {*declared, *schema.get("required", ())} - set(draw(st.lists(NAMES, max_size=1)))
            if "additionalProperties" in schema and not declared:
                extra = schema["additionalProperties"]
                more = draw(st.lists(NAMES, max_size=2))
                return {name: instance_of(extra, document, draw, depth + 1) for name in more}
            return {name: instance_of(declared.get(name, True), document, draw, depth + 1) for name in sorted(names)}
        case "array":
            count = draw(st.integers(0, 3))
            return [instance_of(schema.get("items", True), document, draw, depth + 1) for _ in range(count)]
        case "string":
            return draw(TEXTS)
        case "integer" | "number":
            return draw(NUMBERS)
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
    return draw(VALUES)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    document = draw(documents())
    value = instance_of(document, document, draw)
    if isinstance(value, dict) and draw(st.booleans()):  # one member spoiled or added
        value = {**value, draw(NAMES): draw(VALUES)}
    return document, value


# A schema, and payloads that may be taken for others, with whether they conform.
EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "x-y": {"type": ["string", "null"]}, "any": {}, "on": {"const": True}},
    "required": ["n"],
}
ODD: list[tuple[bytes, bool]] = [
    (b'{"n": 1.0}', True),  # 1.0 is an integer
    (b'{"n": 1e2}', True),
    (b'{"n": "x", "n": 1}', True),  # of a member given twice the last one counts
    (b'{"n": 1, "n": "x"}', False),
    (b'{"n": true}', False),
    (b'{"n": 1, "on": 1}', False),
    (b'{"n": 1, "on": true}', True),
    (b'{"n": 1180591620717411303424}', True),
    (b'{"n": 1, "surplus": "\xff"}', False),  # not UTF-8, though nobody looks at it
    (b'{"n": 1, "any": "\xff"}', False),
    (b'{"n": 1, "any": "\\ud800"}', False),
    (b'{"n": 1, "surplus": [1,]}', False),
    (b'{"n": 1, "surplus": 1e400}', True),  # beyond a double, which JSON does not forbid
    (b'{"n": 1, "any": [-1E+00309]}', True),
    (b'{"n": 1, "any": ' + b"9" * 240 + b"e99}", True),
    (b'{"n": 1, "any": ' + b"9" * 400 + b".0}", True),
    (b'{"n": 1, "any": 1e1000000000}', False),  # a billion digits
    (b'{"n": 1, "any": ' + b"9" * 5000 + b"}", False),
    (b'{"n": 1, "any": "1e400", "surplus": 1e308}', True),
    (b'{"n": 1', False),
    (b'{"n": 1} ', True),
    (b'{"n": 1} 2', False),
    (b"", False),
    (b'{"n": 1, "surplus": ' + b"[" * 100_000, False),
]


def is_accepted(schema: Schema, payload: bytes) -> bool:
    try:
        schema.decode(payload)
    except PayloadError:
        return False
    return True
