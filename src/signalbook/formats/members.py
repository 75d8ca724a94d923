"""List the members that a schema document declares, with their paths and descriptions, for the search by people.

Listing does not compile the schema or read the documents that it refers to, so it is cheap and also works for invalid
documents. The paths of members of a named type start at that type, because several members may use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import unquote

from signalbook.formats.base import find, find_family
from signalbook.formats.xsd import limits
from signalbook.formats.xsd.limits import XS
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, JSONError, step_into

MAX_MEMBERS: Final = 2_000
MAX_BYTES: Final = 4 * 1024 * 1024
"""The size of the largest document that is searched for members."""
MAX_TEXT: Final = 100_000
"""The maximum number of characters in all paths and descriptions of one document together."""
MAX_PROTO_BYTES: Final = 1024 * 1024
_MAX_JSON_DEPTH: Final = 64
_MAX_MEMBER_CHARS: Final = 1_000
"""The maximum number of characters in one path or description."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member, element, attribute or field. ``path`` has the names from the top or a named type, joined with ``.``."""

    path: str
    description: str = ""

    @property
    def name(self) -> str:
        """The last name in the path."""
        return self.path.rpartition(".")[2]


@runtime_checkable
class Listing(Protocol):
    """The additional method of a ``Format`` of a plugin that can list members."""

    def members(self, document: bytes) -> Iterator[Member]:
        """Yield the members that ``document`` declares, in its order; none if it cannot be read. Raises nothing."""
        ...


def list_members(document: bytes, format: str) -> tuple[Member, ...]:
    """Return the members that a ``document`` of ``format`` declares; empty if it cannot be read or is too large.

    At most ``MAX_MEMBERS`` members with ``MAX_TEXT`` characters are returned, because callers index many documents.
    """
    if len(document) > MAX_BYTES:
        return ()
    listed = _LISTED.get(find_family(format)) or _find_listing(format)
    try:
        return tuple(_limit_members(listed(document))) if listed else ()
    except (JSONError, limits.XMLError, RecursionError):
        return ()


class LinkedMembers:
    """The members of the parts of one document that deep links name.

    The members of a part are those that it declares and those of the types in the document that it refers to.
    """

    def __init__(self, document: bytes, format: str) -> None:
        self._family = find_family(format)
        self._root: JSON = None
        if self._family in ("avro", "jsonschema", "jsonstructure") and len(document) <= MAX_BYTES:
            with suppress(JSONError, RecursionError):
                self._root = parse_untrusted_json(document, max_depth=_MAX_JSON_DEPTH)

    def list_members(self, link: str, walk: Walk) -> tuple[Member, ...] | None:
        """Return the members of the part that ``link`` names, or None if they cannot be determined.

        None is returned for Protobuf and XML Schema, for an unknown part, and when ``walk`` has no steps left.
        """
        parts = self._walk_avro if self._family == "avro" else self._walk_json
        if self._root is None:
            return None
        walk.take()  # Discard the references of an earlier part, which may be left over.
        try:
            return tuple(_limit_members(parts(unquote(link).lstrip("#:"), walk)))
        except (LookupError, RecursionError, _Endless):
            return None

    def _walk_json(self, link: str, walk: Walk) -> Iterator[Member]:
        waiting: list[tuple[str, tuple[str, ...]]] = [("/" + link.removeprefix("/"), ())]
        met: set[str] = set()
        own_id = self._root.get("$id") if isinstance(self._root, dict) else None
        while waiting:
            pointer, path = waiting.pop()
            if pointer not in met:
                met.add(pointer)
                yield from _walk_json_type(_lookup(self._root, pointer), path, walk)
                for document, _, fragment in (reference.partition("#") for reference in walk.take()):
                    # Members of other documents are indexed with those documents.
                    if document in ("", own_id):
                        name = unquote(fragment).rpartition("/")[2]
                        waiting.append((unquote(fragment), (name,) if name else ()))

    def _walk_avro(self, link: str, walk: Walk) -> Iterator[Member]:
        types = {str(node["name"]).rpartition(".")[2]: node for node in _find_avro_records(self._root, walk)}
        waiting = [link.removeprefix("/")]
        met: set[str] = set()
        if waiting[0].rpartition(".")[2] not in types:
            raise LookupError(link)
        while waiting:
            name = waiting.pop().rpartition(".")[2]
            if name in types and name not in met:
                met.add(name)
                yield from _walk_avro_type(types[name], (), walk)
                waiting += walk.take()


@dataclass(slots=True)
class Walk:
    """The number of steps through documents that are left, and the references found since the last ``take``."""

    steps: int
    references: list[str] = field(default_factory=list)

    def step(self) -> None:
        """Count one step. Raises ``_Endless`` when no steps are left."""
        self.steps -= 1
        if self.steps < 0:
            raise _Endless

    def take(self) -> list[str]:
        """Return the references that were found and clear the list."""
        references, self.references = self.references, []
        return references


