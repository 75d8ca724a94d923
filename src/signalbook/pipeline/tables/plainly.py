"""What stops a catalog or a table, in a user's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pydantic
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NotInstalledError,
    RESTError,
    ValidationError,
    ValidationException,
)
from requests import RequestException

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.tables.base import Outdated

_KEPT: Final = "a batch that was under way is kept, and the next run goes on with it"


@contextmanager
def plainly(what: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Raise ``PipelineError`` for what stops ``what``, without ``secrets``; the batch is prepared or not begun then."""
    try:
        yield
    except _NAMED as error:
        raise _failure(what, error, hidden(str(error), secrets)) from error
    except Exception as error:
        # those of SQLAlchemy, which SQL catalogs work with, stand for those of the database
        if type(error).__module__ != "sqlalchemy.exc":
            raise
        said = hidden(str(error.__cause__ or error), secrets)
        raise PipelineError(
            f"{what} cannot be used: {said}. Another program may hold it: run again when it is done"
        ) from error


_NAMED: Final = (
    CommitFailedException,
    FileNotFoundError,
    NotInstalledError,
    RESTError,
    RequestException,
    TypeError,
    ValidationError,
    ValidationException,
    ValueError,
)


def _failure(what: str, error: Exception, said: str) -> PipelineError:
    match error:
        case CommitFailedException() | CommitStateUnknownException() | ValidationException():
            return PipelineError(f"{what} was changed by someone else at the same moment ({said}): run again")
        case RequestException() | pydantic.ValidationError():
            return PipelineError(f"{what}: there is no answer of an Iceberg catalog ({said}). Run again; {_KEPT}")
        case RESTError() | NotInstalledError():
            return PipelineError(f"{what}: {said}; {_KEPT}")
        case FileNotFoundError():
            return PipelineError(
                f"{what} has lost a file that its catalog names ({said}). Put it back, or drop the table from the "
                "catalog: the next run of this output makes a new one and goes on"
            )
    return Outdated(
        f"{what} was changed by someone else and does not take the batch: {said}. Undo that, or rename the table: "
        "the next run of this output makes a new one and goes on"
    )


def hidden(text: str, secrets: Sequence[str]) -> str:
    """``text`` without any of ``secrets``."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
