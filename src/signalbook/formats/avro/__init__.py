"""Apache Avro."""

from signalbook.formats.avro.format import FORMAT, AvroFormat, AvroSchema

__all__ = ["FORMAT", "AvroFormat", "AvroSchema"]
