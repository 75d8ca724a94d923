"""Definitions that are hard to write in most languages: names, texts and shapes."""

from typing import Any

from tests.codegen.standalone import hostile

EVIL = '"""\nimport os */ `${x}` \\u002a/ \u2028 $x %s\nos.system("x")  // \\'
NAMES = ["class", "Class.", "CLASS-", "1", "日本", "__init__", "a b", "a.b", "None", "func", "index", "definition"]
GROUPS = ["payloads", "runtime", "import", "é", "rules", "type"]
MEMBERS = [
    *("a", "class", "None", "string", "func", "type", "a-b", "a.b", "a_b", "_a", "__b", "1", " ", "é", "日本"),
    *("$ref", "payload", "Payload", "build", "getClass", "hashCode", "nil", "x" * 200, '"', "'", "\\", "`", "\n", "A"),
    *("__proto__", "constructor", "toString", "default", "record", "var", "String", "error"),
]


def message(schema: Any, **more: Any) -> dict[str, Any]:
    return {
        "envelope": "CloudEvents/1.0", "envelopemetadata": {"source": {"value": "/hard"}},
        "dataschemaformat": "JsonSchema/draft/2020-12", "dataschema": schema, **more,
    }  # fmt: skip


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_TEXT = {"type": "string"}
SHAPES: dict[str, Any] = {
    "names": {"type": "object", "properties": dict.fromkeys(MEMBERS, _TEXT)},
    "evil": {"type": "object", "description": EVIL, "properties": {EVIL: {"type": "string", "description": EVIL},
                                                                   "e": {"enum": [EVIL, "a'b", 'a"b', ""]}}},
    "empty": {"type": "object", "additionalProperties": False},
    "nothing": {},
    "nameless": {"type": "object", "properties": {"": _TEXT}},
    "text": _TEXT,
    "list": {"type": "array", "items": {"type": ["string", "null"]}},
    "tree": {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}}},
    "wide": {"type": "object", "properties": {f"member{n}": {"type": "integer"} for n in range(5000)}},
    "union": {"anyOf": [_object(a=_TEXT, b=_TEXT), _object(a={"type": "integer"}), {"type": "array", "items": True}]},
    "parts": _object(one={"oneOf": [_object(k={"const": "a"}), _object(k={"const": "b"}), {"type": "null"}]},
                     kind={"enum": ["a", 1, True, None]}, many={"enum": [f"a long value {n}" for n in range(20)]},
                     map={"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
                     both={"type": ["integer", "string", "null"]}, whole={"type": "integer"}, any=True),
    "extra": {"type": "object", "properties": {"a": _TEXT}, "additionalProperties": {"type": "integer"}},
    "sets": {"type": "object", "properties": {"a": _TEXT}, "additionalProperties": {"enum": [EVIL]}},
    "nulls": {"type": "object", "required": ["a"], "properties": {"a": {"type": ["string", "null"]},
                                                                  "b": {"type": ["string", "null"]}, "c": _TEXT}},
}  # fmt: skip
PLACEHOLDERS = message(
    True, envelopemetadata={"source": {"type": "uritemplate", "value": "/{constructor}/{toString}/{__proto__}"}}
)
DOCUMENT: dict[str, Any] = {
    "messagegroups": {
        "hard": {"description": EVIL, "messages": {name: message(each, description=EVIL)
                                                   for name, each in SHAPES.items()} | {"placeholders": PLACEHOLDERS}},
        **{group: {"messages": dict.fromkeys(NAMES, message(_object(a=True)))} for group in GROUPS},
        **hostile.GROUPS,
    }
}  # fmt: skip
