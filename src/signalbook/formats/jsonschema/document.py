"""A JSON Schema document and its references, parsed once and shared by all schemas that link into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from typing import Any, Final
from urllib.parse import quote, unquote, urldefrag

import jsonschema_rs
import msgspec

from signalbook.formats.base import (
    IMPORT,
    MAX_FINDINGS,
    Resolve,
    SchemaError,
    UnresolvedReferences,
    check_size,
    format_pointer,
    shorten,
)
from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.dialects import (
    UNUSABLE,
    SchemaDialect,
    choose_dialect,
    compile_validator,
    find_by_schema_uri,
    find_meta_validator,
)
from signalbook.largejson import parse_untrusted_json
from signalbook.uris import join_uris
from signalbook.values import JSON, Finding, JSONError, canonical_json, digest, step_into


def resolve_uri(base: str, reference: str) -> str:
    """Return the URI of the document that ``reference`` points into, resolved against ``base``, without a fragment."""
    return base if reference.startswith("#") or not reference else urldefrag(join_uris(base, reference)).url


def find_fragment(reference: str) -> str:
    """Return the fragment of a reference: a JSON Pointer, an anchor, or ``""`` for a whole document."""
    return unquote(reference.partition("#")[2])


def make_uri(document: str, pointer: str) -> str:
    """Return the URI of the place ``pointer`` in the document with the URI ``document``."""
    return f"{document}#{quote(pointer, safe='/~!$&()*+,;=:@')}"


def lookup(root: JSON, pointer: str) -> JSON:
    """Return the value at the JSON Pointer ``pointer`` in ``root``, or ``True`` (the schema of any
    value) if there is none.
    """
    try:
        return reduce(step_into, pointer.split("/")[1:], root)
    except LookupError:
        return True


MAX_WEIGHT: Final = 100_000
MAX_CHAIN: Final = 150

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE: Final = ("not", "if", "then", "else")
_MAPS_HERE: Final = ("dependentSchemas", "dependencies")
_MAPS_BELOW: Final = ("properties", "patternProperties", "definitions", "$defs")
_BELOW: Final = (
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "prefixItems",
)  # fmt: skip


def check_weight(documents: Mapping[str, JSON], base: str, pointer: str = "") -> list[Finding]:
    """Return a finding if some payload could make a validator visit more than ``MAX_WEIGHT`` sub-schemas at one place.

    ``documents`` are the schema documents by URI, ``base`` and ``pointer`` are the place of the schema to check.
    """
    try:
        weight = _Weigher(documents).reference(f"#{pointer}", base, 0)
    except (_TooDeep, RecursionError):
        text = f"references and sub-schemas follow each other more than {MAX_CHAIN} deep"
        return [Finding(path="", rule="depth", message=text)]
    if weight > MAX_WEIGHT:
        text = "combined schemas multiply to more work than any payload is worth"
        return [Finding(path="", rule="weight", message=text)]
    return []


class _TooDeep(Exception):
    """Raised for a chain of references longer than ``MAX_CHAIN``."""


class _Weigher:
    """Estimates how many sub-schemas a validator visits for one value and one path of values inside it.

    The weight of a schema is the sum over the sub-schemas for the same value, plus the largest weight of the
    sub-schemas for values inside it.
    """

    def __init__(self, documents: Mapping[str, JSON]) -> None:
        self.documents = documents
        self.known: dict[str, int | None] = {}
        self.anchors: dict[str, dict[str, list[JSON]]] = {}

    def weigh(self, node: JSON, base: str, depth: int) -> int:
        if depth > MAX_CHAIN:
            raise _TooDeep
        if not isinstance(node, dict):
            return 1
        here = sum(self.weigh(child, base, depth + 1) for child in _list_here(node))
        if isinstance(node.get("$ref"), str):
            here += self.reference(node["$ref"], base, depth + 1)
        below = max((self.weigh(child, base, depth + 1) for child in _list_below(node)), default=0)
        return min(1 + here + below, MAX_WEIGHT + 1)

    def reference(self, reference: str, base: str, depth: int) -> int:
        """Return the weight of the referenced schema.

        Within a cycle the schema counts once, because the validator caches its result.
        """
        document, pointer = resolve_uri(base, reference), find_fragment(reference)
        key = f"{document}#{pointer}"
        if key not in self.known:
            self.known[key] = None
            self.known[key] = max(self.weigh(node, document, depth) for node in self._find_targets(document, pointer))
        return self.known[key] or 1

    def _find_targets(self, document: str, fragment: str) -> list[JSON]:
        """Return the possible targets of a reference. Several parts with their own base URI may
        have the same anchor.
        """
        root = self.documents.get(document, True)
        if not fragment or fragment.startswith("/"):
            return [lookup(root, fragment)]
        if document not in self.anchors:
            self.anchors[document] = _index_anchors(root, document)
        return self.anchors[document].get(fragment, [root])


def _index_anchors(root: JSON, base: str) -> dict[str, list[JSON]]:
    nodes: dict[str, list[JSON]] = {}
    for _, node, _ in walk(root, base):
        names = [node.get("$anchor"), node.get("$dynamicAnchor")]
        names += [
            identifier[1:]
            for key in ("$id", "id")
            if isinstance(identifier := node.get(key), str) and identifier.startswith("#")
        ]
        for name in names:
            if isinstance(name, str):
                nodes.setdefault(name, []).append(node)
    return nodes


def _list_here(node: dict[str, JSON]) -> list[JSON]:
    lists = [item for key in _LISTS if isinstance(node.get(key), list) for item in node[key]]
    maps = [item for key in _MAPS_HERE if isinstance(node.get(key), dict) for item in node[key].values()]
    return [*lists, *maps, *(node[key] for key in _HERE if key in node)]


def _list_below(node: dict[str, JSON]) -> list[JSON]:
    maps = [item for key in _MAPS_BELOW if isinstance(node.get(key), dict) for item in node[key].values()]
    singles = [node[key] for key in _BELOW if key in node]
    return [*maps, *(item for value in singles for item in (value if isinstance(value, list) else [value]))]


# The URI of a document without an `$id`, so that its relative references can be resolved.
_ROOT: Final = "https://schema.invalid"
BASE: Final = f"{_ROOT}/document"
MAX_DEPTH: Final = 128
_MAX_EXTERNAL: Final = 200
_CACHED: Final = 64
_KEYWORDS: Final = b'"$'
_PATTERN: Final = re.compile(rb'"pattern"\s*:\s*"([^"]*)"')
_DATA: Final = frozenset({"const", "enum", "default", "examples"})


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonSchemaDocument:
    """A schema document with all documents that it refers to, ready to compile validators for any part of it.

    ``documents`` contains all of them by URI. ``cache`` is for results that other modules derive from the document. If
    ``certain`` is True, the whole document is known to compile, so compiling can wait until a value is validated.
    """

    dialect: SchemaDialect
    root: JSON
    base: str
    documents: Mapping[str, JSON]
    certain: bool = False
    warnings: tuple[Finding, ...] = ()
    cache: dict[object, Any] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the version and the documents."""
        parts = (uri.encode() + b"\n" + canonical_json(document) for uri, document in self.documents.items())
        return digest(b"\n".join((self.dialect.format.encode(), *parts)))

    @cached_property
    def registry(self) -> jsonschema_rs.Registry:
        """The registry of all documents, for validators. Raises one of ``UNUSABLE``."""
        return jsonschema_rs.Registry(list(self.documents.items()), draft=self.dialect.draft)

    def is_foreign(self, root: JSON) -> bool:
        """Return True if the document ``root`` uses another version of JSON Schema.

        An unknown meta-schema counts as this version, as it does for validators.
        """
        uri = root.get("$schema") if isinstance(root, dict) else None
        return isinstance(uri, str) and find_by_schema_uri(uri) not in (None, self.dialect)

    def validator(self, *uris: str) -> jsonschema_rs.Validator:
        """Return a validator for values that conform to the schemas at all ``uris``. Raises one of ``UNUSABLE``."""
        if len(uris) == 1 and uris[0].removesuffix("#") == self.base:
            # Do not use a reference here: dynamic references need the document itself as their outermost schema.
            return compile_validator(self.dialect, self.root, self.registry, base_uri=self.base)
        refs = [{"$ref": uri} for uri in uris]
        return compile_validator(self.dialect, refs[0] if len(refs) == 1 else {"allOf": refs}, self.registry)


