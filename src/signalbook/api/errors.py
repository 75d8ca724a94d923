"""Errors as answers: one body for all doors that speak xRegistry (core/http.md "Error Processing", R278-R284)."""

from __future__ import annotations

import logging
import uuid
from typing import Final

from signalbook.api.answers import Answer, json_answer
from signalbook.errors import RegistryError, SignalbookError
from signalbook.storage.base import StorageBusy

_LOG: Final = logging.getLogger("signalbook.api")
_RETRY_AFTER: Final = "1"


def error_answer(error: RegistryError, *, allow: tuple[str, ...] = (), instance: str = "") -> Answer:
    """``error`` as the specification's problem document, with every single fault in the extension ``faults``.

    ``allow`` are the methods that would have been right, for 405 (R284); ``instance`` names the line in the log.
    """
    body = error.to_json()
    if instance:
        body["instance"] = instance
    headers = (("Allow", ", ".join(allow)),) if error.status == 405 else ()
    if error.status == 503:
        headers = (("Retry-After", _RETRY_AFTER),)
    return json_answer(body, status=error.status, headers=headers)


def failure_answer(error: Exception, subject: str) -> Answer:
    """The answer to anything that is not the client's doing; what happened goes to the log under ``instance``.

    A busy store is ``server_busy``; a broken one tells what is wrong with it, since only its operator can help; of
    any other exception nothing is told.
    """
    if isinstance(error, StorageBusy):
        return error_answer(RegistryError("server_busy", subject=subject, detail=str(error)))
    instance = str(uuid.uuid4())
    _LOG.error("request for %r failed (instance %s)", subject, instance, exc_info=error)
    detail = str(error) if isinstance(error, SignalbookError) else ""
    return error_answer(RegistryError("server_error", subject=subject, detail=detail), instance=instance)
