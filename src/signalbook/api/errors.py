"""Errors as answers: one body for all doors that speak xRegistry (core/http.md "Error Processing", R278-R284)."""

from __future__ import annotations

import logging
import uuid
from typing import Final

from signalbook.api.answers import Header, Response, json_response
from signalbook.engine.history import Forgotten
from signalbook.errors import RegistryError, SignalbookError
from signalbook.storage.base import StorageBusy
from signalbook.values import JSON, JSONObject

_LOG: Final = logging.getLogger("signalbook.api")
_RETRY_AFTER: Final = "1"
# By default caches keep some errors, such as 404, for as long as they please (RFC9111 4.2.2).
NO_STORE: Final[Header] = ("Cache-Control", "no-store")


class PreconditionFailed(Exception):
    """The condition in the header ``condition`` of a request about ``subject`` does not hold (RFC9110 13)."""

    def __init__(self, subject: str, condition: str) -> None:
        super().__init__(f"the condition in {condition} does not hold for {subject}")
        self.subject = subject
        self.condition = condition


def error_response(error: RegistryError, *, allow: tuple[str, ...] = (), instance: str = "") -> Response:
    """``error`` as the specification's problem document, with every single fault in the extension ``faults``.

    ``allow`` are the methods that would have been right, for 405 (R284); ``instance`` names the line in the log.
    """
    body = error.to_json()
    if instance:
        body["instance"] = instance
    headers: tuple[Header, ...] = (NO_STORE,)
    if error.status == 405:
        headers = (NO_STORE, ("Allow", ", ".join(allow)))
    if error.status == 503:
        headers = (NO_STORE, ("Retry-After", _RETRY_AFTER))
    return json_response(body, status=error.status, headers=headers)


def precondition_response(error: PreconditionFailed) -> Response:
    """412: the condition of a request does not hold."""
    detail = f"{error.condition} does not hold for what is stored now; read it again"
    return _plain_response(412, "Precondition Failed", error.subject, detail)


def gone_response(error: Forgotten, subject: str) -> Response:
    """410: what a reader of changes has not seen is kept no longer. ``position`` is that of the last one forgotten."""
    return _plain_response(410, "Gone", subject, str(error), position=error.position)


def _plain_response(status: int, title: str, subject: str, detail: str, **members: JSON) -> Response:
    """An error the catalogue has not, so that its type says no more than its status (RFC9457 4.2.1)."""
    body: JSONObject = {"type": "about:blank", "title": title, "detail": detail, "subject": subject, **members}
    return json_response(body, status=status, headers=(NO_STORE,))


def failure_response(error: Exception, subject: str) -> Response:
    """The answer to anything that is not the client's doing; what happened goes to the log under ``instance``.

    A busy store is ``server_busy``; a broken one tells what is wrong with it, since only its operator can help; of
    any other exception nothing is told.
    """
    if isinstance(error, StorageBusy):
        return error_response(RegistryError("server_busy", subject=subject, detail=str(error)))
    instance = str(uuid.uuid4())
    _LOG.error("request for %r failed (instance %s)", subject, instance, exc_info=error)
    detail = str(error) if isinstance(error, SignalbookError) else ""
    return error_response(RegistryError("server_error", subject=subject, detail=detail), instance=instance)
