"""Errors of the draft doors as problem documents (RFC9457): the drafts leave their form open (domain.md A-53).

The catalogue's errors are those of xRegistry. The drafts have 409 besides, and 405 where a registry is read-only.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from signalbook.api.answers import Header, Response
from signalbook.api.errors import NO_STORE, PreconditionFailed, error_response, failure_response
from signalbook.engine.tree import Clash
from signalbook.errors import RegistryError, SignalbookError, describe
from signalbook.values import Finding, JSONObject, dump_json

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
    conflict = isinstance(error, Clash) or error.code in _CONFLICTS
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
