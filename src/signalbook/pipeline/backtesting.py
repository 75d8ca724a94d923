"""The driver's side of a backtest: landed history and dead letters, held to a candidate. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from signalbook.pipeline import comparing, spark
from signalbook.pipeline.attempt import explain
from signalbook.pipeline.backtests import Backtest
from signalbook.pipeline.commit.journal import Journal
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.candidate import affected, with_candidate
from signalbook.pipeline.job.jobs import BacktestJob
from signalbook.pipeline.job.snapshot import Snapshot, read_documents
from signalbook.pipeline.tables.naming import DEAD_LETTERS, home, table_name
from signalbook.pipeline.tables.registry import standing

Files = list[tuple[str, str]]


def backtest(job: BacktestJob, tell: Callable[[str], None]) -> Backtest:
    """Do ``job``; ``tell`` is told what is being done. Raises ``PipelineError`` and what reading definitions raises."""
    if not 0 < job.sample <= 1:
        raise PipelineError(f"a sample is a share of all messages, above 0 and at most 1, not {job.sample:g}")
    journal = Journal.existing(job.output.absolute())
    tell("reading definitions")
    documents = read_documents(job.registry)
    today = Snapshot.of_registry(job.registry, documents, job.groups)
    tomorrow = with_candidate(documents, job.groups, job.candidate, job.definitions)
    tomorrow.check(job.policy)
    changed = affected(today, tomorrow)
    for xid in job.definitions:
        if xid not in today.selected and xid not in tomorrow.selected:
            raise PipelineError(f"there is no definition {xid}, neither in force nor in the candidate")
    chosen = [xid for xid in changed if not job.definitions or xid in job.definitions]
    files = _files(journal, chosen)
    if not files:
        return Backtest()
    tell("starting Spark")
    with spark.open_session(job.master) as session:
        tell(f"comparing {len(files)} files of {len(chosen)} definitions that differ")
        return _compared(session, job, today, tomorrow, files)


def _files(journal: Journal, definitions: Sequence[str]) -> Files:
    """The files of the tables of ``definitions``, by xid, and those of dead letters if there is anything to compare.

    Large ones come first.
    """
    found: list[tuple[int, str, str]] = []
    names = {table_name(xid): xid for xid in definitions} | ({DEAD_LETTERS: ""} if definitions else {})
    table_format = journal.table_format() or "parquet"
    for table, files in journal.files().items():
        xid = names.get(table.first)
        if xid is not None:
            folder = journal.output / home(table, table_format)
            found += [(file.bytes, xid, str(folder / file.name)) for file in standing(journal, table, files)]
    return [(xid, path) for _, xid, path in sorted(found, reverse=True)]


def _compared(session: SparkSession, job: BacktestJob, today: Snapshot, tomorrow: Snapshot, files: Files) -> Backtest:
    count = min(session.sparkContext.defaultParallelism, len(files))
    plan = comparing.Comparison(
        today=today.to_json(),
        candidate=tomorrow.to_json(),
        tasks=tuple(tuple(files[number::count]) for number in range(count)),
        policy=job.policy,
        definitions=job.definitions,
        by=job.by,
        sample=job.sample,
    )
    frame = session.range(0, count, 1, count).mapInArrow(partial(comparing.compare, plan), comparing.RESULT)
    found = Backtest()
    try:
        for row in frame.collect():
            found.add(comparing.read_result(row["result"]))
    except (PySparkException, Py4JError) as error:
        raise PipelineError(explain(str(error), job.output)) from error
    return found
