"""The interface through which the command line and replication use a registry, wherever it is.

``client.remote`` implements the interface over HTTP. ``replication.local`` implements it for a registry in a database
that this process has open.
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
"""The number of members of a collection that are loaded at once."""
URI_APIS: Final = {"schemas": "/compat/schemaregistry/v0.2", "messages": "/compat/messagecatalog/v0.1"}
"""The paths of the CNCF APIs in a Signalbook server, by type of Resource. URIs of Versions are built on these paths."""


class TooLarge(SignalbookError):
    """The error for a response that is too large to hold in memory."""


class Pruned(SignalbookError):
    """The error for a position in the change feed whose events have already been pruned."""


class NoHistory(SignalbookError):
    """The error for a registry without a change feed."""


class Refusal(SignalbookError):
    """The error for a write that a registry refused. The registry is unchanged.

    ``status`` is the HTTP status, or 0 if no server was involved. ``subject`` is the xid or path that the error is
    about, and ``faults`` are its findings.
    """

    def __init__(self, reason: str, *, status: int = 0, subject: str = "", faults: Sequence[Finding] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.subject = subject
        self.faults = tuple(faults)


def refuse_doubts(verdict: Verdict) -> None:
    """Raise ``Refusal`` if ``verdict`` has findings other than information. A strict import accepts none of them."""
    if verdict.doubtful:
        faults = [finding for finding in verdict.findings if finding.severity != "info"]
        listed = "".join(f"\n  {finding}" for finding in faults)
        raise Refusal(f"a strict import takes no findings, and there are {len(faults)}:{listed}", faults=faults)


def mark_of(events: Sequence[JSONObject], position: int) -> str:
    """Return a text that identifies the event at ``position``, or ``""`` if ``events`` does not contain that event."""
    match = next((event for event in reversed(events) if event.get("id") == str(position)), None)
    return "" if match is None else f"{match.get('time', '')} {match.get('xregcorrelationid', '')}".strip()


def plan_upload(
    document: JSON, modelsource: Callable[[], JSONObject], ignore: Sequence[str], to: Xid | None = None
) -> Upload:
    """Return ``document`` as the body of a PATCH, with the entity to send it to: ``to`` or, if None, a fitting one.

    A model in the document is merged into the registry's, which ``modelsource`` returns, unless ``ignore`` contains
    ``modelsource``. Raises ``DocumentError``.
    """
    upload = make_upload(document, to=to)
    if "modelsource" in upload.body and upload.target == ROOT and "modelsource" not in ignore:
        return extend_model(upload, modelsource())
    return upload


class ReadableRegistry(Protocol):
    """A registry that can be read and followed.

    Entities are returned in document view, with documents as base64. Every method raises ``client.Unreachable`` or
    ``StorageError`` if the registry cannot be reached.
    """

    @property
    def partial(self) -> bool:
        """True if this registry may leave out some content of Versions. A copy must then keep such content as it is."""

    @property
    def url(self) -> str:
        """The URL that the registry reports for its root, without a final slash; ``""`` if the URL is unknown."""

    def bases(self) -> Mapping[str, str]:
        """Return the base URLs for URIs of Versions, by type of Resource.

        Types whose URIs are built on the root URL are left out.
        """

    def model(self) -> JSONObject:
        """Return the full model."""

    def modelsource(self) -> JSONObject:
        """Return the model as it was supplied."""

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """Return an entity, or None if it does not exist. A Version includes its document.

        With ``deep``, everything under the entity is included. Otherwise a Resource includes only its meta. Raises
        ``TooLarge``.
        """

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """Yield the ids and bodies of a collection's members, in the form that ``find`` returns.

        ``page`` members are loaded at once. Raises ``TooLarge`` if a page is too large, possibly after some members.
        """

    def position(self) -> int:
        """Return the position of the newest committed change. Raises ``NoHistory``."""

    def changes(self, after: int) -> Events:
        """Return the next changes after the position ``after``. Raises ``Pruned`` or ``NoHistory``."""

    def mark(self, position: int) -> str:
        """Return a text that identifies the change at ``position``, or ``""`` if that change is unknown."""

    def wait(self, after: int, seconds: float) -> None:
        """Wait until there may be a change after the position ``after``, for at most ``seconds``."""

    def hides(self, xid: Xid) -> bool:
        """Return True if the rights of this client do not let it see ``xid``, whether the entity exists or not."""

    def rights(self) -> str:
        """Return a text that changes whenever the rights of this client may have changed, or ``""`` if unknown."""


class Registry(ReadableRegistry, Protocol):
    """A registry that can be read and written."""

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """Return an entity, or None if it does not exist. The Registry entity includes only its capabilities."""

    def get(self, xid: Xid, **flags: Unpack[ReadFlags]) -> JSONObject:
        """Return an entity as the API shows it. Raises ``NotFound`` or ``RegistryError`` if it does not exist."""

    def items(
        self, xid: Xid, *, limit: int | None = None, **flags: Unpack[ReadFlags]
    ) -> Iterator[tuple[str, JSONObject]]:
        """Yield the ids and bodies of a collection's members, at most ``limit`` in total. Raises like ``get``."""

    def export(self, target: Xid) -> Iterator[bytes]:
        """Yield the JSON text of ``target`` and everything under it as one document. Raises like ``get``."""

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> None:
        """Create or change all entities in ``body``, or none if one of them is refused.

        Epochs are not compared. ``ignore`` names other parts to leave out. Raises ``Refusal``.
        """

    def patch_reviewed(
        self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = (), strict: bool = False
    ) -> tuple[Finding, ...]:
        """Write like ``patch``, and return the findings about the content.

        With ``strict``, findings other than information raise ``Refusal`` and nothing is written.
        """

    def add_version(self, resource: Xid, content: bytes, attributes: JSONObject) -> Xid:
        """Store ``content`` as the next Version of a Resource, and return the xid of that Version.

        ``contenttype`` is one of the ``attributes``. Raises ``Refusal``.
        """

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        """Delete the members of ``collection`` with these ``ids``. Ids that do not exist are ignored.

        Raises ``Refusal``.
        """

    def replace_model(self, source: JSONObject) -> None:
        """Replace the model by the model source ``source``. Raises ``Refusal``."""

    def consistent(self) -> AbstractContextManager[Registry]:
        """Return a context with this registry as it is at one instant.

        A registry behind a server cannot do this: its content may change within the context.
        """

    def trying(self) -> AbstractContextManager[Registry]:
        """Return a context with a registry like this one, whose writes are discarded at the end."""

    def checking(self) -> AbstractContextManager[WriteChecks]:
        """Return a context with checks of writes. A check changes nothing."""


class WriteChecks(Protocol):
    """Checks of writes. A later check may see the earlier, accepted writes as if they had been made."""

    def patch(self, target: Xid, body: JSONObject, *, ignore: Sequence[str] = ()) -> Verdict:
        """Return whether ``Registry.patch`` would be accepted with the same arguments."""

    def version(self, xid: Xid, content: bytes, format: str, compatibility: str | None) -> Verdict:
        """Return whether ``content`` in this ``format`` would be accepted as the next Version of the Resource ``xid``.

        ``compatibility`` replaces the rule of the Resource, unless it is None.
        """

    def format_of(self, xid: Xid) -> str:
        """Return the format of the Resource ``xid``, or ``""`` if it has no format or does not exist."""