def load(document: bytes, format: str, resolve: Resolve | None) -> JsonSchemaDocument:
    """Parse, check and index a document. Raises ``SchemaError``.

    Documents without references to other documents are cached, so that hundreds of links into one parse it once.
    """
    return _load_closed(document, format) or _load_open(document, format, resolve)


def inspect(document: bytes, format: str) -> list[Finding]:
    """Return findings about a document alone: JSON, version, meta-schema, local references (G-14, G-19, G-23)."""
    try:
        closed = _load_closed(document, format)
        if closed is None:
            root, _, warnings = _read_document(document, format)
            return [*warnings, _warn_unfollowed(root)]
        if not closed.certain:
            compile_validator(closed.dialect, closed.root, None)
        return list(closed.warnings)
    except SchemaError as error:
        return list(error.findings)
    except UNUSABLE as error:
        return [_build_unusable(error)]


@lru_cache(maxsize=_CACHED)
def _load_closed(document: bytes, format: str) -> JsonSchemaDocument | None:
    root, dialect, warnings = _read_document(document, format)
    if _is_plain(document):
        patterns = _find_patterns(document, root)
        _check_weight(regexes.check_patterns(patterns))
        return _build(root, dialect, {}, warnings, certain=_is_certain_to_compile(document, root, dialect, patterns))
    if _has_external(root):
        return None
    return _weigh_and_build(root, dialect, {}, warnings)


