"""Recognize Kafka records that name their schema by an id, as Confluent's serializers write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from signalbook.messages.content import SCHEMA_HEADER, read_schema_id
from signalbook.pipeline.errors import PipelineError

SAMPLE_RECORDS: Final = 200
# Other binary values may begin with a zero byte, too, but the next four bytes then differ from record to record.
_MAX_IDS: Final = 20
_SHOWN_IDS: Final = 5

Headers = Sequence[tuple[str, bytes | None]]


class SchemaIdsFound(PipelineError):
    """Messages name their schemas by ids, so there is nothing to infer."""


def check_schema_ids(records: Iterable[tuple[bytes | None, Headers]], inputs: Sequence[str]) -> None:
    """Raise ``SchemaIdsFound`` if most of ``records``, values with their headers, name their schema by an id.

    ``inputs`` are the names of the input for the error text.
    """
    ids = [_find_schema_id(value, headers) for value, headers in records if value]
    distinct = sorted({str(identifier) for identifier in ids if identifier})
    stated = sum(map(bool, ids))
    if not 0 < len(distinct) <= _MAX_IDS or 2 * stated <= len(ids):
        return
    shown = ", ".join(distinct[:_SHOWN_IDS]) + (", …" if len(distinct) > _SHOWN_IDS else "")
    raise SchemaIdsFound(
        f"the messages in {', '.join(inputs)} name their schemas by ids, as Confluent's serializers do: {shown}. Their "
        "schemas are in a schema registry, so nothing has to be inferred. Land them by signalbook try --registry URL, "
        "or by signalbook pipeline run --registry URL --subjects topic. URL is a Signalbook server, or confluent+ and "
        "the URL of another schema registry"
    )


def _find_schema_id(value: bytes, headers: Headers) -> int | str | None:
    """Return the schema id before ``value`` or in the header for it; None if there is none."""
    header = next((header for name, header in reversed(headers) if name == SCHEMA_HEADER), None)
    # Only a header can begin with a guid. Otherwise a value in Avro might look as if it began with one.
    if header is None and not value.startswith(b"\0"):
        return None
    try:
        writer, _ = read_schema_id(value if header is None else header, "")
    except ValueError:
        return None
    return writer.id or None
