"""Messages at rest: structured CloudEvents as lines or batches in files, which came by no protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.incoming import json_only, structured_mode
from signalbook.messages.cloudevents import JSON_FORMAT, Attribute, CloudEvent, Mode
from signalbook.messages.definitions.properties import Property
from signalbook.messages.message import Message
from signalbook.values import Finding, JSONObject

_NOTHING: Final[Mapping[str, Any]] = {}


class FilesBinding:
    """A file has no properties beside the body; what it holds, its content type tells."""

    protocol: Final = ""

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """There are no options."""
        return options, []

    def properties(self, _options: JSONObject) -> list[Property]:
        """None."""
        return []

    def lint(self, _options: JSONObject) -> list[Finding]:
        """Nothing to say."""
        return []

    def values(self, _message: Message) -> Mapping[str, Any]:
        """None."""
        return _NOTHING

    def mode(self, message: Message, _values: Mapping[str, Any]) -> Mode:
        """Structured or batch by content type; a file carries no event in binary mode."""
        return structured_mode(message.content_type)

    def attributes(self, _message: Message, _values: Mapping[str, Any]) -> dict[str, Attribute]:
        """None: there is no binary mode."""
        return {}

    def encode(
        self, event: CloudEvent, _mode: Literal[Mode.STRUCTURED, Mode.BINARY], format: str = JSON_FORMAT
    ) -> Message:
        """A line of JSON, whatever the mode: files know only the structured one."""
        return Message(content_type=JSON_FORMAT, body=json_only(format, "a file of lines").encode(event))

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
