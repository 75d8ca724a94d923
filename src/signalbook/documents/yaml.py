"""Parse YAML (the core schema of YAML 1.2) to JSON values, within limits.

This uses the events of the parser instead of its constructors. The constructors turn dates into objects and ``on`` into
a boolean (YAML 1.1), accept duplicate keys, and recurse as deeply as the document is nested.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from signalbook.documents.errors import DocumentError
from signalbook.values import JSON

MAX_NODES: Final = 10_000_000
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_NULL: Final = re.compile(r"|~|null|Null|NULL")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NO_JSON: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def parse_yaml(text: str, *, max_depth: int) -> JSON:
    """Parse ``text``, which contains one document. Mapping keys are strings as written, and aliases are resolved.

    Raises ``DocumentError`` with the line for invalid YAML, duplicate keys, tags and numbers that JSON cannot express,
    nesting beyond ``max_depth``, and more than ``MAX_NODES`` values after aliases are resolved.
    """
    builder = _Builder(max_depth=max_depth)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise DocumentError(f"{where}{_explain_problem(error, text)}") from None
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split())) from None
    return builder.result()


def _explain_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return the parser's message, with advice for the two most frequent mistakes."""
    mark, problem = error.problem_mark, error.problem or "the YAML is broken"
    lines = text.splitlines()
    if mark is not None and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        return "there is a tab: YAML takes only spaces for indentation"
    if problem == "did not find expected key":
        return f"{problem}: check the indentation of this line and of the lines before it"
    return problem


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end was not read yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    nodes: int = 1
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    max_depth: int
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[JSON, int]] = field(default_factory=dict)
    roots: list[JSON] = field(default_factory=list)

    def take(self, event: yaml.Event) -> None:
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def result(self) -> JSON:
        if not self.roots:
            raise DocumentError("is empty")
        if len(self.roots) > 1:
            raise DocumentError(f"holds {len(self.roots)} YAML documents where one is expected")
        return self.roots[0]

    def open(self, event: Any) -> None:
        self._check_tag(event, "map" if isinstance(event, yaml.MappingStartEvent) else "seq")
        if len(self.stack) >= self.max_depth:
            raise _make_error(event, f"nested deeper than {self.max_depth} levels")
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            raise _make_error(event, "a key needs to be plain text")
        self.stack.append(_Open(value=value, anchor=event.anchor))

    def close(self, event: Any) -> None:
        ended = self.stack.pop()
        self._add(event, ended.value, ended.anchor, ended.nodes)

    def add_scalar(self, event: Any) -> None:
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            self._set_key(event)
        else:
            self._add(event, _parse_scalar(event), event.anchor, 1)

    def add_alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise _make_error(event, f"the alias *{event.anchor} names nothing that stands before it")
        value, nodes = self.anchors[event.anchor]
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            raise _make_error(event, "a key needs to be plain text")
        self._add(event, value, None, nodes)

    def _set_key(self, event: Any) -> None:
        parent = self.stack[-1]
        assert isinstance(parent.value, dict)
        # The library would let the last one win, and hide a mistake.
        if event.value in parent.value:
            raise _make_error(event, f"the key {event.value!r} stands here twice")
        parent.key = event.value

    def _add(self, event: Any, value: JSON, anchor: str | None, nodes: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, nodes)
        if not self.stack:
            self.roots.append(value)
            return
        parent = self.stack[-1]
        # Aliases count with all they stand for: ten lines of them can stand for billions of values.
        parent.nodes += nodes
        if parent.nodes > MAX_NODES:
            raise _make_error(event, f"its aliases make more than {MAX_NODES} values of it")
        if isinstance(parent.value, dict):
            parent.value[str(parent.key)] = value
            parent.key = None
        else:
            parent.value.append(value)

    @staticmethod
    def _check_tag(event: Any, expected: str) -> None:
        if event.tag not in (None, "!", _TAG + expected):
            raise _make_error(event, f"the tag {event.tag} has no form in JSON")


_HANDLERS: Final[dict[type[yaml.Event], Callable[[_Builder, Any], None]]] = {
    yaml.MappingStartEvent: _Builder.open,
    yaml.SequenceStartEvent: _Builder.open,
    yaml.MappingEndEvent: _Builder.close,
    yaml.SequenceEndEvent: _Builder.close,
    yaml.ScalarEvent: _Builder.add_scalar,
    yaml.AliasEvent: _Builder.add_alias,
}


def _make_error(event: Any, message: str) -> DocumentError:
    return DocumentError(f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}: {message}")


def _parse_scalar(event: Any) -> JSON:
    text: str = event.value
    if event.tag in ("!", _TAG + "str") or (event.tag is None and not event.implicit[0]):
        return text
    value = _parse_plain(event, text)
    if event.tag is not None and _TAG_TYPES.get(event.tag) is not type(value):
        raise _make_error(event, f"{text!r} with the tag {event.tag} has no form in JSON")
    return value


_TAG_TYPES: Final[dict[str, type]] = {
    _TAG + "null": type(None),
    _TAG + "bool": bool,
    _TAG + "int": int,
    _TAG + "float": float,
}


def _parse_plain(event: Any, text: str) -> JSON:
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _NO_JSON.fullmatch(text) or (_FLOAT.fullmatch(text) and abs(float(text)) == float("inf")):
        raise _make_error(event, f"the number {text} has no form in JSON: put it in quotes if it is text")
    return float(text) if _FLOAT.fullmatch(text) else text
