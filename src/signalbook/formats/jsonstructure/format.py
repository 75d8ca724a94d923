"""JSON Structure Core: the format and its schemas. Payloads are JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final

from signalbook.formats.base import (
    MAX_FINDINGS,
    JsonValues,
    Path,
    Resolve,
    SchemaError,
    check_size,
    make_finding,
)
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.formats.jsonstructure import comparison
from signalbook.formats.jsonstructure.document import find_findings
from signalbook.formats.jsonstructure.tree import make_tree
from signalbook.formats.jsonstructure.types import (
    IMPORTS,
    KINDS,
    PRIMITIVES,
    TIMES,
    Structure,
    list_required,
    resolve_type,
)
from signalbook.formats.shape import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct, limit_columns
from signalbook.formats.tree import SchemaNode
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, Finding, JSONError, JSONObject, canonical_json, digest

Findings = Iterator[Finding]
# The members that a payload may have at its top in addition to its data.
_INSTANCE: Final = frozenset({"$schema", "$uses"})
# The maximum number of types to check for one payload, because nested unions multiply.
_MAX_STEPS: Final = 200_000


def list_violations(structure: Structure, schema: JSONObject, value: JSON) -> list[Finding]:
    """Return the violations in ``value``, at most ``MAX_FINDINGS``."""
    holder = _Holder(structure)
    try:
        return list(islice(holder.check_value(value, schema, ()), MAX_FINDINGS))
    except (_TooMuch, RecursionError):
        text = "the schema asks for more work than any payload is worth"
        return [Finding(path="", rule="work", message=text)]


class _TooMuch(Exception):
    """Raised when no steps are left."""


class _Holder:
    """Walks through a value and its schema together and collects the violations."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.steps = 0

    def check_value(self, value: JSON, schema: JSON, path: Path) -> Findings:
        """Yield the findings about ``value``. Raises ``_TooMuch``."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise _TooMuch
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        if isinstance(kind, dict):
            yield from self.check_value(value, self.structure.lookup(kind["$ref"]) if "$ref" in kind else kind, path)
        elif isinstance(kind, list):
            yield from self._check_union(value, kind, path)
        elif isinstance(kind, str):
            yield from self._check_typed(value, kind, schema, path)

    def _check_typed(self, value: JSON, kind: str, schema: JSONObject, path: Path) -> Findings:
        wrong = PRIMITIVES[kind](value, schema) if kind in PRIMITIVES else ""
        if wrong:
            yield make_finding(path, "type", f"{wrong} ({kind})")
            return
        if kind not in PRIMITIVES and kind != "any":
            yield from getattr(self, f"_check_{kind}")(value, schema, path)
        if "const" in schema and canonical_json(value) != canonical_json(schema["const"]):
            yield make_finding(path, "const", f"expected {schema['const']!r}")
        # Compare canonical JSON, because in Python ``1``, ``1.0`` and ``true`` are equal.
        if "enum" in schema and canonical_json(value) not in map(canonical_json, schema["enum"]):
            yield make_finding(path, "enum", f"{value!r} is not one of the listed values")

    def _check_union(self, value: JSON, kinds: list[JSON], path: Path) -> Findings:
        """Yield a finding if ``value`` conforms to none of the types ``kinds``."""
        schemas = [{"type": kind} if not isinstance(kind, dict) or "$ref" in kind else kind for kind in kinds]
        if all(next(self.check_value(value, schema, path), None) is not None for schema in schemas):
            type_names = ", ".join(
                str(kind.get("$ref", "a type")) if isinstance(kind, dict) else str(kind) for kind in kinds
            )
            yield make_finding(path, "type", f"expected one of these types: {type_names}")

    def _check_object(
        self, value: JSON, schema: JSONObject, path: Path, extra: frozenset[str] = frozenset()
    ) -> Findings:
        if not isinstance(value, dict):
            yield make_finding(path, "type", "expected an object")
            return
        members = self.structure.list_properties(schema)
        yield from self._check_required(value, schema, path)
        more = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in members:
                yield from self.check_value(item, members[name], (*path, name))
            elif name in extra or (not path and name in _INSTANCE):
                continue
            elif more is False:
                yield make_finding((*path, name), "additionalProperties", f"there is no property {name!r}")
            else:
                yield from self.check_value(item, more, (*path, name))

    def _check_required(self, value: JSONObject, schema: JSONObject, path: Path) -> Findings:
        sets = list_required(self.structure, schema)
        if len(sets) == 1:
            missing = [name for name in dict.fromkeys(sets[0]) if name not in value]
            yield from (make_finding(path, "required", f"the property {name!r} is missing") for name in missing)
        elif sum(value.keys() >= set(names) for names in sets) != 1:
            texts = " or ".join(", ".join(names) for names in sets)
            yield make_finding(path, "required", f"exactly one of these sets of properties is needed: {texts}")

    def _check_array(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        if not isinstance(value, list):
            yield make_finding(path, "type", "expected an array")
            return
        for index, item in enumerate(value):
            yield from self.check_value(item, schema["items"], (*path, index))

    def _check_set(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        yield from self._check_array(value, schema, path)
        if isinstance(value, list) and len(set(map(canonical_json, value))) < len(value):
            yield make_finding(path, "set", "the items of a set must differ from each other")

    def _check_map(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        if not isinstance(value, dict):
            yield make_finding(path, "type", "expected an object that maps keys to values")
            return
        for name, item in value.items():
            yield from self.check_value(item, schema["values"], (*path, name))

    def _check_tuple(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        members = self.structure.list_properties(schema)
        names = schema["tuple"]
        if not isinstance(value, list) or len(value) != len(names):
            yield make_finding(path, "tuple", f"expected an array of {len(names)} items: {', '.join(names)}")
            return
        for index, name in enumerate(names):
            yield from self.check_value(value[index], members[name], (*path, index))

    def _check_choice(self, value: JSON, schema: JSONObject, path: Path) -> Findings:
        choices, selector = schema["choices"], schema.get("selector")
        if selector is not None and "$extends" in schema:
            yield from self._check_inline(value, choices, selector, path)
        elif not isinstance(value, dict) or len(value) != 1 or not choices.keys() >= value.keys():
            yield make_finding(path, "choice", f"expected an object with one of these members: {', '.join(choices)}")
        else:
            ((name, item),) = value.items()
            yield from self.check_value(item, choices[name], (*path, name))

    def _check_inline(self, value: JSON, choices: JSONObject, selector: str, path: Path) -> Findings:
        chosen = value.get(selector) if isinstance(value, dict) else None
        if not isinstance(chosen, str) or chosen not in choices:
            names = ", ".join(choices)
            yield make_finding((*path, selector), "choice", f"expected an object whose {selector!r} is one of: {names}")
            return
        schema = resolve_type(self.structure, choices[chosen])
        if schema.get("type") == "object":
            yield from self._check_object(value, schema, path, frozenset({selector}))
        else:
            yield make_finding(path, "choice", f"{chosen!r} is no type of objects")


_MAX_LEVELS: Final = 32
# The maximum number of digits in decimal columns.
_MAX_DECIMAL_DIGITS: Final = 38
_Above = tuple[JSONObject, ...]


def make_shape(structure: Structure, schema: JSON, above: _Above = (), *, nullable: bool = False) -> Shape:
    """Return the shape that fits every value of ``schema``; ``above`` are the types that contain it."""
    kinds = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kinds, list):
        types = [kind for kind in kinds if kind != "null"]
        if len(types) != 1:
            return Anything(nullable=True)
        return make_shape(structure, {"type": types[0]}, above, nullable=nullable or len(types) < len(kinds))
    if isinstance(kinds, dict):
        return make_shape(structure, resolve_type(structure, schema), above, nullable=nullable)
    if len(above) >= _MAX_LEVELS or any(schema is schema_above for schema_above in above):
        return Anything(nullable=nullable)
    return _build_shape(structure, schema, above, nullable) if isinstance(schema, dict) else Anything(nullable=nullable)


def _build_shape(structure: Structure, schema: JSONObject, above: _Above, nullable: bool) -> Shape:
    kind = schema.get("type", "any")
    above = (*above, schema)
    if kind == "object":
        more = schema.get("additionalProperties", True) is not False
        return limit_columns(Struct(fields=_build_fields(structure, schema, above), nullable=nullable, open=more))
    if kind in ("array", "set"):
        return ListOf(item=make_shape(structure, schema["items"], above), nullable=nullable)
    if kind == "map":
        return MapOf(value=make_shape(structure, schema["values"], above), nullable=nullable)
    if kind in TIMES:
        return Scalar(kind=TIMES[kind], sent="string", nullable=nullable)
    if kind == "decimal" and 0 < schema.get("precision", 0) <= _MAX_DECIMAL_DIGITS:
        digits = {"precision": schema["precision"], "scale": schema.get("scale", 0)}
        return Scalar(kind="decimal", sent="string", nullable=nullable, **digits)
    if kind == "number":  # unlike a ``double``, it may have more digits than its column holds
        return Scalar(kind="float64", sent="float64", nullable=nullable)
    if kind in PRIMITIVES:
        return Scalar(kind=KINDS.get(kind, "string"), nullable=nullable or kind == "null")
    return Anything(nullable=nullable)


def _build_fields(structure: Structure, schema: JSONObject, above: _Above) -> tuple[Field, ...]:
    sets = list_required(structure, schema)
    always = set(sets[0]).intersection(*sets[1:])
    return tuple(
        Field(
            name=name,
            attribute=name,
            shape=make_shape(structure, member, above),
            required=name in always,
            description=str(member.get("description", "")) if isinstance(member, dict) else "",
        )
        for name, member in structure.list_properties(schema).items()
    )


def find_constants(structure: Structure, schema: JSONObject) -> dict[str, frozenset[JSON]]:
    """Return the closed sets of values by property name (K-30).

    They are the listed values of an object's required properties, or the names of a choice's alternatives for its
    selector.
    """
    if schema.get("type") == "choice" and isinstance(schema.get("selector"), str):
        return {schema["selector"]: frozenset(schema["choices"])}
    if schema.get("type") != "object":
        return {}
    sets = list_required(structure, schema)
    always = set(sets[0]).intersection(*sets[1:])
    values_by_name: dict[str, frozenset[JSON]] = {}
    for name, member in structure.list_properties(schema).items():
        declared = resolve_type(structure, member)
        values = [declared["const"]] if "const" in declared else declared.get("enum")
        if values and name in always:
            values_by_name[name] = frozenset(values)
    return values_by_name


_DRAFT: Final = re.compile(r"draft-0[0-4]", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonStructure(JsonValues):
    """A type of a document: the type of whole payloads, or the type that a deep link names."""

    format: str
    structure: Structure
    schema: JSONObject
    link: str = ""
    warnings: tuple[Finding, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the format, the document and the deep link."""
        return digest(f"{self.format} {self.structure.fingerprint} {self.link}".encode())

    def validate(self, value: JSON) -> list[Finding]:
        """Return the violations in ``value``, at most ``MAX_FINDINGS``."""
        return list_violations(self.structure, self.schema, value)

    def shape(self) -> Shape:
        """Return the columns that a conforming payload fits into."""
        return make_shape(self.structure, self.schema)

    def tree(self) -> SchemaNode:
        """Return the tree of conforming values."""
        return make_tree(self.structure, self.schema)

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return the required top-level properties with their listed values."""
        return find_constants(self.structure, resolve_type(self.structure, self.schema))


class JsonStructureFormat:
    """The format for JSON Structure documents."""

    name: Final = "JsonStructure"
    versions: Final = tuple(f"JsonStructure/draft-0{number}" for number in range(5))

    def canonical(self, format: str) -> str | None:
        """Return ``JsonStructure/draft-<nn>``, or ``JsonStructure`` if ``format`` has no version; None for other
        versions.

        All versions are read in the same way.
        """
        version = format.partition("/")[2].strip()
        if "/" not in format:
            return self.name
        return f"{self.name}/{version.lower()}" if _DRAFT.fullmatch(version) else None

    def check(self, document: bytes, format: str) -> list[Finding]:  # noqa: ARG002 - all drafts are read alike
        """Return the findings about ``document`` alone; imports are not followed."""
        try:
            structure = _read_structure(document)
        except SchemaError as error:
            return list(error.findings)
        return list(islice(find_findings(structure), MAX_FINDINGS))

    def parse(
        self,
        document: bytes,
        format: str,
        *,
        link: str = "",
        resolve: Resolve | None = None,  # noqa: ARG002 - there are no references to other documents
    ) -> JsonStructure:
        """Return the type that ``link`` names by a JSON Pointer, or the type of whole payloads (G-15, G-17).

        Raises ``SchemaError``.
        """
        structure = _read_usable(document)
        pointer = "/" + link.removeprefix(":").removeprefix("#").removeprefix("/")
        schema = structure.lookup(pointer) if pointer != "/" else structure.find_top()
        if not isinstance(schema, dict) or "type" not in schema:
            text = (
                f"{link!r} names no type of the document" if pointer != "/" else "the document has no type of its own"
            )
            raise SchemaError([Finding(path=link, rule="link", message=text)])
        canonical = self.canonical(format) or self.name
        return JsonStructure(format=canonical, structure=structure, schema=schema, link=link)

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return why ``reader`` does not accept every payload that ``writer`` allows.

        Raises ``SchemaError`` for a document that cannot be used.
        """
        return comparison.find_differences(_read_usable(reader.document), _read_usable(writer.document))


