"""Convert exceptions to responses: xRegistry's error bodies, and problem documents (RFC9457) for the CNCF drafts.

All APIs with xRegistry's entities use its error body (core/http.md "Error Processing", R278-R284). The drafts leave the
form of errors open (A-53): their errors are those of xRegistry's catalogue as problem documents, and in addition 409,
and 405 for a read-only registry.
"""

from __future__ import annotations

import errno
import logging
import uuid
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from signalbook.access.base import AuthenticationUnavailable, Forbidden, Unauthenticated
from signalbook.access.limits import TooManyRequests
from signalbook.api.kernel.responses import Header, Response, json_response
from signalbook.engine.engine import HistoryPruned
from signalbook.engine.write.workingcopies import IdClash
from signalbook.errors import RegistryError, SignalbookError, describe
from signalbook.storage.base import StorageBusy, StorageError, StorageFull, StorageUnavailable
from signalbook.values import JSON, Finding, JSONObject
from signalbook.work import OutOfTime, TooComplex

_LOG: Final = logging.getLogger("signalbook.api")
_RETRY_AFTER: Final = "1"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
# Without this header, caches may keep some errors, such as 404, for as long as they like (RFC9111 4.2.2).
NO_STORE: Final[Header] = ("Cache-Control", "no-store")
PROBLEM_TYPE: Final = "application/problem+json"
_CONFLICTS: Final = frozenset({"compatibility_violation", "mismatched_version_attribute"})
"""The errors about contradictions to existing versions (A-26). They become 409, which xRegistry does not use."""


class PreconditionFailed(Exception):
    """The condition in the header ``condition`` of a request about ``subject`` is not met (RFC9110 13)."""

    def __init__(self, subject: str, condition: str) -> None:
        super().__init__(f"the condition in {condition} does not hold for {subject}")
        self.subject = subject
        self.condition = condition


class NotAllowed(RegistryError):
    """A path does not support the method (405). ``allow`` are the methods that it supports (R284)."""

    def __init__(
        self, code: str = "action_not_supported", *, subject: str, allow: Iterable[str], **arguments: str
    ) -> None:
        super().__init__(code, subject=subject, detail="", faults=(), **arguments)
        self.allow = tuple(allow)


class Conflict(SignalbookError):
    """The request conflicts with existing state (409), which ``detail`` names."""

    def __init__(self, subject: str, detail: str, faults: Iterable[Finding] = ()) -> None:
        super().__init__(detail)
        self.subject = subject
        self.detail = detail
        self.faults = tuple(faults)


class ReadOnly(SignalbookError):
    """A write to a read-only registry (405). ``allow`` are the methods that only read."""

    def __init__(self, message: str, allow: Iterable[str]) -> None:
        super().__init__(message)
        self.allow = tuple(allow)


class Denied(SignalbookError):
    """The request is forbidden for every caller (403)."""


class Unsupported(SignalbookError):
    """The media type of the body is not supported (415)."""


def build_error_response(error: Exception, subject: str) -> Response:
    """Return the response to ``error``, raised by a request about ``subject``, in the form of xRegistry."""
    error = _convert_error(error, subject)
    match error:
        case RegistryError():
            return _build_catalogue_response(error)
        case PreconditionFailed():
            detail = f"{error.condition} does not hold for what is stored now; read it again"
            return build_plain_response(HTTPStatus.PRECONDITION_FAILED, error.subject, detail)
        case Unauthenticated():
            return build_plain_response(HTTPStatus.UNAUTHORIZED, subject, str(error))
        case Conflict():
            return build_plain_response(HTTPStatus.CONFLICT, error.subject, error.detail)
        case Denied() | Forbidden():
            return build_plain_response(HTTPStatus.FORBIDDEN, subject, str(error))
        case TooManyRequests():
            response = build_plain_response(HTTPStatus.TOO_MANY_REQUESTS, subject, str(error))
            return replace(response, headers=(*response.headers, ("Retry-After", str(error.retry_after))))
        case HistoryPruned():  # ``position`` is that of the last change that is gone
            return build_plain_response(HTTPStatus.GONE, subject, str(error), position=error.position)
        case _:
            return _build_failure_response(error, subject)


def _convert_error(error: Exception, subject: str) -> Exception:
    """Return the error of xRegistry's catalogue for a document that exceeded a work limit; other errors unchanged."""
    match error:
        case TooComplex():
            return RegistryError("too_complex", subject=subject, detail=str(error))
        case OutOfTime():
            return RegistryError("server_busy", subject=subject, detail=str(error))
        case _:
            return error


