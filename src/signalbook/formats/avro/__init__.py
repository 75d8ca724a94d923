"""Apache Avro."""

from signalbook.formats.avro.format import BROKEN, FORMAT, AvroFormat, AvroSchema

__all__ = ["BROKEN", "FORMAT", "AvroFormat", "AvroSchema"]