def _load_open(document: bytes, format: str, resolve: Resolve | None) -> JsonSchemaDocument:
    root, dialect, warnings = _read_document(document, format)
    return _weigh_and_build(root, dialect, _collect(root, dialect, resolve), warnings)


def _is_plain(document: bytes) -> bool:
    """Return True if the text of a document shows that it has no references and needs little work.

    All keywords for references end in ``ef"``, unless they are escaped. Without references each part is visited at most
    once; the parts are counted by the texts ``{``, ``true`` and ``false``.
    """
    if b'ef"' in document or b"\\" in document:
        return False
    return sum(map(document.count, (b"{", b"true", b"false"))) <= MAX_WEIGHT


def _find_patterns(document: bytes, root: JSON) -> set[str]:
    """Return the patterns of a plain document. It has no escapes, so searching its text is faster
    than visiting its parts.
    """
    if b"patternProperties" in document:
        return regexes.find_patterns([root])
    return {pattern.decode() for pattern in _PATTERN.findall(document)}


def _is_certain_to_compile(document: bytes, root: JSON, dialect: SchemaDialect, patterns: Iterable[str]) -> bool:
    """Return True if a plain document that its meta-schema accepts certainly compiles.

    Only patterns and URIs of parts could still make compiling fail.
    """
    has_identifier = isinstance(root, dict) and ("id" in root or document.count(_KEYWORDS) > ("$schema" in root))
    if (
        has_identifier
        or b"patternProperties" in document
        or (dialect.draft == jsonschema_rs.Draft4 and b'"id"' in document)
    ):
        return False
    return all(_is_pattern(dialect, pattern) for pattern in patterns)


@lru_cache(maxsize=1024)
def _is_pattern(dialect: SchemaDialect, pattern: str) -> bool:
    try:
        compile_validator(dialect, {"pattern": pattern}, None)
    except UNUSABLE:
        return False
    return True


def _weigh_and_build(
    root: JSON, dialect: SchemaDialect, documents: Mapping[str, JSON], warnings: tuple[Finding, ...]
) -> JsonSchemaDocument:
    base = find_base_uri(root)
    _check_weight(
        check_weight({base: root, **documents}, base)
        or regexes.check_patterns(regexes.find_patterns((root, *documents.values())))
    )
    return _build(root, dialect, documents, warnings)


def _check_weight(findings: list[Finding]) -> None:
    if findings:
        raise SchemaError(findings)


