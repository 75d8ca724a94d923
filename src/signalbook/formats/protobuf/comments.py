"""What the comments of a document say of its fields: the only documentation Protobuf has."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

# Numbers of fields of descriptors, of which paths into a file are made (descriptor.proto, SourceCodeInfo).
_MESSAGE = 4
_NESTED = 3
_FIELD = 2


def field_comments(file: FileDescriptorProto) -> dict[str, str]:
    """Texts by full name of the field: the comment before it, or else behind it on its line."""
    found: dict[str, str] = {}
    for location in file.source_code_info.location:
        text = (location.leading_comments or location.trailing_comments).strip()
        name = _field(file, location.path) if text else ""
        if name:
            found[name] = "\n".join(line.strip() for line in text.splitlines())
    return found


def _field(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """The full name of the field a path leads to; nothing if it leads elsewhere."""
    if len(path) < 4 or len(path) % 2 or path[0] != _MESSAGE or path[-2] != _FIELD:
        return ""
    message: DescriptorProto = file.message_type[path[1]]
    names = [file.package, message.name]
    for kind, index in zip(path[2:-2:2], path[3:-2:2], strict=True):
        if kind != _NESTED:
            return ""
        message = message.nested_type[index]
        names.append(message.name)
    return ".".join(filter(None, (*names, message.field[path[-1]].name)))
