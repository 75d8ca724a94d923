"""Land a DataFrame of messages in tables like ``pipeline run``, exactly once for each batch id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline.commands.run import Begun, land_once
from signalbook.pipeline.commit import PATIENCE
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.frames.contract import Contract, check_contract
from signalbook.pipeline.frames.messages import SOURCE
from signalbook.pipeline.job.jobs import Job, ShowProgress, storage_of, stream_batch
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.session import SparkRunner
from signalbook.pipeline.job.tasks import Intake, Task, record_tasks
from signalbook.pipeline.journal import Partition, TableFormat
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.places import Place, Where
from signalbook.pipeline.report import Report
from signalbook.pipeline.sources.message_columns import MessageColumns, select_messages
from signalbook.pipeline.tables.catalogs import build_catalog_section, parse_catalog
from signalbook.values import fingerprint

# The property of the thread that runs the batches of a streaming query, in which Spark keeps the query's id. A query
# keeps its id as long as its checkpoint.
_QUERY: Final = "sql.streaming.queryId"


def land(
    frame: DataFrame,
    output: Where,
    contract: Contract,
    *,
    batch_id: int | str,
    stream: str = "",
    columns: MessageColumns | None = None,
    table_format: TableFormat = "iceberg",
    catalog: str | Mapping[str, str] = "",
    partition: Partition = "day",
    storage: Mapping[str, str] = {},
    max_message_bytes: int = MAX_MESSAGE,
    progress: ShowProgress = lambda _: None,
) -> Report:
    """Land the messages in rows of ``frame`` in the tables of ``output``, and return a report of the outcomes.

    ``batch_id`` identifies this input: a second call with the same id changes nothing. A number is the number of a
    micro-batch, as ``foreachBatch`` passes it, and then ``stream`` must name the query. ``columns`` are as for
    ``validate``, the other parameters as in a job file. Each partition of ``frame`` writes its own files. Raises
    ``PipelineError``. Nothing of the batch is committed then, unless the text says otherwise; the same call starts the
    batch again, or completes it. Raises ``TypeError`` if ``contract`` is not a ``Contract``.
    """
    check_contract(contract)
    if frame.isStreaming:
        raise PipelineError("a stream lands batch by batch: call land in a function for writeStream.foreachBatch")
    job = Job(
        registry="",
        inputs=(),
        output=output,
        storage=storage_of(storage),
        table_format=table_format,
        catalog=parse_catalog(
            catalog if not isinstance(catalog, str) else build_catalog_section(catalog) if catalog else {}
        ),
        partition=partition,
        batch_id=_build_batch_id(batch_id, stream),
        policy=contract.policy,
        max_message_bytes=max_message_bytes,
    )
    session = frame.sparkSession
    origin = fingerprint([SOURCE.name, _query(session)])

    @contextmanager
    def begun() -> Iterator[Begun]:
        intake = _FrameIntake(source=SOURCE.name, origin=origin, records=select_messages(frame, columns))
        yield Begun(SparkRunner(session), intake, replace(contract.snapshot(), doubts=contract.doubts))

    return land_once(job, origin, begun, progress, PATIENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FrameIntake(Intake):
    """The rows of a user's DataFrame as the input of a batch."""

    def run_tasks(self, runner: Runner, folder: Place) -> list[bytes]:  # noqa: ARG002
        assert self.records is not None
        return record_tasks(self.records, partial(process_rows, folder))


def process_rows(folder: Where, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process rows of ``RECORD_COLUMNS`` as one task, whose plan is in ``folder``. Yield its manifest as JSON.

    This is the function for ``mapInArrow``.
    """
    return Task.of(folder).process_records(SOURCE, batches)


def _build_batch_id(batch_id: int | str, stream: str) -> str:
    """Return the id of a batch: a text as it is, or a number combined with ``stream``.

    Raises ``PipelineError`` for a number without ``stream``, because all queries use the same numbers, and for a text
    that is empty or comes with ``stream``.
    """
    if isinstance(batch_id, str):
        if not batch_id or stream:
            raise PipelineError("a batch is named by batch_id alone, or by its number and the name of its stream")
        return batch_id
    if not stream:
        raise PipelineError(
            f"batch {batch_id} of which query? Every query counts its batches from 0: give stream a name"
        )
    return stream_batch(stream, batch_id)


def _query(session: SparkSession) -> str:
    """Return the id of the query of the current micro-batch; empty if Spark does not report it.

    If a query starts again with another checkpoint, it has another id, and gives the same numbers to other messages.
    """
    try:
        return session.sparkContext.getLocalProperty(_QUERY) or ""
    except (PySparkException, AttributeError):  # sessions of Spark Connect have no context
        return ""
