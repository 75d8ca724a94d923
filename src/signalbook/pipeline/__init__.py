"""Check streams of messages against their definitions on Spark: each message lands in a table or becomes a dead letter.

    report = run(Job(registry="http://localhost:8080", inputs=("events/",), output=Path("lake")))

Every command of ``signalbook pipeline`` is a function here.
"""

# Most commands are a module in ``commands/``. Read ``commands/run.py`` first, then ``job/tasks.py`` (what Spark's
# workers do), ``processing/`` (how messages become rows), ``commit.py`` (how tables get their files exactly once) and
# ``columns.py`` (what is written).

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from signalbook.pipeline.commands.backfill import Backfill, backfill
    from signalbook.pipeline.commands.backtest import backtest
    from signalbook.pipeline.commands.backtest_result import Backtest
    from signalbook.pipeline.commands.compact import Compaction, compact
    from signalbook.pipeline.commands.drift import Proposal, SampleCheck, check_sample, propose_versions
    from signalbook.pipeline.commands.infer import InferenceJob, InferredDefinitions, infer
    from signalbook.pipeline.commands.profile import Profile, profile
    from signalbook.pipeline.commands.replay import Replay, replay
    from signalbook.pipeline.commands.run import run
    from signalbook.pipeline.commands.status import Status, StreamState, status
    from signalbook.pipeline.commands.stream import stream
    from signalbook.pipeline.errors import PipelineError
    from signalbook.pipeline.frames.contract import Contract
    from signalbook.pipeline.frames.functions import register
    from signalbook.pipeline.frames.landing import land
    from signalbook.pipeline.frames.validation import Validated, typed, validate
    from signalbook.pipeline.job.jobs import (
        BacktestJob,
        DeadLetterFilter,
        Job,
        JobOptions,
        Progress,
        ReplayJob,
        ReportOptions,
        StreamJob,
        job_options,
        storage_of,
    )
    from signalbook.pipeline.job.snapshot import Snapshot
    from signalbook.pipeline.places import Place, Storage, place_of
    from signalbook.pipeline.report import Report
    from signalbook.pipeline.reports.upload import exposition, reporting
    from signalbook.pipeline.sources.kafka_spool import TopicExcerpt, spool_inputs
    from signalbook.pipeline.sources.message_columns import MessageColumns
    from signalbook.pipeline.tables.landed_tables import read, views

__all__ = [
    "Backfill",
    "Backtest",
    "BacktestJob",
    "Compaction",
    "Contract",
    "DeadLetterFilter",
    "InferenceJob",
    "InferredDefinitions",
    "Job",
    "JobOptions",
    "MessageColumns",
    "PipelineError",
    "Place",
    "Profile",
    "Progress",
    "Proposal",
    "Replay",
    "ReplayJob",
    "Report",
    "ReportOptions",
    "SampleCheck",
    "Snapshot",
    "Status",
    "Storage",
    "StreamJob",
    "StreamState",
    "TopicExcerpt",
    "Validated",
    "backfill",
    "backtest",
    "check_sample",
    "compact",
    "exposition",
    "infer",
    "job_options",
    "land",
    "place_of",
    "profile",
    "propose_versions",
    "read",
    "register",
    "replay",
    "reporting",
    "run",
    "spool_inputs",
    "status",
    "storage_of",
    "stream",
    "typed",
    "validate",
    "views",
]

# Each module is imported when one of its names is used first. A Spark worker, or a command that only reads definitions,
# needs few of the packages that all commands together need. Importing pyiceberg alone takes as long as landing a small
# batch.
_NAMES: Final = {
    "commands.backfill": ("Backfill", "backfill"),
    "commands.backtest": ("backtest",),
    "commands.backtest_result": ("Backtest",),
    "commands.compact": ("Compaction", "compact"),
    "commands.drift": ("Proposal", "SampleCheck", "check_sample", "propose_versions"),
    "commands.infer": ("InferenceJob", "InferredDefinitions", "infer"),
    "commands.profile": ("Profile", "profile"),
    "commands.replay": ("Replay", "replay"),
    "commands.run": ("run",),
    "commands.status": ("Status", "StreamState", "status"),
    "commands.stream": ("stream",),
    "errors": ("PipelineError",),
    "frames.contract": ("Contract",),
    "frames.functions": ("register",),
    "frames.landing": ("land",),
    "frames.validation": ("Validated", "typed", "validate"),
    "job.jobs": (
        *("BacktestJob", "DeadLetterFilter", "Job", "JobOptions", "Progress", "ReplayJob", "ReportOptions"),
        *("StreamJob", "job_options", "storage_of"),
    ),
    "job.snapshot": ("Snapshot",),
    "places": ("Place", "Storage", "place_of"),
    "report": ("Report",),
    "reports.upload": ("exposition", "reporting"),
    "sources.kafka_spool": ("TopicExcerpt", "spool_inputs"),
    "sources.message_columns": ("MessageColumns",),
    "tables.landed_tables": ("read", "views"),
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}
_EXTRA: Final = frozenset(
    {"numpy", "obstore", "pandas", "prometheus_client", "py4j", "pyarrow", "pyiceberg", "pyspark"}
)


def __getattr__(name: str) -> Any:
    """Import and return the member ``name`` of ``__all__``.

    Raises ``AttributeError`` for an unknown name, and ``PipelineError`` if a package of the extra is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        from signalbook.pipeline.errors import PipelineError as Missing
        from signalbook.plugins import install

        raise Missing(f"the pipeline needs {error.name}: {install('pipeline')}") from None
