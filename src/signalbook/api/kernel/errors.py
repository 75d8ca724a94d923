"""Exceptions as responses: the bodies of xRegistry, and problem documents (RFC9457) for the CNCF drafts.

All APIs that speak xRegistry have one body (core/http.md "Error Processing", R278-R284). The drafts leave the form of
errors open (domain.md A-53): there the catalogue's errors are shown as problem documents, with 409 besides, and 405
where a registry is read-only.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from signalbook.api.kernel.responses import Header, Response, json_response
from signalbook.engine.engine import HistoryPruned
from signalbook.engine.write.workingcopies import IdClash
from signalbook.errors import RegistryError, SignalbookError, describe
from signalbook.storage.base import StorageBusy
from signalbook.values import JSON, Finding, JSONObject, dump_json

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


def gone_response(error: HistoryPruned, subject: str) -> Response:
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


PROBLEM_TYPE: Final = "application/problem+json"
_CONFLICTS: Final = frozenset({"compatibility_violation", "mismatched_version_attribute"})
"""What contradicts the versions there are (A-26), though xRegistry has no 409."""


class Conflict(SignalbookError):
    """What a request wants contradicts what is there and may not change (409); ``detail`` says what and why."""

    def __init__(self, subject: str, detail: str, faults: Iterable[Finding] = ()) -> None:
        super().__init__(detail)
        self.subject = subject
        self.detail = detail
        self.faults = tuple(faults)


class ReadOnly(SignalbookError):
    """A write to a registry that takes none (405)."""


class Denied(SignalbookError):
    """What may not be done here, whoever asks (403)."""


class Unsupported(SignalbookError):
    """A body of a media type that is not understood (415)."""


def problem_response(error: Exception, path: str, allow: tuple[str, ...] = ()) -> Response:
    """The answer to whatever a request about ``path`` failed with; ``allow`` are the methods that would be right."""
    if isinstance(error, RegistryError):
        return _catalogue_problem(error, path, allow)
    if isinstance(error, Conflict):
        faults = [fault.to_json() for fault in error.faults]
        return _plain_problem(HTTPStatus.CONFLICT, error.detail, path, {"faults": faults} if faults else {})
    if isinstance(error, ReadOnly):
        return _plain_problem(HTTPStatus.METHOD_NOT_ALLOWED, str(error), path, {}, (("Allow", ", ".join(allow)),))
    if isinstance(error, Denied):
        return _plain_problem(HTTPStatus.FORBIDDEN, str(error), path, {})
    if isinstance(error, Unsupported):
        return _plain_problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, str(error), path, {})
    if isinstance(error, PreconditionFailed):
        return _plain_problem(HTTPStatus.PRECONDITION_FAILED, str(error), path, {})
    return failure_response(error, path)


def _catalogue_problem(error: RegistryError, path: str, allow: tuple[str, ...]) -> Response:
    """Its type and title, its faults, and in ``detail`` all that a person needs to know."""
    conflict = isinstance(error, IdClash) or error.code in _CONFLICTS
    status = HTTPStatus.CONFLICT if conflict else error.status
    body = error.to_json() | {"status": int(status), "instance": path}
    body["detail"] = describe(error.title, error.detail, error.faults)
    made = error_response(error, allow=allow)
    headers = tuple(header for header in made.headers if header[0] != "Content-Type")
    return Response(status=status, headers=(("Content-Type", PROBLEM_TYPE), *headers), body=dump_json(body))


def _plain_problem(
    status: HTTPStatus, detail: str, path: str, members: JSONObject, headers: tuple[Header, ...] = ()
) -> Response:
    """An error that no catalogue has: its type says no more than its status (RFC9457 4.2.1)."""
    body: JSONObject = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    body |= {"instance": path, **members}
    return Response(status=status, headers=(("Content-Type", PROBLEM_TYPE), NO_STORE, *headers), body=dump_json(body))
