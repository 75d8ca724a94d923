"""Commands of the pipeline without Spark: their tasks run in this process."""

from functools import partial
from typing import Final

from signalbook import pipeline
from signalbook.pipeline.job.runner import LocalRunner

_RUNNER: Final = LocalRunner()
run: Final = partial(pipeline.run, runner=_RUNNER)
replay: Final = partial(pipeline.replay, runner=_RUNNER)
backtest: Final = partial(pipeline.backtest, runner=_RUNNER)
infer: Final = partial(pipeline.infer, runner=_RUNNER)
