"""Definitions held against streams of messages, on Spark: each message lands in its table or becomes a dead letter.

    report = run(Job(registry="http://localhost:8080", inputs=("events/",), output=Path("lake")))

Every command of ``signalbook pipeline`` is a function here and a module in ``commands/``. Read ``commands/run.py``
first, then ``landing/tasks.py`` (what Spark's workers do), ``commit/`` (how tables get their files exactly once) and
``columns.py`` (what is written).
"""

from signalbook.pipeline.commands.backtest import Backtest, backtest
from signalbook.pipeline.commands.compact import Compaction, compact
from signalbook.pipeline.commands.infer import InferenceJob, InferredDefinitions, infer
from signalbook.pipeline.commands.profile import Profile, profile
from signalbook.pipeline.commands.replay import Replay, replay
from signalbook.pipeline.commands.run import run
from signalbook.pipeline.commands.status import Status, StreamState, status
from signalbook.pipeline.commands.stream import stream
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.file import JobOptions, ReportOptions, job_options
from signalbook.pipeline.job.jobs import BacktestJob, DeadLetterFilter, Job, Progress, ReplayJob, StreamJob
from signalbook.pipeline.reports.report import Report
from signalbook.pipeline.reports.upload import exposition, reporting
from signalbook.pipeline.tables.reading import read, views

__all__ = [
    "Backtest",
    "BacktestJob",
    "Compaction",
    "DeadLetterFilter",
    "InferenceJob",
    "InferredDefinitions",
    "Job",
    "JobOptions",
    "PipelineError",
    "Profile",
    "Progress",
    "Replay",
    "ReplayJob",
    "Report",
    "ReportOptions",
    "Status",
    "StreamJob",
    "StreamState",
    "backtest",
    "compact",
    "exposition",
    "infer",
    "job_options",
    "profile",
    "read",
    "replay",
    "reporting",
    "run",
    "status",
    "stream",
    "views",
]
