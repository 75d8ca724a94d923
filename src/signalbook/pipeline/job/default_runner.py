"""The default runner of commands: a Spark session, which is imported only if it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from signalbook.pipeline.job.runner import Runner


@contextmanager
def open_runner(
    runner: Runner | None,
    master: str,
    show: Callable[[], None],
    *,
    jars: Sequence[Path] = (),
    packages: Sequence[str] | None = None,
) -> Iterator[Runner]:
    """Yield ``runner`` unless it is None, else call ``show`` and yield a ``SparkRunner`` on ``master``.

    ``packages`` is None if Spark only starts tasks. Raises the errors of ``open_session``.
    """
    if runner is not None:
        yield runner
        return
    from signalbook.pipeline.job.session import SparkRunner, open_session

    show()
    with open_session(master, jars=jars, packages=packages or (), brief=packages is None) as session:
        yield SparkRunner(session)
