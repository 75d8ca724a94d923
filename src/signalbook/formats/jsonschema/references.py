"""URIs and JSON Pointers of JSON Schema references."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote, urldefrag, urljoin

from signalbook.values import JSON

_MISSING: Final = object()


def absolute(base: str, reference: str) -> str:
    """The URI of the document ``reference`` points into, read at ``base``."""
    return base if reference.startswith("#") or not reference else urldefrag(urljoin(base, reference)).url


def fragment_of(reference: str) -> str:
    """The fragment of a reference: a JSON Pointer, an anchor, or ``""`` for a whole document."""
    return unquote(reference.partition("#")[2])


def uri_of(document: str, pointer: str) -> str:
    """The URI of a place in a document."""
    return f"{document}#{quote(pointer, safe='/~!$&()*+,;=:@')}"


def lookup(root: JSON, pointer: str) -> JSON:
    """What a JSON Pointer names in ``root``; ``True`` (any value) where it names nothing."""
    node = root
    for part in pointer.split("/")[1:]:
        node = _step(node, part.replace("~1", "/").replace("~0", "~"))
        if node is _MISSING:
            return True
    return node


def _step(node: JSON, key: str) -> JSON:
    if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
        return node[int(key)]
    return node.get(key, _MISSING) if isinstance(node, dict) else _MISSING
