"""The documents of a folder as one: what is spread over files is imported whole or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from signalbook.documents.aiming import aim
from signalbook.documents.entities import collections
from signalbook.documents.faults import DocumentError
from signalbook.documents.sources import Source
from signalbook.values import JSON, JSONObject


def merge(sources: Sequence[Source], *, name: str) -> Source:
    """One source of ``sources``, each document in its place below the Registry; ``parts`` tells which were there.

    Several may speak of one entity, as long as they say the same. Raises ``DocumentError`` naming both where they do
    not.
    """
    merging = _Merging()
    for source in sources:
        try:
            upload = aim(source.document)
        except DocumentError as error:
            raise DocumentError(f"{source.name}: {error}") from None
        body: JSON = upload.body
        for part in reversed(upload.target.parts):
            body = {part: body}
        merging.add((), merging.tree, body, source.name)
    counted = f"{name} ({len(sources)} document{'' if len(sources) == 1 else 's'})"
    return Source(name=counted, document=merging.tree, parts=tuple(sources), lenient=any(s.lenient for s in sources))


class _Merging:
    def __init__(self) -> None:
        self.tree: JSONObject = {}
        self._told: dict[tuple[str, ...], str] = {}

    def add(self, path: tuple[str, ...], into: JSONObject, body: JSONObject, source: str) -> None:
        """Put what is at ``path`` of a document into ``into``, which is there in the tree."""
        shared = _shared(path, body)
        for name, value in body.items():
            here = (*path, name)
            if name in shared and isinstance(value, dict) and isinstance(into.setdefault(name, {}), dict):
                self.add(here, into[name], value, source)
            elif name in into and into[name] != value:
                place = f"/{'/'.join(path)}#{name}"
                raise DocumentError(f"{self._told.get(here, 'another document')} and {source} do not agree on {place}")
            else:
                into[name] = value
                self._told[here] = source


def _shared(path: tuple[str, ...], body: JSONObject) -> Collection[str]:
    """The members at ``path`` that several documents may each have a part of."""
    if path[:1] == ("modelsource",):
        return {"groups", "attributes"} if len(path) == 1 else ()
    if len(path) % 2 == 1:
        return () if path[-1] == "meta" else body.keys()
    match len(path):
        case 0:
            return {*collections(body), "modelsource"}
        case 2:
            return set(collections(body))
        case 4:
            return {"meta", "versions"}
        case _:
            return ()
