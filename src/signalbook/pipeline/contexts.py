"""Envelope checks over many events: asked once for each distinct answer, not for each event.

Definitions that demand the same of their envelopes, all but the type, share the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from signalbook.messages import CompiledDefinition
from signalbook.messages.cloudevents import SPECVERSION
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import text_map
from signalbook.pipeline.numbering import dense, firsts
from signalbook.pipeline.sources.base import Offsets
from signalbook.pipeline.window import Window
from signalbook.values import canonical_json

_MOST_KEPT: Final = 50_000
STRANGER: Final = -1
# Attributes of which a definition without a value for them asks no more than whether they are there.
_PRESENCE: Final = {"id": (None, "string"), "subject": (None, "string"), "time": (None, "timestamp")}
# Attributes that decide without being declared: a content type may be implied (domain.md F-32).
_UNDECLARED: Final = frozenset({"datacontenttype"})


def demands(definition: CompiledDefinition) -> bytes:
    """Equal for definitions that a ``Contexts`` of one answers for, in one source."""
    raw = definition.definition
    metadata = {name: entry for name, entry in (raw.get("envelopemetadata") or {}).items() if name != "type"}
    stated = raw.get("datacontenttype"), raw.get("dataschemaformat"), raw.get("protocol"), raw.get("protocoloptions")
    return canonical_json([metadata, *stated, definition.payload_type])


class Contexts:
    """Holds envelopes of known type to a definition, and finds what stands for its placeholders (domain.md K-34).

    ``address`` is the protocol property that says where messages were sent to, where that is looked at as well.
    """

    def __init__(self, definition: CompiledDefinition, type: str, address: str = "") -> None:
        self._address = address
        self._definition = definition
        self._type = type
        self._declared: Mapping[str, Any] = definition.definition.get("envelopemetadata") or {}
        # contexts by number, and numbers by the attributes that make a difference and their values
        self._maps = pa.array([], columns.TEXT_MAP)
        self._numbers: dict[tuple[str, ...], dict[Any, int]] = {}

    def numbers(self, window: Window, events: Offsets) -> Offsets:
        """For each of these events the number of its context, or ``STRANGER`` if it does not fit the definition."""
        if sum(map(len, self._numbers.values())) > _MOST_KEPT:  # strangers are kept too, and have no maps
            self._maps, self._numbers = self._maps.slice(0, 0), {}
        names, keys, firsts, inverse = self._distinct(window, events)
        known = self._numbers.setdefault(names, {})
        fresh: list[dict[str, str]] = []
        for key, first in zip(keys, firsts, strict=True):
            if key not in known:
                context = self._ask(window.attributes_of(int(first)), self._place(window, int(first)))
                known[key] = STRANGER if context is None else len(self._maps) + len(fresh)
                fresh += [] if context is None else [context]
        if fresh:
            maps = text_map([tuple(context.items()) or None for context in fresh])
            self._maps = pa.concat_arrays([self._maps, maps])
        found: Offsets = np.array([known[key] for key in keys], np.int64)[inverse]
        return found

    def maps(self, numbers: Offsets) -> pa.Array:
        """The contexts with these numbers, as a ``columns.TEXT_MAP``."""
        if self._maps.null_count == len(self._maps):
            return pa.nulls(len(numbers), columns.TEXT_MAP)
        return self._maps.take(pa.array(numbers))

    def _distinct(self, window: Window, events: Offsets) -> tuple[tuple[str, ...], list[Any], Offsets, Offsets]:
        """What tells envelopes apart: attribute names, their distinct values, an event with each, each event's one."""
        combined, count = np.zeros(len(events), np.int64), min(len(events), 1)
        parts: dict[str, tuple[Offsets, list[Any]]] = {}
        for name in (*window.attributes, *window.extensions):
            part = self._part(window, name)
            if part is not None:
                parts[name] = part
        if self._address:
            parts["@"] = window.addresses  # no name of an attribute
        for codes, values in parts.values():
            combined, count = dense(combined * len(values) + codes[events], count * len(values))
        samples = events[firsts(combined, count)]
        columns = [[values[code] for code in codes[samples].tolist()] for codes, values in parts.values()]
        keys = list(zip(*columns, strict=True)) if columns else [()]
        return tuple(parts), keys, samples, combined

    def _part(self, window: Window, name: str) -> tuple[Offsets, list[Any]] | None:
        """What the checks see of an attribute, as codes and values; ``None`` if it makes no difference."""
        if name == "type" or (name not in self._declared and name not in _UNDECLARED):
            return None
        if name in window.extensions:
            codes, values = window.codes(name)
            return codes, [(value.__class__, value) for value in values]  # for True == 1
        if not self._is_presence(name):
            return window.codes(name)
        absent = window.attributes[name].is_null()
        return (absent.cast(pa.int64()).to_numpy(), [False, True]) if absent.true_count else None

    def _is_presence(self, name: str) -> bool:
        declared = self._declared.get(name) or {}
        return name in _PRESENCE and declared.get("value") is None and declared.get("type") in _PRESENCE[name]

    def _place(self, window: Window, number: int) -> dict[str, Any]:
        """The protocol's properties that are looked at, of one event."""
        if not self._address:
            return {}
        codes, values = window.addresses
        return {self._address: values[codes[number]]}

    def _ask(self, attributes: dict[str, Any], place: dict[str, Any]) -> dict[str, str] | None:
        """The context of an event with these attributes, or ``None`` if it does not fit."""
        context: dict[str, str] = {}
        known = {"specversion": SPECVERSION, **attributes, "type": self._type}
        if self._definition.check_event(known, context):
            return None
        checks = self._definition.protocol_checks if self._address else ()
        return None if any(check(place, context) is not None for check in checks) else context
