from collections.abc import Sequence

from typing_extensions import Buffer

# rows, nulls, buffers, and children that are such again
_Array = tuple[int, int, list[bytes | None], list["_Array"]]

# What this module takes and gives, by number
INTERFACE: int

class JsonDecoder:
    """Decodes JSON payloads of one schema into columns."""

    def __new__(cls, program: tuple[object, ...], held: tuple[object, ...]) -> JsonDecoder:
        """Of the description of a column, and of what that holds of objects.

        Raises ``ValueError`` for one that is none.
        """

    def read(self, data: bytes, offsets: bytes) -> tuple[_Array, list[int], _Array]:
        """The column of those payloads that are taken, the numbers of the others, and the column, of JSON text, for
        what the first does not hold of objects.

        Payload ``n`` is the bytes of ``data`` from the ``n``th of ``offsets``, 32-bit integers of this machine, up to
        the next. Raises ``ValueError`` for offsets outside of the data.
        """

class JsonFaults:
    """Finds which values of JSON payloads of one schema break its rules."""

    def __new__(cls, program: tuple[object, ...]) -> JsonFaults:
        """As ``JsonDecoder`` has it."""

    def keys(self, data: bytes, offsets: bytes) -> _Array:
        """The column of keys, of bytes: those values with their paths, which decide what a validator says of a payload.

        It is null where none was found, and where there is a doubt. Payloads are as for ``JsonDecoder.read``.
        """

class RescuedPaths:
    """Counts what columns do not hold of objects, out of that column, by JSON Pointers with ``*`` for items."""

    def __new__(cls, held: tuple[object, ...]) -> RescuedPaths:
        """As ``JsonDecoder`` has it."""

    def count(self, data: bytes, offsets: bytes, most: int) -> dict[str, int]:
        """In how many texts each path is; beyond ``most`` of them all others count as the empty one."""

class AvroDecoder:
    """Decodes payloads of one Avro schema, in its binary encoding, into columns."""

    def __new__(cls, program: tuple[object, ...]) -> AvroDecoder:
        """Of the plan of a record; raises ``ValueError`` for one that is none."""

    def read(self, data: bytes, offsets: bytes) -> tuple[_Array, list[int]]:
        """As ``JsonDecoder.read``, whose last column is none of these."""

class ProtobufDecoder:
    """Decodes Protobuf messages of one type into columns."""

    def __new__(cls, program: tuple[object, ...]) -> ProtobufDecoder:
        """Of the plan of a message type; raises ``ValueError`` for one that is none."""

    def read(self, data: bytes, offsets: bytes) -> tuple[_Array, list[int]]:
        """As ``JsonDecoder.read``, whose last column is none of these."""

    def read_json(self, data: bytes, offsets: bytes) -> tuple[_Array, list[int]]:
        """The same for payloads in Protobuf's JSON."""

class Envelopes:
    """Takes apart structured CloudEvents in JSON that have no other attributes than these."""

    def __new__(cls, attributes: Sequence[str], needed: int, extensions: Sequence[str]) -> Envelopes:
        """The first ``needed`` attributes are those that each event has."""

    def read(self, block: bytes, starts: Buffer, ends: Buffer) -> tuple[list[int], list[tuple[_Array, bytes | None]]]:
        """Of the messages that lie in a block from ``starts`` to ``ends``, 64-bit integers, the numbers of those that
        are not taken; and columns of the others: data, attributes, extensions.

        The bytes beside a column tell texts (0), truths (1) and numbers (2) apart, where not all are texts. Raises
        ``ValueError`` for bounds that are no arrays.
        """
