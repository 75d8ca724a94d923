"""Parse Avro schema documents, resolve their names, and check rules of the specification that the library ignores.

Documents whose only findings are wrong defaults or namespaces are accepted as well, because registries have many of
them. ``Names.tolerated`` lists these findings. A wrong default is treated as no default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro

from signalbook.formats.avro.defaults import MAX_COMPARISONS, DefaultCheck, TooManyDefaults
from signalbook.formats.base import IMPORT, Path, Resolve, SchemaError, check_size, make_finding, shorten
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, Finding, JSONError, JSONObject, digest

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_PARTS: Final = {
    **dict.fromkeys(("record", "error"), "name and fields"),
    "enum": "name and symbols",
    "fixed": "name and size",
    "array": "items",
    "map": "values",
}
"""The attributes that each complex type needs in addition to its type."""
MAX_DEPTH: Final = 128
MAX_WEIGHT: Final = 50_000
DEFAULT: Final = "default"
NAMESPACE: Final = "namespace"
READABLE_FAULTS: Final = frozenset({DEFAULT, NAMESPACE})
"""The rules of findings that do not prevent the use of a document."""
MAX_OTHERS: Final = 100
"""The maximum number of other documents. A write reads the document again after each step of a chain of references."""
# Logical types whose Python value would lose precision (nanoseconds) or change its meaning (no time zone).
_LEFT_ALONE: Final = frozenset(
    {"uuid", "duration", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"}
)
_ORDERS: Final = ("ascending", "descending", "ignore")
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SYMBOL_LINES: Final = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*+\n)*+", re.ASCII)
_NAMESPACE_PART: Final = re.compile(r"[\w-]+")
"""Parts of namespaces that are accepted, although Avro allows no hyphens and only ASCII letters in names."""

# A type with full names: a string for a primitive or a reference, a list for a union, otherwise an object.
Type = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The top-level type of a document and all its named types by full name."""

    root: Type
    types: Mapping[str, JSONObject]
    fingerprint: str
    tolerated: tuple[Finding, ...] = ()
    """Wrong defaults and namespaces. The specification forbids them, but data can still be read and written."""

    def find(self, link: str) -> str | None:
        """Return the full name of the type that ``link`` names, by full or short name; None if no
        or several types match.
        """
        if link in self.types:
            return link
        names = [name for name in self.types if name.rpartition(".")[2] == link]
        return names[0] if len(names) == 1 else None

    def complete(self, start: Type, *, logical: bool = True) -> Type:
        """Return ``start`` as a self-contained schema, in which each named type is defined at its first use.

        If ``logical`` is False, logical types are removed.
        """
        return self._complete(start, set(), _strip_left_alone if logical else _strip_logical)

    def _complete(self, node: Type, met: set[str], filter_keys: Callable[[JSONObject], JSONObject]) -> Type:
        if isinstance(node, str):
            if node in PRIMITIVES or node in met:
                return node
            return self._complete(self.types[node], met, filter_keys)
        if isinstance(node, list):
            return [self._complete(item, met, filter_keys) for item in node]
        if "name" in node:
            met.add(node["name"])
        inner = {key: self._complete(node[key], met, filter_keys) for key in ("items", "values") if key in node}
        if "fields" in node:
            inner["fields"] = [
                {**part, "type": self._complete(part["type"], met, filter_keys)} for part in node["fields"]
            ]
        return {**filter_keys(node), **inner}


def read(document: bytes, resolve: Resolve | None = None) -> Names:
    """Parse a schema document; ``resolve`` returns the documents of types that it uses and does not define, by full
    name.

    Raises ``SchemaError`` with all findings, unless all of them are in ``Names.tolerated``.
    """
    resolver = _Resolver(resolve=resolve)
    root = _parse_json(document)
    try:
        resolved = resolver.type(root, "", ())
        heavy = not resolver.findings and count_types(resolved, resolver.types) > MAX_WEIGHT
    except RecursionError:
        # A schema that exceeds Python's recursion limit is treated as too heavy.
        heavy = True
    if not heavy:
        resolver.check_defaults()
    if resolver.findings:
        raise SchemaError([*resolver.findings, *resolver.tolerated])
    if heavy:
        message = f"written out in full the schema has more than {MAX_WEIGHT} types"
        raise SchemaError([Finding(path="", rule="weight", message=message)])
    names = Names(
        root=resolved,
        types=resolver.types,
        fingerprint=digest(b"\n".join([document, *resolver.others])),
        tolerated=tuple(resolver.tolerated),
    )
    _check_accepted(names)
    return names


