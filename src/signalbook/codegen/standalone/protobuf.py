"""Protobuf schemas as libraries read them: the files that declare the messages, compiled."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final, Literal

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from signalbook.codegen.base import Inexpressible
from signalbook.formats.protobuf.format import ProtobufSchema

_GOOGLE: Final = "google.protobuf."
_SUPPORTED: Final = frozenset(
    f"{_GOOGLE}{name}"
    for name in (
        *("Timestamp", "Duration", "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value"),
        *("UInt32Value", "BoolValue", "StringValue", "BytesValue"),
    )
)


class ProtobufFiles:
    """The files that declare the requested messages of one document, and those they import."""

    format: Final[Literal["protobuf"]] = "protobuf"

    def __init__(self) -> None:
        self._files: dict[str, FileDescriptor] = {}

    @property
    def document(self) -> str:
        """The files as a ``FileDescriptorSet`` in base64, imported files first."""
        files = FileDescriptorSet()
        for file in self._files.values():
            content = files.file.add()
            content.ParseFromString(file.serialized_pb)
            content.ClearField("source_code_info")
        return b64encode(files.SerializeToString(deterministic=True)).decode()

    def of(self, schema: Any) -> str:
        """Return the full name of the message of a schema, and add its file. Raises ``Inexpressible``."""
        assert isinstance(schema, ProtobufSchema)
        _check(schema.descriptor, set())
        self._add_file(schema.descriptor.file)
        return schema.descriptor.full_name

    def _add_file(self, file: FileDescriptor) -> None:
        if file.name not in self._files:
            for imported in file.dependencies:
                self._add_file(imported)
            self._files[file.name] = file


def _check(descriptor: Descriptor, checked: set[str]) -> None:
    """Raise ``Inexpressible`` for a message that no target writes, and for one that contains it."""
    name = descriptor.full_name
    if name in checked or name in _SUPPORTED:
        return
    if name.startswith(_GOOGLE):
        raise Inexpressible(f"its payload has a {name}, which this target does not write")
    checked.add(name)
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_GROUP:
            raise Inexpressible(f"its payload has a group, {field.full_name}, which this target does not write")
        if field.message_type is not None:
            _check(field.message_type, checked)