class _Endless(Exception):
    """Raised when walking through the parts of documents takes too many steps."""


def _lookup(node: JSON, pointer: str) -> JSON:
    """Return the value at the JSON Pointer ``pointer``. Raises ``LookupError`` if there is no such value."""
    if pointer and not pointer.startswith("/"):
        raise LookupError(pointer)
    for token in pointer.split("/")[1:] if pointer.strip("/") else ():
        node = step_into(node, token)
    return node


def _limit_members(members: Iterator[Member]) -> Iterator[Member]:
    remaining_chars = MAX_TEXT
    for member in islice(members, MAX_MEMBERS):
        remaining_chars -= len(member.path) + len(member.description)
        if remaining_chars < 0:
            return
        yield member


def _find_listing(format: str) -> Callable[[bytes], Iterator[Member]] | None:
    format_reader = find(format)
    return format_reader.members if isinstance(format_reader, Listing) else None


def _build_member(path: tuple[str, ...], description: object) -> Member:
    text = description if isinstance(description, str) else ""
    return Member(".".join(path)[:_MAX_MEMBER_CHARS], " ".join(text[:_MAX_MEMBER_CHARS].split()))


def _walk_avro_document(document: bytes) -> Iterator[Member]:
    yield from _walk_avro_type(parse_untrusted_json(document, max_depth=_MAX_JSON_DEPTH), ())


def _walk_avro_type(node: JSON, path: tuple[str, ...], walk: Walk | None = None) -> Iterator[Member]:
    """Yield the fields of the records in ``node``, also inside arrays, maps and unions.

    With a ``walk``, count a step and add the names of types that ``node`` refers to.
    """
    if walk is not None:
        walk.step()
        walk.references += [node] if isinstance(node, str) else []
    if isinstance(node, list):
        for branch in node:
            yield from _walk_avro_type(branch, path, walk)
    if not isinstance(node, dict):
        return
    for part in node["fields"] if isinstance(node.get("fields"), list) else ():
        if isinstance(part, dict) and isinstance(part.get("name"), str):
            inner = (*path, part["name"][:_MAX_MEMBER_CHARS])
            yield _build_member(inner, part.get("doc"))
            yield from _walk_avro_type(part.get("type"), inner, walk)
    for key in ("type", "items", "values"):
        if isinstance(node.get(key), dict | list | str):
            yield from _walk_avro_type(node[key], path, walk)


def _find_avro_records(node: JSON, walk: Walk) -> Iterator[dict[str, JSON]]:
    """Yield all named records in ``node``, including nested records."""
    walk.step()
    if isinstance(node, dict) and isinstance(node.get("name"), str) and node.get("type") in ("record", "error"):
        yield node
    for value in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        if isinstance(value, dict | list):
            yield from _find_avro_records(value, walk)


_MEMBER_KEYWORDS: Final = ("properties", "choices")
_TYPE_KEYWORDS: Final = ("definitions", "$defs")
_REFERENCES: Final = ("$ref", "$extends", "$recursiveRef", "$dynamicRef")
_INNER: Final = (
    "items", "prefixItems", "additionalProperties", "additionalItems", "values", "type", "allOf", "anyOf", "oneOf",
    "if", "then", "else", "contains", "patternProperties", "dependentSchemas",
)  # fmt: skip


def _walk_json_document(document: bytes) -> Iterator[Member]:
    """Yield the members that a JSON Schema or JSON Structure document declares."""
    root = parse_untrusted_json(document, max_depth=_MAX_JSON_DEPTH)
    yield from _walk_json_type(root, ())


def _walk_json_type(node: JSON, path: tuple[str, ...], walk: Walk | None = None) -> Iterator[Member]:
    """Yield the members of a schema. With a ``walk``, skip its named types and record its references in ``walk``."""
    if walk is not None:
        walk.step()
    if isinstance(node, list):
        for branch in node:
            yield from _walk_json_type(branch, path, walk)
    if not isinstance(node, dict):
        return
    if walk is not None:
        walk.references += [node[key] for key in _REFERENCES if isinstance(node.get(key), str)]
    for keyword in _MEMBER_KEYWORDS:
        for name, schema in _iter_mapping(node.get(keyword)):
            inner_path = (*path, name[:_MAX_MEMBER_CHARS])
            yield _build_member(inner_path, schema.get("description") if isinstance(schema, dict) else "")
            yield from _walk_json_type(schema, inner_path, walk)
    for keyword in _TYPE_KEYWORDS if walk is None else ():
        for name, schema in _iter_mapping(node.get(keyword)):
            yield from _walk_json_definition(schema, name[:_MAX_MEMBER_CHARS])
    for keyword in _INNER:
        inner = node.get(keyword)
        if keyword in ("patternProperties", "dependentSchemas"):
            inner = [schema for _, schema in _iter_mapping(inner)]
        if isinstance(inner, dict | list):
            yield from _walk_json_type(inner, path, walk)