@lru_cache(maxsize=8)
def _read_usable(document: bytes) -> Structure:
    """Return the parsed document. Raises ``SchemaError`` if it has findings or needs other documents."""
    structure = _read_structure(document)
    findings = list(islice((*find_findings(structure), *_find_imports(structure)), MAX_FINDINGS))
    if findings:
        raise SchemaError(findings)
    return structure


def _read_structure(document: bytes) -> Structure:
    findings = check_size(document)
    if findings:
        raise SchemaError(findings)
    try:
        root = parse_untrusted_json(document)
    except JSONError as error:
        raise SchemaError([Finding(path="", rule="json", message=f"not JSON: {error}")]) from None
    if not isinstance(root, dict):
        raise SchemaError([Finding(path="", rule="document", message="a document must be a JSON object")])
    return Structure(root=root, fingerprint=digest(canonical_json(root)))


def _find_imports(structure: Structure) -> list[Finding]:
    """Return a finding for each import in the document, because imports are not followed."""
    findings = []
    waiting: list[tuple[str, JSON]] = [("", structure.root)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict):
            text = "imports of other documents are not followed"
            findings += [Finding(path=f"{path}/{name}", rule=name, message=text) for name in IMPORTS if name in node]
            waiting += [("/definitions", node["definitions"])] if not path and "definitions" in node else []
            # Visit namespaces but not the types in them, because a property may be named ``$import``.
            waiting += [(f"{path}/{name}", item) for name, item in node.items() if path and "type" not in node]
    return findings


FORMAT: Final = JsonStructureFormat()
