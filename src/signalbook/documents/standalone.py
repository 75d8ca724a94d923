"""Make schemas of a document standalone: shared parts are copied into each schema that refers to them."""

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
    """Copies the schema ``value`` at ``path``. Schemas it refers to are copied into its ``keyword``, such as ``$defs``.

    ``root`` returns the place of the whole schema that contains a place. ``use`` is called with the place of each
    schema that is copied. ``rewrite`` converts a copied schema object, given its original place.
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

    def build(self) -> JSON:
        """Return the schema, or None if it refers to something outside the document that cannot be read."""
        own_definitions = self.value.get(self.keyword) if isinstance(self.value, dict) else None
        self._taken |= set(own_definitions) if isinstance(own_definitions, dict) else set()
        schema = self._copy(self.value, self.path, root=True)
        shared: JSONObject = {}
        while self._pending:
            place = self._pending.pop()
            value = self.reader.value_at(place, self.path)
            self.reader.count_copied(value)
            self.use(place)
            shared[self._names[place]] = self._copy(value, place)
        if self._failed:
            return None
        if shared and isinstance(schema, dict):
            own_definitions = schema.get(self.keyword)
            schema[self.keyword] = {
                **(own_definitions if isinstance(own_definitions, dict) else {}),
                **dict(sorted(shared.items())),
            }
        return schema

    def _copy(self, value: JSON, path: str, *, is_map: bool = False, root: bool = False) -> JSON:
        if isinstance(value, list):
            return [self._copy(item, below(path, str(index))) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        copied: JSONObject = {}
        for name, member in value.items():
            if is_map:  # the name of a property or definition, and no keyword
                copied[name] = self._copy(member, below(path, name))
            elif name == "$ref" and isinstance(member, str):
                copied[name] = self._move_reference(member, path)
            elif name == "$id" and isinstance(member, str) and not root:
                # References would be relative to ``$id``, but here all references are relative to the document's root.
                self.reader.report(path, f"left out the $id {member} within a schema", 5)
            elif name in _VALUES:
                copied[name] = member
            else:
                copied[name] = self._copy(member, below(path, name), is_map=name in SCHEMA_MAPS)
        return copied if is_map else self.rewrite(copied, path)

    def _move_reference(self, reference: str, path: str) -> str:
        """Return a reference to the same schema from the new place."""
        place = self.reader.locate(reference, path)
        if place is None:
            self.reader.report(path, f"left out the schema: {self.reader.explain_loss(reference)}", 1)
            self._failed = True
            return reference
        self.reader.value_at(place, path)
        own_path = self.path
        if place == own_path or place.startswith(f"{own_path}/"):
            return f"#{place[len(own_path) :]}"
        root = self.root(place)
        if root == own_path:
            return f"#{place[len(own_path) :]}"
        if root not in self._names:
            self._names[root] = self._take_name(name_of(root.removesuffix("/schema")))
            self._pending.append(root)
        return f"#/{self.keyword}/{self._names[root]}{place[len(root) :]}"

    def _take_name(self, requested_name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", requested_name) or "_"
        name, count = plain, 1
        while name in self._taken:
            count += 1
            name = f"{plain}_{count}"
        self._taken.add(name)
        return name
