"""Records that name their schema by an id are recognized."""

from uuid import UUID

import pytest

from signalbook.pipeline.sources.schema_ids import Headers, SchemaIdsFound, check_schema_ids

GUID = UUID("7c7ba2a5-2f3f-4c0e-9d7e-3f6e0b1c2d3e")


def prefix(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("records", "ids"),
    [
        ([(prefix(7) + b"avro", [])], "7"),
        ([(prefix(7), []), (prefix(8) + b"\0proto", []), (None, [])], "7, 8"),
        ([(b"avro", [("__value_schema_id", b"\1" + GUID.bytes)])], str(GUID)),
        ([(b"avro", [("__value_schema_id", prefix(7)), ("__value_schema_id", prefix(8))])], "8"),
        ([(b'{"a": 1}', []), (prefix(7), []), (prefix(7), [])], "7"),
    ],
)
def test_schema_ids_are_reported(records: list[tuple[bytes | None, Headers]], ids: str) -> None:
    with pytest.raises(SchemaIdsFound, match=rf"in orders name their schemas by ids, .* do: {ids}\. .*--registry URL"):
        check_schema_ids(records, ["orders"])


@pytest.mark.parametrize(
    "records",
    [
        [],
        [(None, []), (b"", [])],
        [(b"{}", []), (prefix(7), [])],
        [(b"\0\0", [])],
        [(prefix(0), [])],
        [(b"\1" + GUID.bytes, [])],
        [(b"avro", [("__value_schema_id", b"")])],
        [(prefix(number), []) for number in range(1, 200)],
    ],
)
def test_other_records_are_accepted(records: list[tuple[bytes | None, Headers]]) -> None:
    check_schema_ids(records, ["orders"])
