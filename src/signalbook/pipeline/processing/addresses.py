"""Definitions by the addresses of their messages: topics, subjects or paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from signalbook.messages import CompiledDefinition
from signalbook.pipeline.processing.properties import ADDRESSES

# Addresses whose candidates are cached: anybody may send messages to any number of addresses.
_MAX_CACHED_ADDRESSES: Final = 10_000


class AddressIndex:
    """An index of definitions for messages of a protocol by the address that each definition demands.

    ``address_property`` is the name of the property that holds the address, empty if the protocol has no addresses.
    """

    def __init__(self, definitions: Iterable[CompiledDefinition], protocol: str) -> None:
        self.address_property = ADDRESSES.get(protocol, "")
        self.definitions = list(definitions)
        self._by_constant: dict[str, list[CompiledDefinition]] = {}
        for definition in self.definitions:
            self._by_constant.setdefault(self._find_constant_address(definition), []).append(definition)
        self._without_constant = self._by_constant.pop("", [])
        self._cache: dict[str, Sequence[CompiledDefinition]] = {}

    def find_candidates(self, address: str) -> Sequence[CompiledDefinition]:
        """Return the definitions that a message sent to ``address`` may fit; all definitions if it is empty."""
        if not address:
            return self.definitions
        if address not in self._cache:
            if len(self._cache) >= _MAX_CACHED_ADDRESSES:
                self._cache.clear()
            matching = [
                definition for definition in self._without_constant if self._matches_template(definition, address)
            ]
            self._cache[address] = [*self._by_constant.get(address, ()), *matching]
        return self._cache[address]

    def _find_constant_address(self, definition: CompiledDefinition) -> str:
        """Return the only address that a definition allows, empty if it allows several."""
        values = (key.value for key in definition.protocol_keys if key.name == self.address_property and key.value)
        return next((value for value in values if isinstance(value, str)), "")

    def _matches_template(self, definition: CompiledDefinition, address: str) -> bool:
        """Return True if the definition has no template for addresses, or one that ``address`` matches."""
        template = definition.protocol_templates.get(self.address_property)
        return template is None or template.match(address) is not None
