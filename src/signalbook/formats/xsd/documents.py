"""XML Schema documents: what one refers to is gathered first, then the library builds them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import islice
from typing import Any, Final
from urllib.parse import urljoin
from xml.etree.ElementTree import Element

from elementpath import ElementPathError
from xmlschema import XMLResource, XMLSchema10, XMLSchema11, XMLSchemaException
from xmlschema.loaders import SchemaLoader
from xmlschema.utils.urls import normalize_url
from xmlschema.validators.builders import XsdBuilders

from signalbook.formats.base import MAX_FINDINGS, Resolve, SchemaError, shorten, too_large
from signalbook.formats.xsd import expressions, weight, xml
from signalbook.formats.xsd.patterns import LinearPatterns
from signalbook.formats.xsd.weight import XS
from signalbook.values import Finding

MAX_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 100
MAIN: Final = ""
_REFERENCES: Final = ("include", "redefine", "override", "import")
# Namespaces whose declarations every processor has.
_KNOWN: Final = frozenset(
    {
        "http://www.w3.org/XML/1998/namespace",
        "http://www.w3.org/2001/XMLSchema",
        "http://www.w3.org/2001/XMLSchema-instance",
    }
)

# Documents by where they are, the one in question as MAIN.
Sources = tuple[tuple[str, bytes], ...]
Built = Any


class _Schema10(XMLSchema10):
    builders = XsdBuilders("1.0", LinearPatterns)


class _Schema11(XMLSchema11):
    builders = XsdBuilders("1.1", LinearPatterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a document says it needs; ``location`` is where that is, or the namespace where it does not say."""

    location: str
    optional: bool


def read(document: bytes, place: str = MAIN) -> xml.Document:
    """Read one schema document. Raises ``SchemaError``."""
    findings = too_large(document)
    if findings:
        raise SchemaError(findings)
    if len(document) > MAX_BYTES:
        raise _refused(place, "size", f"more than {MAX_BYTES} bytes")
    try:
        found = xml.read(document)
    except xml.XMLError as error:
        raise _refused(place, "xml", str(error)) from None
    if found.root.tag != f"{XS}schema":
        raise _refused(place, "schema", f"the root is {found.root.tag}, and not {XS}schema")
    return found


def references(root: Element, place: str = MAIN) -> Iterator[Reference]:
    """The documents that one refers to."""
    for part in root:
        namespace = part.get("namespace", "").strip()
        if part.tag not in [XS + kind for kind in _REFERENCES] or namespace in _KNOWN:
            continue
        location = part.get("schemaLocation", "").strip()
        if location or namespace:
            yield Reference(location=_joined(place, location) if location else namespace, optional=not location)


def gather(document: bytes, resolve: Resolve | None) -> Sources:
    """The document and all it refers to. Raises ``SchemaError``."""
    found = {MAIN: document}
    waiting = [(part, MAIN) for part in references(read(document).root)]
    while waiting:
        reference, _ = waiting.pop()
        place = reference.location
        if place in found:
            continue
        content = resolve(place) if resolve else None
        if content is None:
            if reference.optional:
                continue
            raise _refused(MAIN, "import", f"there is no {shorten(place)!r} to include or import")
        found[place] = content
        if len(found) > MAX_FILES or sum(map(len, found.values())) > MAX_BYTES:
            message = f"more than {MAX_FILES} documents or {MAX_BYTES} bytes with all that is referred to"
            raise _refused(MAIN, "size", message)
        waiting += [(part, place) for part in references(read(content, place).root, place)]
    return tuple(sorted(found.items()))


def unfit(sources: Sources) -> Finding | None:
    """Why the documents are not built, if there is a reason: they would take too long, or run what may."""
    roots = [read(content, place).root for place, content in sources]
    if weight.is_heavy(roots):
        return Finding(path="", rule="weight", message="the content models take too long to build")
    for test in islice((test for root in roots for test in expressions.unbounded(root)), 1):
        message = shorten(f"not run, since nobody knows how long it takes: the expression {test!r}")
        return Finding(path="", rule="expression", message=message)
    return None


@lru_cache(maxsize=64)
def build(version: str, sources: Sources) -> Built:
    """The library's schema. Raises ``SchemaError`` with every fault."""
    reason = unfit(sources)
    if reason is not None:
        raise SchemaError([reason])
    made = _Schema10 if version == "1.0" else _Schema11
    try:
        built = made(
            BytesIO(dict(sources)[MAIN]), validation="lax", allow="none", defuse="always", use_fallback=False,
            loader_class=_loader(dict(sources)),
        )  # fmt: skip
        findings = list(islice(_faults(built, sources), MAX_FINDINGS))
    except (XMLSchemaException, ElementPathError, RecursionError, ValueError, TypeError, LookupError) as error:
        raise _refused(MAIN, "schema", str(error) or type(error).__name__) from None
    if findings:
        raise SchemaError(findings)
    return built


def _loader(sources: Mapping[str, bytes]) -> type[SchemaLoader]:
    """A loader that knows what was gathered, and nothing else."""
    places = {_url(place): content for place, content in sources.items() if place != MAIN}

    class Gathered(SchemaLoader):
        """Takes documents by where they are, each one once, so that two may refer to each other."""

        def load_schema(
            self, source: Any, namespace: Any = None, base_url: Any = None, build: bool = False, partial: bool = False
        ) -> Any:
            place = normalize_url(source, base_url)
            content = places.get(place)
            if content is None:
                raise OSError(f"there is no {source}")
            if content == sources[MAIN]:
                return self.maps.validator
            known = self.maps.get_schema(namespace, place)
            if known is not None:
                return known
            resource = XMLResource(BytesIO(content), allow="none", defuse="always")
            resource.url = place
            return self.schema_class(
                source=resource, namespace=namespace, validation="lax", global_maps=self.maps, build=build,
                partial=partial,
            )  # fmt: skip

        def import_namespace(self, schema: Any, namespace: str, location: str | None = None) -> None:
            if namespace in _KNOWN:
                return
            place = location or _url(namespace)
            if place in places:
                super().import_namespace(schema, namespace, place)

    return Gathered


def _url(place: str) -> str:
    try:
        return normalize_url(place)
    except ValueError:
        return place


def _joined(place: str, location: str) -> str:
    try:
        return urljoin(place, location)
    except ValueError:
        return location


def _faults(built: Built, sources: Sources) -> Iterator[Finding]:
    places = {_url(place): place for place, _ in sources}
    for schema in [built, *(part for part in built.maps.schemas if part is not built and part.url in places)]:
        place = places.get(schema.url, MAIN) if schema is not built else MAIN
        lines = _lines(schema.source.root, dict(sources)[place])
        for error in _once(schema.all_errors):
            line = lines.get(id(error.elem))
            where = f"{place} " * bool(place) + (f"line {line}" if line else "")
            yield Finding(path=where.strip(), rule="schema", message=shorten(str(error.message)))


def _once(errors: Iterable[Any]) -> Iterator[Any]:
    met: set[tuple[int, str]] = set()
    for error in errors:
        if (key := (id(error.elem), str(error.message))) not in met:
            met.add(key)
            yield error


def _lines(root: Element, content: bytes) -> dict[int, int]:
    """The line of each element of the library's tree; none where it left parts out for its version."""
    elements, lines = list(root.iter()), xml.read(content).lines
    return dict(zip(map(id, elements), lines, strict=True)) if len(elements) == len(lines) else {}


def _refused(place: str, rule: str, message: str) -> SchemaError:
    return SchemaError([Finding(path=place, rule=rule, message=shorten(message))])
