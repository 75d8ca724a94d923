"""What the command line and replication ask of a registry, wherever it is: the one port to a registry.

``client.remote`` implements it for a registry behind its API, ``replication.local`` for one in a database that this
process has open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, Unpack

from signalbook.client.responses import Events
from signalbook.client.transport import ReadFlags
from signalbook.documents import Upload, extend_model, make_upload
from signalbook.errors import SignalbookError
from signalbook.values import JSON, Finding, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Xid

PAGE: Final = 200
"""Members of a collection that are asked for at a time."""
URI_APIS: Final = {"schemas": "/compat/schemaregistry/v0.2", "messages": "/compat/messagecatalog/v0.1"}
"""Where Signalbook has the APIs that URIs of Versions are made for, below its root, by type of Resource."""


class TooLarge(SignalbookError):
    """A response that is too large to be held at once."""


class Pruned(SignalbookError):
    """The history does not reach back to where it was to be read from."""


class NoHistory(SignalbookError):
    """A registry without a change feed."""


class Refusal(SignalbookError):
    """A write that a registry refused; nothing of it was done.

    ``status`` is that of a server's response, 0 without a server; ``subject`` and ``faults`` are those of the error.
    """

    def __init__(self, reason: str, *, status: int = 0, subject: str = "", faults: Sequence[Finding] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.subject = subject
        self.faults = tuple(faults)


def refuse_doubts(verdict: Verdict) -> None:
    """Raise ``Refusal`` if there are findings that a strict write does not take."""
    if verdict.doubtful:
        faults = [finding for finding in verdict.findings if finding.severity != "info"]
        listed = "".join(f"\n  {finding}" for finding in faults)
        raise Refusal(f"a strict import takes no findings, and there are {len(faults)}:{listed}", faults=faults)


def mark_of(events: Sequence[JSONObject], position: int) -> str:
    """Return a text that identifies the event at ``position``, or "" if it is missing."""
    match = next((event for event in reversed(events) if event.get("id") == str(position)), None)
    return "" if match is None else f"{match.get('time', '')} {match.get('xregcorrelationid', '')}".strip()


def plan_upload(
    document: JSON, modelsource: Callable[[], JSONObject], ignore: Sequence[str], to: Xid | None = None
) -> Upload:
    """Return ``document`` as the body of a PATCH on where it belongs, or on ``to``.

    A model in it extends the one that ``modelsource`` gives, unless ``ignore`` leaves it out. Raises ``DocumentError``.
    """
    upload = make_upload(document, to=to)
    if "modelsource" in upload.body and upload.target == ROOT and "modelsource" not in ignore:
        return extend_model(upload, modelsource())
    return upload


class ReadableRegistry(Protocol):
    """A registry to read and to follow. What it shows is in document view, documents as base64.

    Where it cannot be reached, every method raises ``client.Unreachable`` or ``StorageError``.
    """

    @property
    def partial(self) -> bool:
        """True if Versions may have more content than it can express. That content stays as it is."""

    @property
    def url(self) -> str:
        """The URL of its root as it says itself, without a slash at the end; ``""`` if it does not know."""

    def bases(self) -> Mapping[str, str]:
        """URLs of the APIs that it makes URIs of Versions for, by type of Resource, where they are not the root's."""

    def model(self) -> JSONObject:
        """The full model."""

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """An entity, with all beneath it if ``deep``, else of a Resource its meta alone; None if it is not there.

        A Version has its document. Raises ``TooLarge``.
        """

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """The members of a collection by id, as ``find`` shows them, a page at a time. Raises ``TooLarge`` anywhere."""

    def position(self) -> int:
        """The position behind all that was committed. Raises ``NoHistory``."""

    def changes(self, after: int) -> Events:
        """Return some changes after a position. Raises ``Pruned``, ``NoHistory``."""

    def mark(self, position: int) -> str:
        """Return a text that identifies the change at a position, or "" if that is unknown."""

    def wait(self, after: int, seconds: float) -> None:
        """Return once there may be a change behind ``after``, or when the time is over."""

    def hides(self, xid: Xid) -> bool:
        """Return True if ``xid`` is hidden from this identity, whether it exists or not."""

    def rights(self) -> str:
        """Return a text that changes whenever the rights of this identity may have changed, or "" if unknown."""


class Registry(ReadableRegistry, Protocol):
    """A registry to read from and to write to."""

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """Find an entity. The Registry itself comes alone, with its capabilities."""

    def get(self, xid: Xid, **flags: Unpack[ReadFlags]) -> JSONObject:
        """An entity as the API shows it. Raises ``NotFound`` or ``RegistryError`` if it is not there."""

    def items(
        self, xid: Xid, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        """The members of a collection as the API shows them, no more than ``limit``. Raises as ``get``."""

    def export(self, target: Xid) -> Iterator[bytes]:
        """The text of the document that ``target`` with all beneath it makes. Raises as ``get``."""

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> None:
        """Create or change what ``body`` names, all of it or nothing.

        Epochs in it are not compared; ``ignore`` names more to leave out. Raises ``Refusal``.
        """

    def patch_reviewed(
        self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = (), strict: bool = False
    ) -> tuple[Finding, ...]:
        """Do the same as ``patch`` and return the findings; if ``strict``, write nothing where there are any."""

    def add_version(self, resource: Xid, content: bytes, attributes: JSONObject) -> Xid:
        """Store a document as the next Version of a Resource, which is returned; ``contenttype`` is an attribute.

        Raises ``Refusal``.
        """

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        """Delete these members, as far as they are there. Raises ``Refusal``."""

    def replace_model(self, source: JSONObject) -> None:
        """Put this model in force. Raises ``Refusal``."""

    def consistent(self) -> AbstractContextManager[Registry]:
        """Give this registry as it is at one instant, if possible: the content of a server may change meanwhile."""

    def trying(self) -> AbstractContextManager[Registry]:
        """A registry that looks like this one and forgets at the end what it was sent."""

    def checking(self) -> AbstractContextManager[WriteChecks]:
        """Questions what would become of writes; none of them changes anything."""


class WriteChecks(Protocol):
    """Checks of writes. Accepted writes may count for later checks."""

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> Verdict:
        """Check a ``Registry.patch``."""

    def version(self, xid: Xid, content: bytes, format: str, compatibility: str | None) -> Verdict:
        """Check a document of a ``format`` as the next Version of the Resource ``xid``.

        ``compatibility`` replaces the rule of the Resource.
        """

    def format_of(self, xid: Xid) -> str:
        """The format of a Resource; ``""`` if it has none, or is not there."""