def _build(
    root: JSON,
    dialect: SchemaDialect,
    documents: Mapping[str, JSON],
    warnings: tuple[Finding, ...],
    *,
    certain: bool = False,
) -> JsonSchemaDocument:
    base = find_base_uri(root)
    document = JsonSchemaDocument(
        dialect=dialect, root=root, base=base, documents={base: root, **documents}, certain=certain, warnings=warnings
    )
    if certain:
        return document
    try:
        document.registry  # noqa: B018
    except UNUSABLE as error:
        raise SchemaError([_build_unusable(error)]) from None
    return document


def find_base_uri(root: JSON) -> str:
    """Return the base URI of a document: its ``$id`` or ``id``, resolved against ``BASE``, without a fragment.

    It is ``BASE`` if the document has neither.
    """
    identifier = (root.get("$id") or root.get("id")) if isinstance(root, dict) else None
    return resolve_uri(BASE, identifier) if isinstance(identifier, str) else BASE


def _read_document(document: bytes, format: str) -> tuple[JSON, SchemaDialect, tuple[Finding, ...]]:
    """Return the parsed document, its dialect and its warnings. Raises ``SchemaError``."""
    findings = check_size(document)
    if findings:
        raise SchemaError(findings)
    try:
        root = parse_untrusted_json(document, max_depth=MAX_DEPTH)
    except JSONError as error:
        raise SchemaError([Finding(path="", rule="json", message=f"not JSON: {error}")]) from None
    dialect, findings = choose_dialect(root, format)
    errors = [finding for finding in findings if finding.severity == "error"] or _find_meta_problems(root, dialect)
    if errors:
        raise SchemaError(errors)
    return root, dialect, tuple(findings)


def _find_meta_problems(root: JSON, dialect: SchemaDialect) -> list[Finding]:
    findings = []
    for error in find_meta_validator(dialect).iter_errors(root):
        findings.append(
            Finding(path=format_pointer(error.instance_path), rule="metaschema", message=shorten(error.message))
        )
        if len(findings) == MAX_FINDINGS:
            break
    return findings


def _collect(root: JSON, dialect: SchemaDialect, resolve: Resolve | None) -> dict[str, JSON]:
    """Return every document that ``root`` refers to, directly or indirectly, by URI.

    Raises ``UnresolvedReferences`` with all references whose document is missing or cannot be used.
    """
    documents: dict[str, JSON] = {}
    own_uri = find_base_uri(root)
    missing: dict[str, Finding] = {}
    waiting = list(_find_external(root))
    while waiting:
        reference = waiting.pop()
        uri = reference.uri
        if uri in documents or uri in missing or uri == own_uri:
            continue
        if len(documents) == _MAX_EXTERNAL:
            raise SchemaError([reference.dangling(f"more than {_MAX_EXTERNAL} documents are referred to")])
        content = reference.content(resolve)
        if content is None:
            missing[uri] = reference.dangling("no such document was found")
            continue
        try:
            documents[uri], *_ = _read_document(content, dialect.format)
        except SchemaError as error:
            missing[uri] = reference.dangling(str(error))
            continue
        waiting.extend(replace(inner, path=reference.path) for inner in _find_external(documents[uri], uri))
    if missing:
        raise UnresolvedReferences(list(missing.values())[:MAX_FINDINGS])
    return documents


def make_public_uri(uri: str) -> str:
    """Return the name to look up a document by. For a reference relative to a document without
    ``$id``, this is a path.
    """
    return uri.removeprefix(_ROOT)


def list_identities(document: bytes) -> tuple[str, ...]:
    """Return the URI that a document declares as its own, or no URI. A relative URI is returned as
    a path from the root.
    """
    try:
        stated = msgspec.json.decode(document, type=_Identified)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    identifier = stated.id or stated.old_id
    uri = urldefrag(join_uris(BASE, identifier)).url if isinstance(identifier, str) else BASE
    return () if uri == BASE else (make_public_uri(uri),)


