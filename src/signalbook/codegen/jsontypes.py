"""The types of a JSON Schema, from its normal form."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from signalbook.codegen.datatypes import (
    ANY,
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    MapType,
    PlainType,
    RecordMember,
    RecordTable,
    union,
)
from signalbook.formats.jsonschema import normal
from signalbook.formats.jsonschema.document import find_fragment, lookup, make_uri, resolve_uri
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.jsonschema.normal import BOTH, NormalForm, Objects
from signalbook.formats.jsonschema.reader import read
from signalbook.values import JSON

_MOST_VALUES: Final = 200
"""Of a closed set; larger ones are text or integers."""
_MOST_STEPS: Final = 32
# A value of more of JSON's types than these is any.
_MOST_KINDS: Final = 4
_SEVERAL: Final = 3
# Keywords beside a reference that say nothing about values.
_ANNOTATIONS: Final = frozenset(
    {
        *("$ref", "title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$schema", "$id", "$defs", "definitions"),
    }
)


class JsonTypes:
    """The types of one schema and of what it refers to, in ``table``."""

    def __init__(self, schema: JsonSchema, table: RecordTable) -> None:
        self._document = schema.document
        self._table = table
        self._open: set[str] = set()
        self._kept: list[object] = []  # what keys are made of, so that no two have one address

    def at(self, uri: str, hint: str) -> DataType:
        """The type of the values at a URI."""
        return self._find_type(uri, hint, None)

    def _find_type(self, uri: str, hint: str, node: NormalForm | None) -> DataType:
        """Return the type of the values at a URI, whose normal form may be known."""
        target = self._find_target(uri)
        hint = (_find_name(target) if target != uri else "") or hint
        branches = self._list_branches(target)
        if branches:
            # Each by itself: their normal forms together do not say which of them was a definition of its own.
            if target in self._open:
                return ANY
            self._open.add(target)
            types = [
                self.at(f"{target}{branch}", _number_hint(hint, index, branches))
                for index, branch in enumerate(branches, 1)
            ]
            self._open.discard(target)
            return union(types)
        # Where a schema leads back to itself its normal form is cut: there it begins anew.
        if node is None or (not node.exact and node.kinds > _MOST_KINDS):
            node = read(self._document, target)
        return self._build_type(node, target, hint)

    def _list_branches(self, uri: str) -> list[str]:
        """Return the pointers below a schema that is alternatives and nothing else."""
        schema = self._look_up(uri)
        if not isinstance(schema, dict):
            return []
        keywords = schema.keys() - _ANNOTATIONS
        for keyword in ("anyOf", "oneOf"):
            if keywords == {keyword} and isinstance(schema[keyword], list):
                return [f"{'' if '#' in uri else '#'}/{keyword}/{index}" for index in range(len(schema[keyword]))]
        return []

    def _find_target(self, uri: str) -> str:
        """Return the final target of a schema that is only a reference."""
        for _ in range(_MOST_STEPS):
            schema = self._look_up(uri)
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return uri
            old = self._document.dialect.year < 2019
            base = uri.partition("#")[0]
            fragment = find_fragment(reference)
            target = make_uri(resolve_uri(base, reference), fragment)
            if not (old or schema.keys() <= _ANNOTATIONS) or (fragment and not fragment.startswith("/")):
                return uri
            uri = target
        return uri

    def _look_up(self, uri: str) -> JSON:
        base, _, fragment = uri.partition("#")
        root = self._document.documents.get(base)
        try:
            return None if root is None else lookup(root, find_fragment(f"#{fragment}"))
        except (LookupError, ValueError):
            return None

    def _find_child(self, node: NormalForm, hint: str) -> DataType:
        """Return the type of a member or an item: what stands at its place, where one place says all about it."""
        if len(node.uris) != 1 or node is normal.ANY or self._look_up(node.uris[0]) is None:
            return self._build_type(node, "", hint)
        return self._find_type(node.uris[0], hint, node)

    def _build_type(self, node: NormalForm, uri: str, hint: str) -> DataType:
        if node is normal.ANY or node.kinds > _MOST_KINDS or node.never:
            return ANY
        types: list[DataType] = [NULL] if node.null else []
        if node.booleans:
            types.append(PlainType("boolean") if node.booleans == BOTH else ClosedSet(tuple(node.booleans)))
        if node.strings:
            types.append(_build_closed(node.strings.values) or PlainType("text"))
        if node.numbers:
            integers = PlainType("integer" if node.numbers.integer else "number")
            types.append(_build_closed(node.numbers.values) or integers)
        if node.arrays:
            types.append(ListType(self._find_child(node.arrays.item, _singular_hint(hint))))
        if node.objects:
            types.append(self._build_object(node, node.objects, uri, hint))
        return union(types)

    def _build_object(self, node: NormalForm, part: Objects, uri: str, hint: str) -> DataType:
        if part.alternatives and not part.properties:
            return union(
                self._record(alternative, "", f"{hint} {number}", "")
                for number, alternative in enumerate(part.alternatives, 1)
            )
        return self._record(part, uri, hint, node.description)

    def _record(self, part: Objects, uri: str, hint: str, description: str) -> DataType:
        if not part.properties:
            if part.extra is None and part.exact:
                return self._refer(part, uri, hint, description)
            return MapType(
                ANY if part.extra is None or part.extra is normal.ANY else self._find_child(part.extra, hint)
            )
        return self._refer(part, uri, hint, description)

    def _refer(self, part: Objects, uri: str, hint: str, description: str) -> DataType:
        if not uri:
            self._kept.append(part)

        def fill(record: DataRecord) -> None:
            record.members = tuple(
                RecordMember(
                    name=name,
                    type=self._find_child(member, f"{hint} {name}"),
                    required=name in part.required,
                    description=member.description,
                )
                for name, member in part.properties.items()
            )
            if part.extra is not None and part.extra is not normal.ANY and part.extra.here_exact:
                record.extra = self._find_child(part.extra, f"{hint} extra")

        return self._table.refer(uri or f"#{id(part)}", hint, fill, description)


def _build_closed(values: frozenset[str] | frozenset[int] | None) -> ClosedSet | None:
    return None if values is None or len(values) > _MOST_VALUES else ClosedSet(tuple(sorted(values)))


def _find_name(uri: str) -> str:
    """Return the name of a definition."""
    return unquote(uri.partition("#")[2].rpartition("/")[2]).replace("~1", "/").replace("~0", "~")


def _number_hint(hint: str, index: int, branches: list[str]) -> str:
    """The hint for one of several branches; of two, one is often null."""
    return hint if len(branches) < _SEVERAL else f"{hint} {index}"


def _singular_hint(hint: str) -> str:
    return hint[:-1] if hint.endswith("s") and not hint.endswith("ss") else f"{hint} item"
