"""Read and write messages in files and tables, which came by no protocol: structured CloudEvents, or rows.

A row may have context attributes in separate columns, which are the section ``attributes`` of its message. Then its
body is the event's data, as in binary mode. Their property names are ``attributes.<name>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import add_content_type
from signalbook.messages.cloudevents import REQUIRED, Attribute
from signalbook.messages.message import Message
from signalbook.messages.properties import Property
from signalbook.values import JSONObject

_NOTHING: Final[Mapping[str, Any]] = {}
_ATTRIBUTE_PREFIX: Final = "attributes."


class FilesBinding(Binding):
    """The binding of files. A definition can name no properties of a file. The content type describes the content."""

    protocol: Final = ""
    structured_only = "a file of lines"
    mandatory = (tuple(_ATTRIBUTE_PREFIX + name for name in REQUIRED),)

    def properties(self, _options: JSONObject) -> list[Property]:
        """Return no properties."""
        return []

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return the context attributes of a row by property name."""
        attributes: Mapping[str, str] = message.sections.get("attributes", _NOTHING)
        return {_ATTRIBUTE_PREFIX + name: value for name, value in attributes.items()} if attributes else _NOTHING

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the attributes of a row, with the content type as ``datacontenttype``."""
        context_attributes: dict[str, Attribute] = {
            name.removeprefix(_ATTRIBUTE_PREFIX): value for name, value in values.items()
        }
        return add_content_type(context_attributes, message, f"{_ATTRIBUTE_PREFIX}datacontenttype")

    def native(self, body: bytes | None, content_type: str) -> Message:
        """Return a message that consists of the body."""
        return Message(content_type=content_type, body=body)

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the message unchanged. Raises ``Uncarriable`` if there are any values."""
        outgoing.refuse(values, {})
        return message

    def identity(self, message: Message, _values: Mapping[str, Any]) -> str:
        """Return the place of the message in its file."""
        return message.reference


BINDING: Final = FilesBinding()
