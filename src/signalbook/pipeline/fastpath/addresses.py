"""Definitions by the addresses of their messages: topics, subjects or paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from signalbook.messages import CompiledDefinition
from signalbook.pipeline.fastpath.properties import ADDRESSES

# Answers that are kept: anybody may send messages to any number of addresses.
_MAX_ADDRESSES: Final = 10_000


class AddressIndex:
    """Definitions for messages of a protocol, by the address that each demands."""

    def __init__(self, definitions: Iterable[CompiledDefinition], protocol: str) -> None:
        self.property = ADDRESSES.get(protocol, "")
        self.definitions = list(definitions)
        self._by_constant: dict[str, list[CompiledDefinition]] = {}
        for definition in self.definitions:
            self._by_constant.setdefault(self._constant(definition), []).append(definition)
        self._others = self._by_constant.pop("", [])
        self._answers: dict[str, Sequence[CompiledDefinition]] = {"": self.definitions}

    def candidates(self, address: str) -> Sequence[CompiledDefinition]:
        """Return the definitions that may fit a message sent to ``address``; all of them if that is empty."""
        if address not in self._answers:
            if len(self._answers) >= _MAX_ADDRESSES:
                self._answers = {"": self.definitions}
            others = [each for each in self._others if self._may_take(each, address)]
            self._answers[address] = [*self._by_constant.get(address, ()), *others]
        return self._answers[address]

    def _constant(self, definition: CompiledDefinition) -> str:
        """Return the only address that a definition takes, empty if it takes several."""
        values = (key.value for key in definition.protocol_keys if key.name == self.property and key.value)
        return next((value for value in values if isinstance(value, str)), "")

    def _may_take(self, definition: CompiledDefinition, address: str) -> bool:
        template = definition.protocol_templates.get(self.property)
        return template is None or template.match(address) is not None
