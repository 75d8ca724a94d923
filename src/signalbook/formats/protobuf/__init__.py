"""Protocol Buffers."""

from signalbook.formats.protobuf.format import FORMAT, ProtobufFormat, ProtobufSchema

__all__ = ["FORMAT", "ProtobufFormat", "ProtobufSchema"]