def _build_catalogue_response(error: RegistryError, *, instance: str = "") -> Response:
    """Return the specification's error document. ``instance`` identifies the line in the log, if there is one."""
    body = error.to_json()
    if instance:
        body["instance"] = instance
    headers: tuple[Header, ...] = (NO_STORE,)
    if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        allow = error.allow if isinstance(error, NotAllowed) else ()
        headers = (NO_STORE, ("Allow", ", ".join(allow)))
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = (NO_STORE, ("Retry-After", _RETRY_AFTER))
    return json_response(body, status=error.status, headers=headers)


def build_plain_response(status: HTTPStatus, subject: str, detail: str, **members: JSON) -> Response:
    """Return an error that is not in xRegistry's catalogue. Its type says no more than its status (RFC9457 4.2.1)."""
    body: JSONObject = {"type": "about:blank", "title": status.phrase, "detail": detail, "subject": subject, **members}
    return json_response(body, status=status, headers=(NO_STORE,))


def _build_failure_response(error: Exception, subject: str) -> Response:
    """Return the response to a failure of the server. The log describes the failure under the id ``instance``.

    A busy, unavailable or full store gives ``server_busy``; the store logs it. For other storage errors the reason is
    shown, but not which database it is. For unexpected exceptions nothing is shown.
    """
    if isinstance(error, AuthenticationUnavailable):
        return _build_catalogue_response(RegistryError("server_busy", subject=subject, detail=str(error)))
    if isinstance(error, OSError) and error.errno in _FULL:
        error = StorageFull("the disk for temporary files is full; free some space there")
        _LOG.error("request for %r failed: %s", subject, error)
    if isinstance(error, (StorageBusy, StorageUnavailable, StorageFull)):
        return _build_catalogue_response(RegistryError("server_busy", subject=subject, detail=error.shown))
    instance = str(uuid.uuid4())
    if isinstance(error, StorageError):
        _LOG.error("request for %r failed (instance %s): %s", subject, instance, error)
        detail = error.shown
    else:
        _LOG.error("request for %r failed (instance %s)", subject, instance, exc_info=error)
        detail = str(error) if isinstance(error, SignalbookError) else ""
    return _build_catalogue_response(RegistryError("server_error", subject=subject, detail=detail), instance=instance)


def build_problem_response(error: Exception, path: str) -> Response:
    """Return the response to ``error``, raised by a request about ``path``, as a problem document."""
    error = _convert_error(error, path)
    match error:
        case RegistryError():
            return _build_catalogue_problem(error, path)
        case Conflict():
            faults = [fault.to_json() for fault in error.faults]
            return _build_plain_problem(HTTPStatus.CONFLICT, error.detail, path, {"faults": faults} if faults else {})
        case ReadOnly():
            allow = ("Allow", ", ".join(error.allow))
            return _build_plain_problem(HTTPStatus.METHOD_NOT_ALLOWED, str(error), path, {}, (allow,))
        case Unauthenticated():
            return _build_plain_problem(HTTPStatus.UNAUTHORIZED, str(error), path, {})
        case Denied() | Forbidden():
            return _build_plain_problem(HTTPStatus.FORBIDDEN, str(error), path, {})
        case TooManyRequests():
            wait = ("Retry-After", str(error.retry_after))
            return _build_plain_problem(HTTPStatus.TOO_MANY_REQUESTS, str(error), path, {}, (wait,))
        case Unsupported():
            return _build_plain_problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, str(error), path, {})
        case PreconditionFailed():
            return _build_plain_problem(HTTPStatus.PRECONDITION_FAILED, str(error), path, {})
        case _:
            return _build_failure_response(error, path)


def _build_catalogue_problem(error: RegistryError, path: str) -> Response:
    """Return a catalogue error as a problem document, with findings and a ``detail`` that is complete for people."""
    conflict = isinstance(error, IdClash) or error.code in _CONFLICTS
    status = HTTPStatus.CONFLICT if conflict else error.status
    body = error.to_json() | {"status": int(status), "instance": path}
    body["detail"] = describe(error.title, error.detail, error.faults)
    # Allow and Retry-After are the same in both forms.
    headers = tuple(header for header in _build_catalogue_response(error).headers if header[0] != "Content-Type")
    return _build_problem(body, status, headers)


def _build_plain_problem(
    status: HTTPStatus, detail: str, path: str, members: JSONObject, headers: tuple[Header, ...] = ()
) -> Response:
    """Return an error that is in no catalogue. Its type says no more than its status (RFC9457 4.2.1)."""
    body: JSONObject = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    return _build_problem(body | {"instance": path, **members}, status, (NO_STORE, *headers))


def _build_problem(body: JSONObject, status: int, headers: tuple[Header, ...]) -> Response:
    response = json_response(body, status=status)
    return replace(response, headers=(("Content-Type", PROBLEM_TYPE), *headers))
