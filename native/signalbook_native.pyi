from collections.abc import Sequence

from typing_extensions import Buffer

# Payloads: blocks, how many of them are in each, and where each begins and ends in its block, as 64-bit integers
_Places = tuple[Sequence[bytes], Buffer, Buffer, Buffer]
# Columns: a record batch, as an encapsulated message of Arrow's IPC format
_Batch = bytes

# What this module takes and gives, by number
INTERFACE: int

def line_ends(block: bytes) -> bytes:
    """The places of all line feeds in a block, as 64-bit integers."""

def heads(payloads: _Places, width: int) -> bytes:
    """So many first bytes of each payload, one behind the other; what is shorter has zeros behind it."""

def attribute_types(sections: _Places) -> tuple[dict[str, tuple[list[int], bytes]], list[int]]:
    """Of the sections around the bodies of messages of AMQP the attributes that are truths (1), numbers (2) or bytes
    (3): by the name of the property the numbers of the messages that have such a one, and its type in each. And the
    numbers of the messages with others that are no texts, or times, which have one spelling; or whose sections are odd.
    """

def section_texts(sections: _Places) -> tuple[_Batch, list[int]]:
    """Of the same columns of the sections as an object in JSON, as ``messages.to_record`` has it, of the content type
    and of the encoding; null where there is none. And the numbers of the messages of which that is not known.
    """

def header_texts(names: Sequence[str], codes: Buffer, ends: Buffer, values: _Places, readable: bool) -> _Batch:
    """The column of the headers of each message in JSON: lists of pairs of name and value.

    ``names`` are in JSON, ``codes``, 32-bit integers, say which each header has, and ``ends``, 64-bit integers, behind
    how many of them those of each message end. Values are bytes; if ``readable`` they are texts, with what is no UTF-8
    as ``\\xff``. Raises ``ValueError`` where all that does not belong together.
    """

def byte_texts(values: _Places) -> _Batch:
    """The column of bytes in JSON, marked as such."""

class JsonDecoder:
    """Decodes JSON payloads of one schema into columns."""

    def __new__(cls, program: tuple[object, ...], held: tuple[object, ...]) -> JsonDecoder:
        """Of the description of a column, and of what that holds of objects.

        Raises ``ValueError`` for one that is none.
        """

    def read(self, payloads: _Places) -> tuple[_Batch, list[int]]:
        """The column of those payloads that are taken with that, of JSON text, for what it does not hold of objects;
        and the numbers of the others.

        Raises ``ValueError`` for payloads outside of their blocks.
        """

class JsonFaults:
    """Finds which values of JSON payloads of one schema break its rules."""

    def __new__(cls, program: tuple[object, ...]) -> JsonFaults:
        """As ``JsonDecoder`` has it."""

    def keys(self, payloads: _Places) -> _Batch:
        """The column of keys, of bytes: those values with their paths, which decide what a validator says of a payload.

        It is null where none was found, and where there is a doubt. Raises as ``JsonDecoder.read`` does.
        """

class RescuedPaths:
    """Counts what columns do not hold of objects, out of that column, by JSON Pointers with ``*`` for items."""

    def __new__(cls, held: tuple[object, ...]) -> RescuedPaths:
        """As ``JsonDecoder`` has it."""

    def count(self, texts: _Places, most: int) -> dict[str, int]:
        """In how many texts each path is; beyond ``most`` of them all others count as the empty one."""

class AvroDecoder:
    """Decodes payloads of one Avro schema, in its binary encoding, into columns."""

    def __new__(cls, program: tuple[object, ...]) -> AvroDecoder:
        """Of the plan of a record; raises ``ValueError`` for one that is none."""

    def read(self, payloads: _Places) -> tuple[_Batch, list[int]]:
        """As ``JsonDecoder.read``, without its last column."""

class ProtobufDecoder:
    """Decodes Protobuf messages of one type into columns."""

    def __new__(cls, program: tuple[object, ...]) -> ProtobufDecoder:
        """Of the plan of a message type; raises ``ValueError`` for one that is none."""

    def read(self, payloads: _Places) -> tuple[_Batch, list[int]]:
        """As ``JsonDecoder.read``, without its last column."""

    def read_json(self, payloads: _Places) -> tuple[_Batch, list[int]]:
        """The same for payloads in Protobuf's JSON."""

class Envelopes:
    """Takes apart structured CloudEvents in JSON that have no other attributes than these."""

    def __new__(cls, attributes: Sequence[str], needed: int, extensions: Sequence[str]) -> Envelopes:
        """The first ``needed`` attributes are those that each event has."""

    def read(
        self, block: bytes, starts: Buffer, ends: Buffer
    ) -> tuple[list[int], _Batch, list[bytes | None], tuple[bytes, bytes, bytes | None, bytes | None]]:
        """Of the messages that lie in a block from ``starts`` to ``ends``, 64-bit integers, the numbers of those that
        are not taken. Of the others columns of attributes and extensions; for each of these bytes that tell texts (0),
        truths (1) and numbers (2) apart, where not all are texts; and where data begins and ends, as 64-bit integers:
        in the block, or if any was in Base64 in one of its own, which comes with bytes that say which was (1).

        Raises ``ValueError`` for bounds that are no arrays.
        """