class _Identified(msgspec.Struct):
    id: Any = msgspec.field(default=None, name="$id")
    old_id: Any = msgspec.field(default=None, name="id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExternalReference:
    """A reference to another document: its absolute URI, its text as written, and the JSON Pointer of its place."""

    uri: str
    written: str
    path: str

    def content(self, resolve: Resolve | None) -> bytes | None:
        """Return the referenced document or None. Look it up by its URI, then by the reference as a
        path without base URI.
        """
        if resolve is None:
            return None
        content = resolve(make_public_uri(self.uri))
        as_path = resolve_uri(BASE, self.written)
        if content is None and as_path != self.uri and as_path.startswith(_ROOT):
            content = resolve(make_public_uri(as_path))
        return content

    def dangling(self, why: str) -> Finding:
        message = f"cannot use {make_public_uri(self.uri)}: {why}"
        return Finding(path=self.path, rule=IMPORT, message=shorten(message))


def _warn_unfollowed(root: JSON) -> Finding:
    """Return the warning that a check did not follow the references of a document."""
    uris = dict.fromkeys(make_public_uri(reference.uri) for reference in _find_external(root))
    message = shorten(f"checked in part only: it refers to {', '.join(uris)}")
    return Finding(path="", rule=IMPORT, message=message, severity="warning")


def _has_external(root: JSON) -> bool:
    return any(True for _ in _find_external(root))


def _find_external(root: JSON, base: str = "") -> Iterator[_ExternalReference]:
    """Yield the references in ``root`` to other documents."""
    base = base or find_base_uri(root)
    refs = list(list_references(root, base))
    if not refs:
        return
    own_uris = {base, *(scope for _, _, scope in refs), *list_nested_ids(root, base)}
    for path, ref, scope in refs:
        uri = resolve_uri(scope, ref)
        if uri not in own_uris and find_by_schema_uri(uri) is None:
            yield _ExternalReference(uri=uri, written=ref, path=path)


def list_nested_ids(root: JSON, base: str) -> Iterator[str]:
    """Yield the absolute URIs that parts of a document declare with ``$id``."""
    for _, node, scope in walk(root, base):
        if node is not root and any(isinstance(node.get(key), str) for key in ("$id", "id")):
            yield scope


def list_references(root: JSON, base: str) -> Iterator[tuple[str, str, str]]:
    """Yield the JSON Pointer, the text and the base URI of each reference in a document."""
    for path, node, scope in walk(root, base):
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            ref = node.get(key)
            if isinstance(ref, str):
                yield format_pointer(path), ref, scope


def walk(value: JSON, base: str) -> Iterator[tuple[tuple[str | int, ...], dict[str, JSON], str]]:
    """Yield each object of a document that may be a schema, with its path and base URI."""
    waiting: list[tuple[tuple[str | int, ...], JSON, str]] = [((), value, base)]
    while waiting:
        path, node, scope = waiting.pop()
        if isinstance(node, dict):
            identifier = node.get("$id") or node.get("id")
            if isinstance(identifier, str) and not identifier.startswith("#"):
                scope = resolve_uri(scope, identifier)
            yield path, node, scope
            waiting.extend(((*path, key), item, scope) for key, item in node.items() if key not in _DATA)
        elif isinstance(node, list):
            waiting.extend(((*path, index), item, scope) for index, item in enumerate(node))


def link_uri(document: JsonSchemaDocument, link: str) -> str:
    """Return the URI of the part that a deep link names: ``#/definitions/A``, ``definitions/A`` or an anchor (G.2,
    G-15).

    Raises ``SchemaError`` if validating that part could take too much work.
    """
    text = link.removeprefix(":")
    fragment = find_fragment(text) if text.startswith("#") else text
    if fragment and not fragment.startswith("/") and not (text.startswith("#") and "/" not in fragment):
        fragment = "/" + fragment
    if fragment.startswith("/"):
        _check_weight(check_weight(document.documents, document.base, fragment))
    return make_uri(document.base, fragment)


def _build_unusable(error: BaseException) -> Finding:
    message = str(error).partition("\n")[0] or type(error).__name__
    if isinstance(error, RecursionError):
        message = "references are nested too deep"
    return Finding(path="", rule="schema", message=shorten(message))


def make_unusable_error(error: BaseException) -> SchemaError:
    """Return the ``SchemaError`` for an ``error`` that the validator library raised when compiling."""
    return SchemaError([_build_unusable(error)])
