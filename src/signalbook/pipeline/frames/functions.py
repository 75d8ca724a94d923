"""SQL functions that check whether single messages conform: pandas UDFs, which Spark Connect supports, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from signalbook.pipeline.frames.contract import Contract, check_contract
from signalbook.pipeline.frames.rows import TextRowBuilder
from signalbook.pipeline.frames.validation import Validation
from signalbook.pipeline.sources.base import RECORD_TYPES
from signalbook.pipeline.table_names import DEAD_LETTERS

_CHECKED: Final = (
    "valid boolean, definition string, version string, data string, reason string, violations array<string>"
)
_FIELD_NAMES: Final = ("valid", "definition", "version", "data", "reason", "violations")
_Verdict = tuple[Any, ...]


def register(session: SparkSession, contract: Contract) -> None:
    """Register the SQL functions ``signalbook_valid`` and ``signalbook_check`` in a session.

    Both take a message as bytes or text, and its content type if it is not a CloudEvent in JSON. ``signalbook_valid``
    returns whether the message conforms. ``signalbook_check`` returns a struct with the definition and the payload, or
    with the reason why the message does not conform. A batch of events is one message, which conforms if all its events
    conform. Raises ``TypeError`` if ``contract`` is not a ``Contract``.
    """
    check_contract(contract)

    def valid(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        for verdicts in _judge_batches(contract, batches):
            yield pd.Series([verdict[0] for verdict in verdicts], dtype="bool")

    def check(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        for verdicts in _judge_batches(contract, batches):
            yield pd.DataFrame(verdicts, columns=list(_FIELD_NAMES))

    make_udf: Any = pandas_udf  # its type hints do not allow functions over iterators
    session.udf.register("signalbook_valid", make_udf(valid, "boolean"))
    session.udf.register("signalbook_check", make_udf(check, _CHECKED))


def _judge_batches(contract: Contract, batches: Iterator[Any]) -> Iterator[list[_Verdict]]:
    """Yield the verdicts on each batch's messages, as tuples of ``_FIELD_NAMES``."""
    validation = Validation(contract, TextRowBuilder)
    for batch in batches:
        # for a single column Spark passes a series and not a tuple, although the types say a tuple
        columns = batch if isinstance(batch, tuple) else (batch,)
        verdicts: list[_Verdict] = [(False, None, None, None, None, None)] * len(columns[0])
        for table, rows in (*validation.take(_build_records(columns)), *validation.finish()):
            for place, verdict in _read_dead_letters(rows) if table == DEAD_LETTERS else _read_landed(rows):
                if verdicts[place][-2] is None:  # the first rejection of an event is the verdict on its whole message
                    verdicts[place] = verdict
        yield verdicts


def _build_records(columns: Sequence[pd.Series]) -> pa.RecordBatch:
    """Return messages and their content types as rows of ``RECORD_COLUMNS``, each with its number as position."""
    count = len(columns[0])
    bodies = [value.encode() if isinstance(value, str) else value for value in columns[0]]
    types = columns[1] if len(columns) > 1 else [None] * count
    headers = [[{"name": "content-type", "value": kind.encode()}] if kind else None for kind in types]
    values_by_name = {
        "protocol": [""] * count, "source": [""] * count, "position": range(count), "value": bodies, "headers": headers,
    }  # fmt: skip
    arrays = [pa.array(values_by_name.get(field.name, [None] * count), field.type) for field in RECORD_TYPES]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_TYPES)


def _read_landed(rows: pa.RecordBatch) -> Iterable[tuple[int, _Verdict]]:
    parts = (rows.column(name).to_pylist() for name in ("_position", "_definition", "_version", "data"))
    return ((place, (True, *verdict, None, None)) for place, *verdict in zip(*parts, strict=True))


def _read_dead_letters(rows: pa.RecordBatch) -> Iterable[tuple[int, _Verdict]]:
    for place, reason, violations, candidates in zip(
        *(rows.column(name).to_pylist() for name in ("position", "reason", "violations", "candidates")), strict=True
    ):
        texts = [
            f"{violation['path']}: {violation['message']}" if violation["path"] else violation["message"]
            for violation in violations
        ]
        yield place, (False, candidates[0] if len(candidates) == 1 else None, None, None, reason, texts)
