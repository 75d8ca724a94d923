"""XML Schema documents: gather all documents that a document refers to, then build them together with the library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import islice
from typing import Any, Final
from xml.etree.ElementTree import Element

from elementpath import ElementPathError
from xmlschema import XMLResource, XMLSchema10, XMLSchema11, XMLSchemaException
from xmlschema.loaders import SchemaLoader
from xmlschema.utils.urls import normalize_url
from xmlschema.validators.builders import XsdBuilders

from signalbook.formats.base import (
    IMPORT,
    MAX_FINDINGS,
    Resolve,
    SchemaError,
    UnresolvedReferences,
    check_size,
    shorten,
)
from signalbook.formats.xsd import limits, paths
from signalbook.formats.xsd.limits import XS, weigh
from signalbook.formats.xsd.patterns import LinearPatterns
from signalbook.uris import join_uris
from signalbook.values import Finding

MAX_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 100
MAIN: Final = ""
# The exceptions that the library raises for unexpected schemas or payloads.
FAILED: Final = (
    XMLSchemaException, ElementPathError, ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip
_REFERENCES: Final = ("include", "redefine", "override", "import")
# Python representations of objects in the library's messages.
_OBJECT: Final = re.compile(r"<(?:xmlschema|class)\b[^<>]*>")
_BRACES: Final = frozenset("{}")
_VERSIONING: Final = b"http://www.w3.org/2007/XMLSchema-versioning"
# Comparing two sets of elements takes as many steps as the product of their sizes.
MAX_ASSERTED: Final = 2_000
# Namespaces whose declarations are built into every processor.
_BUILTIN_NAMESPACES: Final = frozenset(
    {
        "http://www.w3.org/XML/1998/namespace",
        "http://www.w3.org/2001/XMLSchema",
        "http://www.w3.org/2001/XMLSchema-instance",
    }
)

# Pairs of a location and the document there; the location of the main document is MAIN.
Sources = tuple[tuple[str, bytes], ...]


class _Schema10(XMLSchema10):
    builders = XsdBuilders("1.0", LinearPatterns)


class _Schema11(XMLSchema11):
    builders = XsdBuilders("1.1", LinearPatterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReference:
    """A reference in a document. ``location`` is the location of the target, or its namespace if none is stated.

    The target may be missing if ``optional`` is True.
    """

    location: str
    optional: bool


def read(document: bytes, place: str = MAIN) -> limits.XmlDocument:
    """Parse one schema document and check that its root and paths are acceptable. Raises ``SchemaError``."""
    findings = check_size(document)
    if findings:
        raise SchemaError(findings)
    if len(document) > MAX_BYTES:
        raise _build_refusal(place, "size", f"more than {MAX_BYTES} bytes")
    try:
        xml = limits.read(document)
    except limits.XMLError as error:
        raise _build_refusal(place, "xml", str(error)) from None
    if xml.root.tag != f"{XS}schema":
        raise _build_refusal(place, "schema", f"the root is {xml.root.tag}, and not {XS}schema")
    if _BRACES & set(xml.root.get("targetNamespace", "")):
        raise _build_refusal(place, "schema", "the targetNamespace is a URI, without braces")
    findings = [
        _build_finding_at(place, line, f"no path: {part.get('xpath')!r}") for part, line in _find_bad_paths(xml)
    ]
    if findings:
        raise SchemaError(findings[:MAX_FINDINGS])
    return xml


def _find_bad_paths(document: limits.XmlDocument) -> Iterator[tuple[Element, int]]:
    for part, line in zip(document.root.iter(), document.lines, strict=True):
        if part.tag in (f"{XS}selector", f"{XS}field"):
            xpath = part.get("xpath", ".")
            if not paths.is_path(" ".join(xpath.split()), field=part.tag == f"{XS}field"):
                yield part, line


def list_references(root: Element, place: str = MAIN) -> Iterator[DocumentReference]:
    """Yield the references in the document with the root ``root``, resolved against its location ``place``."""
    for part in root:
        namespace = part.get("namespace", "").strip()
        if part.tag not in [XS + kind for kind in _REFERENCES] or namespace in _BUILTIN_NAMESPACES:
            continue
        location = part.get("schemaLocation", "").strip()
        if location or namespace:
            yield DocumentReference(
                location=join_uris(place, location) if location else namespace, optional=not location
            )


def make_identity(namespace: str) -> str:
    """Return the name of the schema that declares ``namespace``; braces distinguish it from the URI
    of a JSON Schema.
    """
    return f"{{{namespace}}}"


def list_identities(document: bytes) -> tuple[str, ...]:
    """Return the name that a document declares for itself, made of its target namespace; empty if it has none."""
    try:
        namespace = read(document).root.get("targetNamespace", "").strip()
    except SchemaError:
        return ()
    return (make_identity(namespace),) if namespace else ()


def gather(document: bytes, resolve: Resolve | None) -> Sources:
    """Return the document and all documents that it refers to, directly or indirectly.

    Raises ``UnresolvedReferences`` with all references to missing documents, else ``SchemaError`` for other problems.
    """
    documents = {MAIN: document}
    missing: dict[str, str] = {}
    waiting = list(list_references(read(document).root))
    while waiting:
        reference = waiting.pop()
        place = reference.location
        if place in documents or place in missing:
            continue
        content = None
        if resolve and reference.optional:
            content = resolve(make_identity(place))
        if resolve and content is None:
            content = resolve(place)
        if content is None:
            if not reference.optional:
                missing[place] = f"there is no {shorten(place)!r} to include or import"
            continue
        documents[place] = content
        # Check the limits while gathering, because a chain of documents may be endless.
        if len(documents) > MAX_FILES or sum(map(len, documents.values())) > MAX_BYTES:
            message = f"more than {MAX_FILES} documents or {MAX_BYTES} bytes with all that is referred to"
            raise _build_refusal(MAIN, "size", message)
        waiting += list_references(read(content, place).root, place)
    if missing:
        findings = [Finding(path="", rule=IMPORT, message=message) for message in missing.values()]
        raise UnresolvedReferences(findings[:MAX_FINDINGS])
    return tuple(sorted(documents.items()))


def find_unknown_namespaces(sources: Sources) -> list[str]:
    """Return the namespaces that documents import without a location and that no document was found for."""
    places = dict(sources)
    imports = (
        reference for place, content in sources for reference in list_references(read(content, place).root, place)
    )
    return sorted(
        {reference.location for reference in imports if reference.optional and reference.location not in places}
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Built:
    """A schema of the ``xmlschema`` library, and the maximum number of elements in its payloads."""

    schema: Any
    most_elements: int


@lru_cache(maxsize=64)
def build(version: str, sources: Sources) -> Built:
    """Build the schema of gathered documents. Raises ``SchemaError`` with every finding."""
    roots = [read(content, place).root for place, content in sources]
    # Check this first: the library's own checks take time quadratic in the length of a content model.
    weight = weigh(roots)
    if weight.is_heavy:
        raise _build_refusal(MAIN, "weight", "the content models take too long to build")
    test = next((test for root in roots for test in paths.list_unbounded(root)), None)
    if test is not None:
        raise _build_refusal(
            MAIN, "expression", f"not run, since nobody knows how long it takes: the expression {test!r}"
        )
    most = min(weight.most_elements, limits.MAX_ELEMENTS)
    asserted = any(map(paths.has_any, roots))
    return Built(schema=_build_schema(version, sources), most_elements=min(most, MAX_ASSERTED) if asserted else most)


def _build_schema(version: str, sources: Sources) -> Any:
    schema_type = _Schema10 if version == "1.0" else _Schema11
    try:
        schema = schema_type(
            BytesIO(dict(sources)[MAIN]), validation="lax", allow="none", defuse="always", use_fallback=False,
            loader_class=_build_loader(dict(sources)),
        )  # fmt: skip
        findings = _list_findings(schema, sources)
    except FAILED as error:
        findings = [part for place, content in sources for part in check_schema(version, content, place)][:MAX_FINDINGS]
        findings = findings or [_build_stopped(error)]
    if findings:
        raise SchemaError(findings)
    return schema


def _build_stopped(error: Exception) -> Finding:
    message = shorten(f"cannot be read as XML Schema: {str(error) or type(error).__name__}")
    return Finding(path="", rule="schema", message=message)


def check_schema(version: str, content: bytes, place: str = MAIN) -> list[Finding]:
    """Return the findings of a document against the schema of schemas; empty if it has parts for other XSD versions."""
    meta: Any = (_Schema10 if version == "1.0" else _Schema11).meta_schema
    # Such parts are left out depending on the version, but the schema of schemas would report all of them.
    if _VERSIONING in content:
        return []
    resource = XMLResource(BytesIO(content), allow="none", defuse="always")
    lines = _index_lines(resource.root, content)
    try:
        meta.build()
        errors = list(islice(meta.iter_errors(resource), MAX_FINDINGS))
    except FAILED as error:
        return [_build_stopped(error)]
    return [_build_finding(place, lines, error, error.reason or error.message) for error in errors]


def _build_loader(sources: Mapping[str, bytes]) -> type[SchemaLoader]:
    """Return a loader class that can load only the gathered documents."""
    places = {_build_url(place): content for place, content in sources.items() if place != MAIN}

    class Gathered(SchemaLoader):
        """Loads gathered documents by location, each only once, so that two documents may refer to each other."""

        def load_schema(
            self, source: Any, namespace: Any = None, base_url: Any = None, build: bool = False, partial: bool = False
        ) -> Any:
            place = normalize_url(source, base_url)
            content = places.get(place)
            if content is None:
                raise LookupError(f"there is no {source}")  # an OSError would be ignored
            # If a document imports itself by another name, return the same schema, so that its types are declared only
            # once.
            if content == sources[MAIN]:
                return self.maps.validator
            loaded = self.maps.get_schema(namespace, place)
            if loaded is not None:
                return loaded
            resource = XMLResource(BytesIO(content), allow="none", defuse="always")
            resource.url = place
            return self.schema_class(
                source=resource, namespace=namespace, validation="lax", global_maps=self.maps, build=build,
                partial=partial,
            )  # fmt: skip

        def import_namespace(self, schema: Any, namespace: str, location: str | None = None) -> None:
            if namespace in _BUILTIN_NAMESPACES:
                return
            place = location or _build_url(namespace)
            if location is not None or place in places:
                super().import_namespace(schema, namespace, place)

    return Gathered


def _build_url(place: str) -> str:
    try:
        return normalize_url(place)
    except ValueError:
        return place


def _list_findings(schema: Any, sources: Sources) -> list[Finding]:
    places = {_build_url(place): place for place, _ in sources if place != MAIN}
    findings: list[Finding] = []
    for part in (schema, *(part for part in schema.maps.schemas if part.url in places)):
        place = places.get(part.url, MAIN)
        lines = _index_lines(part.source.root, dict(sources)[place])
        findings += [_build_finding(place, lines, error, error.message) for error in _skip_repeated(_list_errors(part))]
    return findings[:MAX_FINDINGS]


def _build_finding(place: str, lines: Mapping[int, int], error: Any, message: Any) -> Finding:
    return _build_finding_at(place, lines.get(id(error.elem)), message)


def _build_finding_at(place: str, line: int | None, message: Any) -> Finding:
    where = [*([place] if place else []), *([f"line {line}"] if line else [])]
    text = _OBJECT.sub("…", " ".join(str(message).split()))
    return Finding(path=" ".join(where), rule="schema", message=shorten(text))


def _list_errors(schema: Any) -> Iterator[Any]:
    """Yield all errors, including errors of identity constraints, which the library leaves out."""
    yield from schema.all_errors
    for identity in schema.identities.values():
        for part in (identity, identity.selector, *identity.fields):
            yield from part.errors if part is not None else ()


def _skip_repeated(errors: Iterable[Any]) -> Iterator[Any]:
    met: set[tuple[int, str]] = set()
    for error in errors:
        if (key := (id(error.elem), str(error.message))) not in met:
            met.add(key)
            yield error


def _index_lines(root: Element, content: bytes) -> dict[int, int]:
    """Return the line of each element by its ``id()``; empty if the library left out parts for another version."""
    elements, lines = list(root.iter()), limits.read(content).lines
    return dict(zip(map(id, elements), lines, strict=True)) if len(elements) == len(lines) else {}


def _build_refusal(place: str, rule: str, message: str) -> SchemaError:
    return SchemaError([Finding(path=place, rule=rule, message=shorten(message))])