def list_defined_names(document: bytes) -> tuple[str, ...]:
    """Return the full names of the types that a document defines at its top level; empty if it is not JSON."""
    try:
        root = parse_untrusted_json(document, max_depth=MAX_DEPTH)
    except JSONError:
        return ()
    types = [node for node in (root if isinstance(root, list) else [root]) if isinstance(node, dict)]
    definitions = [
        node
        for node in types
        if isinstance(node.get("type"), str) and node["type"] in NAMED and isinstance(node.get("name"), str)
    ]
    return tuple(_build_full_name(node["name"], str(node.get("namespace") or "")) for node in definitions)


def _parse_json(document: bytes) -> JSON:
    findings = check_size(document)
    if findings:
        raise SchemaError(findings)
    try:
        return parse_untrusted_json(document, max_depth=MAX_DEPTH)
    except JSONError as error:
        raise SchemaError([Finding(path="", rule="json", message=f"not JSON: {error}")]) from None


def _check_accepted(names: Names) -> None:
    """Raise ``SchemaError`` for problems that only the library finds, such as logical types on the wrong type."""
    try:
        fastavro.parse_schema(names.complete(names.root))
    except (
        fastavro.schema.SchemaParseException,
        ArithmeticError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        message = shorten(f"not an Avro schema: {error}")
        raise SchemaError([Finding(path="", rule="schema", message=message)]) from None


@dataclass(slots=True)
class _Resolver:
    """Walks through a document once, adds namespaces to all names and collects the findings."""

    resolve: Resolve | None = None
    others: list[bytes] = field(default_factory=list)
    types: dict[str, JSONObject] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    tolerated: list[Finding] = field(default_factory=list)
    defaults: list[tuple[Path, JSONObject, Type]] = field(default_factory=list)
    """The path of each default, the field or enum that has it, and the type of its value."""

    def report(self, path: Path, rule: str, message: str) -> None:
        self.findings.append(make_finding(path, rule, message))

    def type(self, node: JSON, space: str, path: Path) -> Type:
        if isinstance(node, str):
            return self.reference(node, space, path)
        if isinstance(node, list):
            return self.union(node, space, path)
        if isinstance(node, dict):
            return self.complex(node, space, path)
        self.report(path, "type", "a type is a name, an object or an array of alternatives")
        return "null"

    def reference(self, name: str, space: str, path: Path) -> str:
        if name in PRIMITIVES:
            return name
        full = _build_full_name(name, space)
        if full in self.types or (name not in self.types and self.elsewhere(full)):
            return full
        if name not in self.types and name in _PARTS:
            self.report(path, "type", f"{name!r} alone is no type: write an object with type, {_PARTS[name]}")
            return "null"
        if name not in self.types:
            self.report(path, IMPORT, f"there is no type {name!r} (defined before it is used)")
            return "null"
        return name

    def elsewhere(self, full: str) -> bool:
        """Read the document that defines ``full``. Return False if there is no such document or it
        does not define ``full``.
        """
        if self.resolve is None:
            return False
        # Each document may refer to further documents, so their number is limited.
        if len(self.others) == MAX_OTHERS:
            message = f"it refers to more than {MAX_OTHERS} other schemas"
            raise SchemaError([Finding(path="", rule="size", message=message)])
        document = self.resolve(full)
        if document is None:
            return False
        self.others.append(document)
        self.type(_parse_json(document), "", (full,))
        return full in self.types

    def union(self, node: list[JSON], space: str, path: Path) -> list[Type]:
        if not node:
            self.report(path, "union", "a union has at least one alternative")
        alternatives = [self.type(item, space, (*path, index)) for index, item in enumerate(node)]
        kinds = [find_branch_name(item) if not isinstance(item, list) else "union" for item in alternatives]
        if "union" in kinds:
            self.report(path, "union", "a union is no alternative of a union")
        if not self.findings and len(set(kinds)) < len(kinds):
            self.report(path, "union", "two alternatives of a union have the same type")
        return alternatives

    def complex(self, node: JSONObject, space: str, path: Path) -> Type:
        kind = node.get("type")
        if isinstance(kind, (dict, list)):
            return self.type(kind, space, (*path, "type"))
        if not isinstance(kind, str):
            self.report(path, "type", "the type is missing")
            return "null"
        if kind in NAMED:
            return self.named(node, kind, space, path)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {"type": kind, inner: self.type(node.get(inner), space, (*path, inner))}
        if kind in PRIMITIVES:
            return {**_select_logical(node), "type": kind} if _select_logical(node) else kind
        return self.reference(kind, space, (*path, "type"))

    def named(self, node: JSONObject, kind: str, space: str, path: Path) -> Type:
        full = self.full_name(node, space, path)
        if full in self.types:
            self.report(path, "name", f"the type {full!r} is defined twice")
        docs: JSONObject = {key: node[key] for key in ("doc",) if key in node}
        definition: JSONObject = {**docs, "type": "record" if kind == "error" else kind, "name": full}
        definition.update(self.aliases(node, full.rpartition(".")[0], path))
        # Register the type before its fields are parsed, because they may refer to it.
        self.types[full] = definition
        if kind == "enum":
            definition.update({key: node[key] for key in ("symbols", "default") if key in node})
            self.symbols(node.get("symbols"), path)
            if "default" in node:
                self.defaults.append(((*path, "default"), definition, full))
        elif kind == "fixed":
            definition.update({"size": node.get("size"), **_select_logical(node)})
            if (
                not isinstance(definition["size"], int)
                or isinstance(definition["size"], bool)
                or definition["size"] < 0
            ):
                self.report((*path, "size"), "fixed", "the size of a fixed is a number of bytes")
        else:
            definition["fields"] = self.fields(node.get("fields"), full.rpartition(".")[0], path)
        return definition

    def full_name(self, node: JSONObject, space: str, path: Path) -> str:
        name, namespace = node.get("name"), node.get("namespace", space)
        if not isinstance(name, str) or not isinstance(namespace, str):
            self.report(path, "name", "a named type has a name, and a namespace that is text")
            return "unnamed"
        full = _build_full_name(name, namespace)
        *spaces, short_name = full.split(".")
        if not _AVRO_NAME.fullmatch(short_name) or not all(map(_NAMESPACE_PART.fullmatch, spaces)):
            self.report((*path, "name"), "name", f"{full!r} is no Avro name: letters, digits and _ between dots")
        elif full in PRIMITIVES:
            self.report((*path, "name"), "name", f"{full!r} is the name of a primitive type")
        elif not all(map(_AVRO_NAME.fullmatch, spaces)):
            message = f"the namespace of {full!r} has more than letters, digits and _ between dots"
            self.tolerated.append(make_finding((*path, "name"), NAMESPACE, message))
        return full

    def aliases(self, node: JSONObject, space: str, path: Path) -> JSONObject:
        """Return the aliases of a field or a named type as an attribute. Aliases of a type are in
        the namespace ``space``.
        """
        names = node.get("aliases", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.report((*path, "aliases"), "aliases", "aliases are an array of names")
            return {}
        return {"aliases": [_build_full_name(name, space) for name in names]} if names else {}

    def check_defaults(self) -> None:
        """Remove the defaults that are not values of their types and add findings for them, after
        all types are parsed.
        """
        if self.findings:
            return
        check = DefaultCheck(self.types)
        wrong: list[JSONObject] = []
        try:
            for path, holder, owner in self.defaults:
                problem = check.find_problem(holder["default"], owner)
                if problem is not None:
                    self.tolerated.append(make_finding((*path, *problem[0]), DEFAULT, problem[1]))
                    wrong.append(holder)
        except TooManyDefaults:
            self.report((), "weight", f"the defaults take more than {MAX_COMPARISONS} comparisons with types")
        for holder in wrong:  # only now, because the default of a record may rely on defaults of its fields
            del holder["default"]

    def symbols(self, symbols: JSON, path: Path) -> None:
        # Check all symbols with one expression, because there may be very many.
        if not (
            isinstance(symbols, list)
            and set(map(type, symbols)) <= {str}
            and _SYMBOL_LINES.fullmatch("".join(f"{symbol}\n" for symbol in symbols))
        ):
            self.report((*path, "symbols"), "enum", "symbols are an array of Avro names")

    def fields(self, fields: JSON, space: str, path: Path) -> list[JSONObject]:
        if not isinstance(fields, list):
            self.report((*path, "fields"), "fields", "a record has an array of fields")
            return []
        fields_by_name: dict[str, JSONObject] = {}
        for index, part in enumerate(fields):
            here = (*path, "fields", index)
            name = part.get("name") if isinstance(part, dict) else None
            if not isinstance(name, str) or not _AVRO_NAME.fullmatch(name):
                self.report(here, "name", "a field is an object with an Avro name")
            elif name in fields_by_name:
                self.report((*here, "name"), "name", f"the field {name!r} is there twice")
            else:
                definition = {key: part[key] for key in ("name", "doc", "default") if key in part}
                definition |= self.aliases(part, "", here)
                fields_by_name[name] = {**definition, "type": self.type(part.get("type"), space, (*here, "type"))}
                if "default" in part:
                    self.defaults.append(((*here, "default"), fields_by_name[name], fields_by_name[name]["type"]))
                if part.get("order", "ascending") not in _ORDERS:
                    self.report((*here, "order"), "order", f"the order of a field is {', '.join(_ORDERS)}")
        return list(fields_by_name.values())


def _build_full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _select_logical(node: JSONObject) -> JSONObject:
    if not isinstance(node.get("logicalType"), str):
        return {}
    return {key: node[key] for key in ("logicalType", "precision", "scale") if key in node}


def _strip_left_alone(node: JSONObject) -> JSONObject:
    """Return ``node`` without its logical type if the library would convert its values to a lossy or different type."""
    return _strip_logical(node) if node.get("logicalType") in _LEFT_ALONE else node


def _strip_logical(node: JSONObject) -> JSONObject:
    """Return ``node`` without its logical type."""
    return {key: value for key, value in node.items() if key != "logicalType"}


def find_branch_name(node: Type) -> str:
    """Return the name of an alternative in a union (Avro specification, JSON encoding)."""
    if isinstance(node, str):
        return node
    return str(node.get("name") or node["type"])


def walk(node: Type, types: Mapping[str, JSONObject], met: set[str] | None = None) -> Iterator[Type]:
    """Yield ``node`` and every type that it contains; each named type is yielded once. ``met`` has
    the names to skip.
    """
    met = set() if met is None else met
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if isinstance(node, dict) and "name" in node:
        if node["name"] in met:
            return
        met.add(node["name"])
    yield node
    for inner in _list_inner(node):
        yield from walk(inner, types, met)


def _list_inner(node: Type) -> list[Type]:
    if isinstance(node, list):
        return node
    if not isinstance(node, dict):
        return []
    return [*(node[key] for key in ("items", "values") if key in node), *(f["type"] for f in node.get("fields", ()))]


def is_recursive(node: Type, types: Mapping[str, JSONObject]) -> bool:
    """Return True if the type ``node`` contains itself. Then a short payload can nest deeply."""
    try:
        _measure(node, types, lambda _: 0, recursive=None)
    except _Recursive:
        return True
    return False


def count_types(node: Type, types: Mapping[str, JSONObject]) -> int:
    """Return the number of types in ``node`` with all names expanded. A recursive type counts once where it recurs.

    For example, twenty records that each contain the next one twice make a million types. Decoding even an empty value
    takes as many steps.
    """
    return 1 + _measure(node, types, lambda _: 1, recursive=1)


def has_empty_items(node: Type, types: Mapping[str, JSONObject]) -> bool:
    """Return True if an array has items that take no bytes. Then ten bytes of payload can claim 2^60 items."""
    arrays = (item for item in walk(node, types) if isinstance(item, dict) and item["type"] == "array")
    return any(_measure(item["items"], types, _count_own_bytes, recursive=1) == 0 for item in arrays)


def _count_own_bytes(node: Type) -> int:
    """Return the minimum number of bytes that a type adds to a payload in addition to the types that it contains."""
    if isinstance(node, dict) and node["type"] == "fixed":
        return int(node["size"])
    return 0 if node == "null" or (isinstance(node, dict) and node["type"] == "record") else 1


class _Recursive(Exception):
    """Raised if a type contains itself."""


def _measure(
    node: Type, types: Mapping[str, JSONObject], measure_own: Callable[[Type], int], *, recursive: int | None
) -> int:
    """Return the sum of ``measure_own`` over ``node`` and all types in it; a named type counts at every use.

    ``recursive`` is the size of a type inside itself. If it is None, a recursive type raises ``_Recursive``.
    """
    sizes: dict[str, int | None] = {}

    def measure(inner: Type) -> int:
        if isinstance(inner, str) and inner not in PRIMITIVES:
            inner = types[inner]
        name = inner.get("name") if isinstance(inner, dict) else None
        if name is None:
            return measure_own(inner) + sum(map(measure, _list_inner(inner)))
        if name not in sizes:
            # None means that the type is being measured. If the name is found again before the end, the type contains
            # itself.
            sizes[name] = None
            sizes[name] = measure_own(inner) + sum(map(measure, _list_inner(inner)))
        size = sizes[name] if sizes[name] is not None else recursive
        if size is None:
            raise _Recursive
        return size

    return measure(node)
