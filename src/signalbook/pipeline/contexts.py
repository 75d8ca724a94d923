"""Envelope checks of one definition over many events: asked once for each distinct answer, not for each event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from signalbook.messages import CompiledDefinition
from signalbook.messages.cloudevents import CORE, SPECVERSION
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import text_map

Key = tuple[Any, ...]
_MOST_KEPT: Final = 50_000
# Attributes of which a definition without a value for them asks no more than whether they are there.
_PRESENCE: Final = {"id": (None, "string"), "subject": (None, "string"), "time": (None, "timestamp")}


class Contexts:
    """The values that stand where ``definition`` has placeholders (domain.md K-34), event by event."""

    def __init__(self, definition: CompiledDefinition) -> None:
        self._definition = definition
        self._declared: Mapping[str, Any] = definition.definition.get("envelopemetadata") or {}
        self._contexts: dict[Key, dict[str, str] | None] = {}

    def of(self, values: Mapping[str, list[Any]], count: int) -> tuple[pa.Array, set[int]]:
        """A ``columns.TEXT_MAP`` of contexts, and the numbers of the events that do not fit the definition.

        ``values`` has the attributes by name, each with one value (or ``None``) for every one of ``count`` events.
        """
        keys = self._keys(values, count)
        position = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        contexts = [self._context(key, values, keys) for key in position]
        numbers = [position[key] for key in keys]
        strangers = {number for number, context in enumerate(contexts) if context is None}
        found = text_map([tuple((context or {}).items()) or None for context in contexts])
        array = pa.nulls(count, columns.TEXT_MAP) if found.null_count == len(found) else found.take(pa.array(numbers))
        return array, {number for number, at in enumerate(numbers) if at in strangers} if strangers else set()

    def _keys(self, values: Mapping[str, list[Any]], count: int) -> list[Key]:
        """What of each event the checks depend on; equal keys get equal answers."""
        parts = [part for name in values if (part := self._part(name, values[name])) is not None]
        return list(zip(*parts, strict=True)) if parts else [()] * count

    def _part(self, name: str, column: list[Any]) -> list[Any] | None:
        if None not in column and self._is_presence(name):
            return None
        if name != "dataschema" and name != "datacontenttype" and name not in self._declared:
            return None
        if self._is_presence(name):
            return [value is None for value in column]
        return column if name in CORE else [(type(value), value) for value in column]  # for True == 1

    def _is_presence(self, name: str) -> bool:
        declared = self._declared.get(name) or {}
        return name in _PRESENCE and declared.get("value") is None and declared.get("type") in _PRESENCE[name]

    def _context(self, key: Key, values: Mapping[str, list[Any]], keys: Sequence[Key]) -> dict[str, str] | None:
        if key not in self._contexts:
            if len(self._contexts) >= _MOST_KEPT:
                self._contexts.clear()
            number = keys.index(key)
            attributes = {name: column[number] for name, column in values.items() if column[number] is not None}
            self._contexts[key] = self._ask({"specversion": SPECVERSION, **attributes})
        return self._contexts[key]

    def _ask(self, attributes: dict[str, Any]) -> dict[str, str] | None:
        definition, context = self._definition, dict[str, str]()
        dataschema = attributes.get("dataschema")
        if dataschema is not None and definition.schema_for(dataschema) is not definition.schema_use:
            return None
        return None if definition.check_event(attributes, context) else context
