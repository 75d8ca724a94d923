"""The runner of a command that was given none: a Spark session, imported only then."""

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
    """Yield ``runner`` if there is one, else call ``show`` and yield a ``SparkRunner`` on ``master``.

    Without ``packages``, Spark does nothing but start tasks. Raises as ``open_session`` does.
    """
    if runner is not None:
        yield runner
        return
    from signalbook.pipeline.job.session import SparkRunner, open_session

    show()
    with open_session(master, jars=jars, packages=packages or (), brief=packages is None) as session:
        yield SparkRunner(session)
