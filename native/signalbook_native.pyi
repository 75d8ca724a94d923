# rows, nulls, buffers, and children that are such again
_Array = tuple[int, int, list[bytes | None], list["_Array"]]

class Decoder:
    """Decodes JSON payloads of one schema into columns."""

    def __new__(cls, program: tuple[object, ...]) -> Decoder:
        """Of the description of a column; raises ``ValueError`` for one that is none."""

    def read(self, data: bytes, offsets: bytes) -> tuple[_Array, list[int]]:
        """The column of those payloads that are taken, and the numbers of the others.

        Payload ``n`` is the bytes of ``data`` from the ``n``th of ``offsets``, 32-bit integers of this machine, up to the
        next. Raises ``ValueError`` for offsets outside of the data.
        """
