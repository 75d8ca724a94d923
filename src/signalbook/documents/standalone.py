"""Schemas of a document as schemas that stand alone: what they share is put into each that refers to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from signalbook.documents.references import SCHEMA_MAPS, DocumentReader, below, name_of
from signalbook.values import JSON, JSONObject

_VALUES: Final = frozenset({"const", "enum", "default", "examples", "example"})


@dataclass(slots=True, kw_only=True)
class StandaloneSchema:
    """Copies the schema ``value`` at ``path``, and what it refers to elsewhere in the document into its ``keyword``.

    ``root`` gives the place of the whole schema that a place is in, ``use`` hears of each that is copied, and
    ``rewrite`` makes a schema object of the copied one, given where it stood.
    """

    reader: DocumentReader
    value: JSON
    path: str
    keyword: str
    root: Callable[[str], str]
    use: Callable[[str], None]
    rewrite: Callable[[JSONObject, str], JSONObject] = lambda schema, _: schema
    _taken: set[str] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    _pending: list[str] = field(default_factory=list)
    _failed: bool = False

    def made(self) -> JSON:
        """The document, None if a part of it is elsewhere."""
        own = self.value.get(self.keyword) if isinstance(self.value, dict) else None
        self._taken |= set(own) if isinstance(own, dict) else set()
        found = self._copy(self.value, self.path, root=True)
        shared: JSONObject = {}
        while self._pending:
            place = self._pending.pop()
            value = self.reader.value_at(place, self.path)
            self.reader.spend(value)
            self.use(place)
            shared[self._names[place]] = self._copy(value, place)
        if self._failed:
            return None
        if shared and isinstance(found, dict):
            own = found.get(self.keyword)
            found[self.keyword] = {**(own if isinstance(own, dict) else {}), **dict(sorted(shared.items()))}
        return found

    def _copy(self, value: JSON, path: str, *, named: bool = False, root: bool = False) -> JSON:
        if isinstance(value, list):
            return [self._copy(each, below(path, str(index))) for index, each in enumerate(value)]
        if not isinstance(value, dict):
            return value
        made: JSONObject = {}
        for name, each in value.items():
            if named:  # the name of a property or definition, and no keyword
                made[name] = self._copy(each, below(path, name))
            elif name == "$ref" and isinstance(each, str):
                made[name] = self._moved(each, path)
            elif name == "$id" and isinstance(each, str) and not root:
                # References would be read relative to it, and here all are read from the document's root.
                self.reader.report(path, f"left out the $id {each} within a schema", 5)
            elif name in _VALUES:
                made[name] = each
            else:
                made[name] = self._copy(each, below(path, name), named=name in SCHEMA_MAPS)
        return made if named else self.rewrite(made, path)

    def _moved(self, reference: str, path: str) -> str:
        """A reference to the same schema, from where it is now."""
        place = self.reader.locate(reference, path)
        if place is None:
            self.reader.report(path, f"left out the schema: {self.reader.explain_loss(reference)}", 1)
            self._failed = True
            return reference
        self.reader.value_at(place, path)
        own = self.path
        if place == own or place.startswith(f"{own}/"):
            return f"#{place[len(own) :]}"
        root = self.root(place)
        if root == own:
            return f"#{place[len(own) :]}"
        if root not in self._names:
            self._names[root] = self._free(name_of(root.removesuffix("/schema")))
            self._pending.append(root)
        return f"#/{self.keyword}/{self._names[root]}{place[len(root) :]}"

    def _free(self, wanted: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", wanted) or "_"
        name, count = plain, 1
        while name in self._taken:
            count += 1
            name = f"{plain}_{count}"
        self._taken.add(name)
        return name
