"""Messages at rest: structured CloudEvents as lines or batches in files, which came by no protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.definitions.properties import Property
from signalbook.messages.message import Message
from signalbook.values import JSONObject

_NOTHING: Final[Mapping[str, Any]] = {}


class FilesBinding(Binding):
    """A file has no properties beside the body; what it holds, its content type tells."""

    protocol: Final = ""
    structured_only = "a file of lines"

    def properties(self, _options: JSONObject) -> list[Property]:
        """None."""
        return []

    def values(self, _message: Message) -> Mapping[str, Any]:
        """None."""
        return _NOTHING

    def native(self, body: bytes | None, content_type: str) -> Message:
        """The body alone."""
        return Message(content_type=content_type, body=body)

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """The message: there is nothing else in a file."""
        outgoing.refuse(values, {})
        return message

    def identity(self, message: Message, _values: Mapping[str, Any]) -> str:
        """Where in the file it lies."""
        return message.reference


BINDING: Final = FilesBinding()
