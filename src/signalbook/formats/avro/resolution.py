"""Avro's schema resolution: find why a reader's schema cannot read data of a writer's schema.

The rules are exactly those of the Avro specification, "Schema Resolution" and "Aliases". What the specification allows
is not a difference, even a ``long`` that loses digits as a ``float`` (docs/decisions/056).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from signalbook.formats.avro.document import PRIMITIVES, Names, Type
from signalbook.formats.base import MAX_FINDINGS
from signalbook.formats.compatibility import Comparison, Difference
from signalbook.values import JSONObject

MAX_STEPS: Final = 200_000
_SYMBOLS_A_STEP: Final = 20
# The types that a writer's type may be read as, in addition to itself.
_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
# The types that a logical type may annotate. By the specification, readers ignore all other logical types.
_LOGICAL: Final = {
    "decimal": {"bytes", "fixed"},
    "big-decimal": {"bytes"},
    "uuid": {"string", "fixed"},
    "date": {"int"},
    "time-millis": {"int"},
    "duration": {"fixed"},
    "time-micros": {"long"},
    **{f"{local}timestamp-{unit}": {"long"} for local in ("", "local-") for unit in ("millis", "micros", "nanos")},
}


def find_differences(reader: Names, writer: Names, *, enum_defaults: bool) -> list[Difference]:
    """Return all reasons why the top-level type of ``writer`` does not resolve to the top-level type of ``reader``.

    ``enum_defaults`` is True if the default of an enum replaces unknown symbols, as from release 1.9 on. A path starts
    with the full name of a record: ``com.example.Order.items[].price``; ``[]`` means the items of an array, ``{}`` the
    values of a map, ``<name>`` an alternative of a union.
    """
    if reader.fingerprint == writer.fingerprint:
        return []
    resolution = _Resolution(reader, writer, enum_defaults)
    return resolution.differences("schemas", resolution.run)


class _Resolution(Comparison):
    """Compares pairs of types. Records are queued, so that the depth of a schema does not matter."""

    def __init__(self, reader: Names, writer: Names, enum_defaults: bool) -> None:
        super().__init__(MAX_STEPS)
        self.reader = reader
        self.writer = writer
        self.enum_defaults = enum_defaults
        self.aliases = {name: frozenset(node.get("aliases", ())) for name, node in reader.types.items()}
        self.waiting: deque[tuple[JSONObject, JSONObject, str]] = deque()

    def run(self) -> None:
        self.compare(self.reader.root, self.writer.root, "")
        while self.waiting:
            self.record(*self.waiting.popleft())

    def compare(self, reader: Type, writer: Type, path: str) -> None:
        self.step()
        reader, writer = _resolve_name(reader, self.reader), _resolve_name(writer, self.writer)
        if isinstance(writer, list):
            for branch in writer:
                self.alternative(reader, _resolve_name(branch, self.writer), path, of=writer)
        elif isinstance(reader, list):
            self.alternative(reader, writer, path, of=None)
        else:
            self.single(reader, writer, path)

    def alternative(self, reader: Type, writer: Type, path: str, *, of: list[Type] | None) -> None:
        """Compare one type of the writer if the reader has a union, or the writer has the union ``of``."""
        candidates = [
            _resolve_name(branch, self.reader) for branch in (reader if isinstance(reader, list) else [reader])
        ]
        matching = [branch for branch in candidates if self.matches(branch, writer)]
        if not matching:
            message = f"{_format_type(writer)} can be written, but the reader takes only {_format_type(reader)}"
            self.report(
                path,
                "alternative_missing" if of else "type_changed",
                _format_type(of or writer),
                _format_type(reader),
                message,
            )
            return
        same_named = [
            branch for branch in matching if isinstance(writer, dict) and _format_name(branch) == _format_name(writer)
        ]
        if same_named and _format_name(matching[0]) and same_named[0] is not matching[0]:
            message = (
                f"a {_format_name(writer)} may be read as {_format_name(matching[0])}, the first alternative of "
                "the same short name"
            )
            self.report(path, "union_ambiguous", _format_name(writer), _format_name(matching[0]), message)
        # An optional type keeps the path of its field; the alternative is named only if there are several.
        several = sum(branch != "null" for branch in candidates) > 1
        self.single(matching[0], writer, f"{path}<{_format_label(matching[0])}>" if several and path else path)

    def matches(self, reader: Type, writer: Type) -> bool:
        """Return True if two types match as the specification defines, regardless of their members."""
        self.step()
        reader, writer = _resolve_name(reader, self.reader), _resolve_name(writer, self.writer)
        # By the specification, a union matches any type. Its alternatives are compared later.
        if isinstance(reader, list) or isinstance(writer, list):
            return True
        kind = _find_kind(reader)
        if kind != _find_kind(writer):
            return kind in _PROMOTIONS.get(_find_kind(writer), ())
        if kind in ("array", "map"):
            inner = _INNER[kind][0]
            return self.matches(reader[inner], writer[inner])
        return kind in PRIMITIVES or (self.same_name(reader, writer) and reader.get("size") == writer.get("size"))

    def same_name(self, reader: JSONObject, writer: JSONObject) -> bool:
        """Return True if the unqualified names are equal, or if an alias of the reader is the writer's full name."""
        old, new = str(writer["name"]), str(reader["name"])
        return old.rpartition(".")[2] == new.rpartition(".")[2] or old in self.aliases[new]

    def single(self, reader: Type, writer: Type, path: str) -> None:
        """Compare two types, neither of them a union."""
        kind = _find_kind(reader)
        if kind != _find_kind(writer) and kind not in _PROMOTIONS.get(_find_kind(writer), ()):
            message = f"{_format_type(writer)} cannot be read as {_format_type(reader)}"
            self.report(path, "type_changed", _format_type(writer), _format_type(reader), message)
            return
        if _format_name(reader) and not self.same_name(reader, writer):
            message = (
                f"{_format_name(writer)} is not called that any more, and {_format_name(reader)} has no alias for it"
            )
            self.report(path, "name_changed", _format_name(writer), _format_name(reader), message)
            return
        self.logical(reader, writer, path)
        inside: dict[str, Callable[[Any, Any, str], None]] = {
            "record": self.line_up, "enum": self.enum, "fixed": self.fixed, "array": self.items, "map": self.items,
        }  # fmt: skip
        if kind in inside:
            inside[kind](reader, writer, path)

    def line_up(self, reader: JSONObject, writer: JSONObject, path: str) -> None:
        # Compare each pair only once, because types may contain themselves.
        pair = (reader["name"], writer["name"])
        if pair not in self.met:
            self.met.add(pair)
            self.waiting.append((reader, writer, path or reader["name"]))

    def record(self, reader: JSONObject, writer: JSONObject, path: str) -> None:
        """Compare fields by the reader's names and aliases; fields that only the writer has are skipped."""
        written = {part["name"]: part for part in writer["fields"]}
        claimed: dict[str, str] = {}
        for part in reader["fields"]:
            here = f"{path}.{part['name']}"
            self.step()
            sources = [name for name in _list_names(part) if name in written]
            self.check_unambiguous(part["name"], sources, claimed, here)
            if sources:
                self.compare(part["type"], written[sources[0]]["type"], here)
            elif "default" not in part:
                message = "the data was written without this field, and the field has no default"
                self.report(here, "default_missing", None, _format_type(part["type"]), message)

    def check_unambiguous(self, name: str, sources: list[str], claimed: dict[str, str], path: str) -> None:
        """Report a written field that is ambiguous between the reader's fields, because libraries
        handle it differently.
        """
        if len(sources) > 1:
            message = f"{' and '.join(sources)} are both written, and both are names of the reader's {name}"
            self.report(path, "alias_ambiguous", sources, name, message)
        for source in sources:
            if claimed.setdefault(source, name) != name:
                message = f"the written {source} is a name of the reader's {claimed[source]} and of its {name}"
                self.report(path, "alias_ambiguous", source, name, message)

    def enum(self, reader: JSONObject, writer: JSONObject, path: str) -> None:
        symbols = frozenset(reader["symbols"])
        # A default that is not one of the symbols has no effect.
        if self.enum_defaults and reader.get("default") in symbols:
            return
        self.step(len(writer["symbols"]) // _SYMBOLS_A_STEP)
        for symbol in [symbol for symbol in writer["symbols"] if symbol not in symbols][: MAX_FINDINGS + 1]:
            self.step()
            why = "has no default" if self.enum_defaults else "takes no default before Avro 1.9"
            message = f"{symbol} can be written, but the reader does not know it and {why}"
            self.report(path or reader["name"], "symbol_missing", symbol, None, message)

    def fixed(self, reader: JSONObject, writer: JSONObject, path: str) -> None:
        if reader["size"] != writer["size"]:
            message = f"{writer['size']} bytes are written, {reader['size']} read"
            self.report(path or reader["name"], "size_changed", writer["size"], reader["size"], message)

    def items(self, reader: JSONObject, writer: JSONObject, path: str) -> None:
        inner, mark = _INNER[reader["type"]]
        self.compare(reader[inner], writer[inner], path + mark)

    def logical(self, reader: Type, writer: Type, path: str) -> None:
        """Report different logical types. If one side has no logical type, only the underlying types matter."""
        old, new = _find_meaning(writer), _find_meaning(reader)
        if old is None or new is None or old == new:
            return
        # Scale and precision are not encoded: the same bytes would be read as another number.
        decimal = old[0] == new[0]
        rule = "decimal_changed" if decimal else "logical_type_changed"
        message = "decimals of another precision or scale" if decimal else "the same bytes with another meaning"
        self.report(
            path,
            rule,
            _format_logical(old),
            _format_logical(new),
            f"{message}: {_format_type(writer)}, {_format_type(reader)}",
        )


_INNER: Final = {"array": ("items", "[]"), "map": ("values", "{}")}


def _resolve_name(node: Type, names: Names) -> Type:
    return names.types[node] if isinstance(node, str) and node not in PRIMITIVES else node


def _find_kind(node: Type) -> str:
    return node if isinstance(node, str) else str(node["type"])


def _format_name(node: Type) -> str:
    return str(node.get("name", "")) if isinstance(node, dict) else ""


def _format_label(node: Type) -> str:
    return _format_name(node) or _find_kind(node)


def _list_names(part: JSONObject) -> list[str]:
    """Return the name and the aliases of a field."""
    return list(dict.fromkeys([part["name"], *part.get("aliases", ())]))


def _find_meaning(node: Type) -> tuple[Any, ...] | None:
    """Return the logical type and its parameters, or None if there is no valid logical type."""
    if not isinstance(node, dict) or node["type"] not in _LOGICAL.get(node.get("logicalType", ""), ()):
        return None
    name = node["logicalType"]
    return (name, node.get("precision"), node.get("scale", 0)) if name == "decimal" else (name,)


def _format_logical(meaning: tuple[Any, ...]) -> str:
    return f"decimal({meaning[1]}, {meaning[2]})" if meaning[0] == "decimal" else str(meaning[0])


def _format_type(node: Type, depth: int = 0) -> str:
    """Return a type as text for messages."""
    if isinstance(node, list):
        return "union of " + ", ".join(_format_type(branch, depth + 1) for branch in node[:10])
    kind = _find_kind(node)
    if kind in _INNER:
        return f"{kind} of {_format_type(node[_INNER[kind][0]], depth + 1) if depth < 5 else 'more'}"
    meaning = _find_meaning(node)
    return " ".join(filter(None, (kind, _format_name(node)))) + (f" ({_format_logical(meaning)})" if meaning else "")
