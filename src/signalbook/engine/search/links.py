"""The links of an entity, from its attributes and its schema. They can be followed in both directions.

A link leads to a Group, a Resource or a Version, which may be missing. A link to a Version is also indexed as a link to
its Resource, marked with ``PINNED``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from signalbook.engine.schemanames import NAME, list_name_keys
from signalbook.formats.base import find_family
from signalbook.formats.protobuf.compiler import list_imports
from signalbook.formats.references import is_indexable, list_linked_references, list_referred_names, read_as_xids
from signalbook.storage.base import Row
from signalbook.storage.words import Link
from signalbook.values import Finding, JSONObject
from signalbook.xid import Kind, Xid, XidError, named

PINNED: Final = "@"
"""The suffix of the kind of a link to a Resource that names one of its Versions."""
IMPORT: Final = "import"
SCHEMA: Final = "dataschema"
"""The kind of the link from a message to its schema."""
MAX_LINKS: Final = 1_000
_MAX_TARGET_CHARS: Final = 1_000
_STRING: Final = re.compile(rb"""["']([^"'\\\s]{1,1000})["']""")
_MIN_SLASHES: Final = 3
"""The minimum number of slashes in a reference to a Resource by its xid, whose first slash may be left out."""
_LINK_ATTRIBUTES: Final = {
    "dataschemaxid": SCHEMA,
    "dataschemauri": SCHEMA,
    "basemessage": "basemessage",
    "basemessageuri": "basemessage",
}
_GROUPS: Final = "messagegroups"


def list_imported_names(content: bytes, form: str, findings: Sequence[Finding] | None = None) -> tuple[str, ...]:
    """Return the names by which a schema document refers to others. ``findings`` are as in ``list_referred_names``."""
    names = list_imports(content) if find_family(form) == "protobuf" else list_referred_names(content, form, findings)
    return tuple(islice(dict.fromkeys(filter(is_indexable, names)), MAX_LINKS))


def list_mentions(content: bytes, form: str) -> tuple[str, ...]:
    """Return the strings of a schema document that look like xids or URLs."""
    if find_family(form) == "protobuf":
        return ()
    return tuple(islice(find_mentions(content), MAX_LINKS))


def find_mentions(content: bytes) -> Iterator[str]:
    """Yield the strings in ``content`` that look like xids or URLs, without duplicates."""
    if content.count(b"/") >= _MIN_SLASHES:
        texts = (text for text in _STRING.findall(content) if text.count(b"/") >= _MIN_SLASHES)
        yield from (text.decode("utf-8", "replace") for text in dict.fromkeys(texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLinks:
    """The strings of a document that may link it to other documents.

    ``mentions`` may be xids or URLs. ``imports`` are names of other documents. ``identities`` are names of the document
    itself.
    """

    mentions: Sequence[str] = ()
    imports: Sequence[str] = ()
    identities: Sequence[str] = ()


NO_DOCUMENT: Final = DocumentLinks()


def make_links(row: Row, document: DocumentLinks, root: str) -> frozenset[Link]:
    """Return the links of an entity, including the names by which it can be looked up.

    ``root`` is the registry's URL.
    """
    names = (Link(NAME, key) for key in list_name_keys(row, document.identities))
    return frozenset(islice(chain(names, _list_links(row, document, root.rstrip("/"))), MAX_LINKS))


def _list_links(row: Row, document: DocumentLinks, root: str) -> Iterator[Link]:
    if row.xref is not None:
        yield from _link_to("xref", row.xref)
    for name, kind in _LINK_ATTRIBUTES.items():
        yield from _link_to(kind, _read_resource(row.attributes.get(name), root))
    yield from _link_to("relatedto", _find_related(row))
    for target in _list_groups(row.attributes, root):
        yield Link(_GROUPS, str(target))
    for _, version in list_linked_references(row.attributes):
        yield from _link_to("references", version)
    for text in document.imports:
        xids = [xid for name in read_as_xids(text) if (xid := named(name, root)) is not None]
        for xid in xids:
            yield from _link_to("schema", xid)
        # The path of a Protobuf file may look like an xid.
        if not xids or text.endswith(".proto"):
            yield Link(IMPORT, text)
    for text in document.mentions:
        yield from _link_to("schema", named(text, root))


def _link_to(kind: str, target: Xid | None) -> Iterator[Link]:
    if target is not None and len(str(target)) <= _MAX_TARGET_CHARS:
        yield Link(kind, str(target))
        if target.kind is Kind.VERSION:
            yield Link(kind + PINNED, str(target.resource))


def _read_resource(value: object, root: str) -> Xid | None:
    return named(value, root) if isinstance(value, str) else None


def _find_related(row: Row) -> Xid | None:
    """Return the message in the same Group that a message relates to in the Message Catalog, or None."""
    other = row.attributes.get("relatedto")
    if not isinstance(other, str) or row.xid.kind is not Kind.VERSION:
        return None
    return named(str(row.xid.resource.parent / other), "")


def _list_groups(attributes: JSONObject, root: str) -> Iterator[Xid]:
    """Yield the message groups that an endpoint refers to in addition to its own messages."""
    references = attributes.get(_GROUPS)
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, str):
            text = reference.removeprefix("#")
            if root and text.startswith(f"{root}/"):
                text = text[len(root) :]
            try:
                xid = Xid.parse(text)
            except XidError:
                continue
            if xid.kind is Kind.GROUP:
                yield xid
