"""Which schemas of a document have URIs and anchors of their own."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.formats.base import pointer as pointer_of
from signalbook.formats.jsonschema.comparison.keywords import children
from signalbook.formats.jsonschema.document import Document
from signalbook.formats.jsonschema.references import absolute, fragment_of
from signalbook.values import JSON, JSONObject

_DYNAMIC = ("$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resource:
    """A schema with a URI of its own: a document, or a part of one that has an ``$id``.

    ``document`` is the URI of the document it is in, ``pointer`` where in it.
    """

    uri: str
    document: str
    pointer: str
    root: JSON


class Resources:
    """All resources and anchors of a document and those it refers to.

    ``anchors`` gives the pointer of (resource, name); ``dynamic`` are those that dynamic references look for, with the
    name "" for ``$recursiveAnchor``. ``scoped`` says whether there are such references at all.
    """

    def __init__(self, document: Document) -> None:
        self.year = document.dialect.year
        self.by_uri: dict[str, Resource] = {}
        self.anchors: dict[tuple[str, str], str] = {}
        self.dynamic: set[tuple[str, str]] = set()
        for uri, root in document.documents.items():
            self._index(uri, root)
        self.scoped = self.year >= 2019 and any(_mentions(root, _DYNAMIC) for root in document.documents.values())

    def at(self, node: JSON, outer: Resource) -> Resource:
        """The resource that a schema within ``outer`` belongs to: its own, if it has a URI."""
        own = own_uri(node, self.year)
        return self.by_uri.get(absolute(outer.uri, own), outer) if own else outer

    def _index(self, uri: str, root: JSON) -> None:
        own = own_uri(root, self.year)
        top = Resource(uri=absolute(uri, own) if own else uri, document=uri, pointer="", root=root)
        self.by_uri[uri] = self.by_uri[top.uri] = top
        waiting: list[tuple[JSON, Resource, str]] = [(root, top, "")]
        while waiting:
            node, resource, pointer = waiting.pop()
            if isinstance(node, dict):
                resource, pointer = self._enter(node, resource, pointer)
                self._anchor(node, resource, pointer)
                waiting.extend((child, resource, pointer + pointer_of(tokens)) for tokens, child in children(node))

    def _enter(self, node: JSONObject, resource: Resource, pointer: str) -> tuple[Resource, str]:
        own = own_uri(node, self.year)
        if not own or node is resource.root:
            return resource, pointer
        uri = absolute(resource.uri, own)
        inner = Resource(uri=uri, document=resource.document, pointer=resource.pointer + pointer, root=node)
        return self.by_uri.setdefault(uri, inner), ""

    def _anchor(self, node: JSONObject, resource: Resource, pointer: str) -> None:
        own = node.get("id" if self.year == 2013 else "$id")
        if self.year < 2019 and isinstance(own, str) and fragment_of(own):
            self.anchors[resource.uri, fragment_of(own)] = pointer
        for keyword in ("$anchor", "$dynamicAnchor") if self.year >= 2019 else ():
            if isinstance(node.get(keyword), str):
                self.anchors[resource.uri, node[keyword]] = pointer
        if self.year == 2020 and isinstance(node.get("$dynamicAnchor"), str):
            self.dynamic.add((resource.uri, node["$dynamicAnchor"]))
        if self.year == 2019 and node.get("$recursiveAnchor") is True and not pointer:
            self.dynamic.add((resource.uri, ""))


def own_uri(node: JSON, year: int) -> str:
    """What a schema calls itself, if that is more than a fragment."""
    if not isinstance(node, dict) or (year < 2019 and isinstance(node.get("$ref"), str)):
        return ""
    own = node.get("id" if year == 2013 else "$id")
    return own.partition("#")[0] if isinstance(own, str) else ""


def _mentions(value: JSON, keywords: tuple[str, ...]) -> bool:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if any(keyword in node for keyword in keywords):
                return True
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False
