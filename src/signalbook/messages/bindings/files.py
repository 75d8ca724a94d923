"""Messages at rest, which came by no protocol: structured CloudEvents in files, or rows of tables.

A row may have context attributes in columns of their own, in the section ``attributes`` of its message: its body is the
event's data then, as in binary mode. They are its values by property name, as ``attributes.<name>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import add_content_type
from signalbook.messages.cloudevents import REQUIRED, Attribute
from signalbook.messages.definitions.properties import Property
from signalbook.messages.message import Message
from signalbook.values import JSONObject

_NOTHING: Final[Mapping[str, Any]] = {}
_ATTRIBUTE_PREFIX: Final = "attributes."


class FilesBinding(Binding):
    """A file has no properties beside the body that a definition can name; what it holds, its content type tells."""

    protocol: Final = ""
    structured_only = "a file of lines"
    mandatory = (tuple(_ATTRIBUTE_PREFIX + name for name in REQUIRED),)

    def properties(self, _options: JSONObject) -> list[Property]:
        """Return no properties."""
        return []

    def values(self, message: Message) -> Mapping[str, Any]:
        """Context attributes that are beside the body."""
        attributes: Mapping[str, str] = message.sections.get("attributes", _NOTHING)
        return {_ATTRIBUTE_PREFIX + name: value for name, value in attributes.items()} if attributes else _NOTHING

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the attributes, with the content type as ``datacontenttype``."""
        context_attributes: dict[str, Attribute] = {
            name.removeprefix(_ATTRIBUTE_PREFIX): value for name, value in values.items()
        }
        return add_content_type(context_attributes, message, f"{_ATTRIBUTE_PREFIX}datacontenttype")

    def native(self, body: bytes | None, content_type: str) -> Message:
        """The body alone."""
        return Message(content_type=content_type, body=body)

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """The message: there is nothing else in a file."""
        outgoing.refuse(values, {})
        return message

    def identity(self, message: Message, _values: Mapping[str, Any]) -> str:
        """Return the place in the file."""
        return message.reference


BINDING: Final = FilesBinding()