def _walk_json_definition(schema: JSON, name: str) -> Iterator[Member]:
    """Yield the members of a named type, or of all types in a namespace of JSON Structure."""
    if isinstance(schema, dict) and not schema.keys() & {"type", "$ref", *_MEMBER_KEYWORDS, *_INNER}:
        for inner, schema_inside in schema.items():
            yield from _walk_json_definition(schema_inside, inner)
    else:
        yield from _walk_json_type(schema, (name,))


def _iter_mapping(value: JSON) -> Iterator[tuple[str, Any]]:
    return iter(value.items() if isinstance(value, dict) else ())


def _walk_xsd_document(document: bytes) -> Iterator[Member]:
    yield from _walk_xsd_parts(limits.read(document).root, ())


def _walk_xsd_parts(parent: Any, path: tuple[str, ...]) -> Iterator[Member]:
    for part in parent:
        name, inner = part.get("name"), path
        if name and part.tag in (f"{XS}element", f"{XS}attribute"):
            inner = (*path, name[:_MAX_MEMBER_CHARS])
            yield _build_member(inner, _read_documentation(part))
        elif name and part.tag in (f"{XS}complexType", f"{XS}group", f"{XS}attributeGroup"):
            inner = (name[:_MAX_MEMBER_CHARS],)
        yield from _walk_xsd_parts(part, inner)


def _read_documentation(part: Any) -> str:
    element = part.find(f"{XS}annotation/{XS}documentation")
    return "" if element is None else "".join(element.itertext())


# The quantifiers are possessive and names match only at the start of a word, so no text is scanned twice.
_PROTO_TOKEN: Final = re.compile(
    r"(?P<comment>//[^\n]*+|/\*.*?(?:\*/|\Z))|(?P<text>\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?)"
    r"|(?<![\w.])(?P<type>(?:message|enum|service|extend|oneof|group)\b\s*+(?P<name>[\w.]*+)[^{};\"'/]{0,200}+\{)"
    r"|(?<![\w.])(?P<field>(?:map\s{0,9}<[^<>{};]{1,400}>|[\w.]++)\s++(?P<own>\w++)\s*+=\s*+\w++\s*+(?=[;\[]))"
    r"|(?P<open>\{)|(?P<close>\})|(?P<end>;)",
    re.DOTALL,
)
_TOKEN_KINDS: Final = ("comment", "text", "type", "field", "open", "close", "end")
_BARE: Final = ("oneof", "extend")


def _walk_protobuf(document: bytes) -> Iterator[Member]:
    """Yield the fields of messages, found by their tokens: a compiler would need a process and all imported files.

    A comment before a field, or after it on the same line, is its description.
    """
    if len(document) > MAX_PROTO_BYTES:
        return
    text = document.decode("utf-8", "replace")
    path: list[tuple[str, ...]] = [()]
    kinds: list[str] = []
    comments: list[str] = []
    last: Member | None = None
    for token in _PROTO_TOKEN.finditer(text):
        if len(kinds) > _MAX_JSON_DEPTH:
            return
        kind = next(kind for kind in _TOKEN_KINDS if token[kind] is not None)
        if kind == "comment":
            if (
                last is not None
                and "\n" not in text[max(0, token.start() - _MAX_MEMBER_CHARS) : token.start()].rpartition(";")[2]
            ):
                last = Member(last.path, last.description or _strip_comment(token["comment"]))
            else:
                comments.append(_strip_comment(token["comment"]))
            continue
        if kind == "end":
            comments = []
            continue
        if last is not None:
            yield last
            last = None
        if kind == "type":
            word = token["type"].split(None, 1)[0].partition("{")[0]
            kinds.append(word)
            path.append(
                path[-1]
                if word in _BARE
                else (*path[-1], token["name"][:_MAX_MEMBER_CHARS])
                if word == "message"
                else ()
            )
        elif kind == "open":
            kinds.append("")
            path.append(path[-1])
        elif kind == "close" and kinds:
            kinds.pop()
            path.pop()
        elif kind == "field" and kinds and kinds[-1] in ("message", *_BARE):
            last = _build_member((*path[-1], token["own"]), " ".join(comments))
        comments = []
    if last is not None:
        yield last


def _strip_comment(text: str) -> str:
    return text.strip("/* \t\r\n")


_LISTED: Final[Mapping[str, Callable[[bytes], Iterator[Member]]]] = {
    "avro": _walk_avro_document,
    "jsonschema": _walk_json_document,
    "jsonstructure": _walk_json_document,
    "protobuf": _walk_protobuf,
    "xsd": _walk_xsd_document,
}
