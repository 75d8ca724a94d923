"""Open registries by URL and dialect, and link two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from signalbook.client import Client
from signalbook.client.registry import ReadableRegistry
from signalbook.client.remote import MAX_BYTES, RemoteRegistry
from signalbook.client.responses import BadResponse, Refused
from signalbook.errors import SignalbookError
from signalbook.replication.cncf.messagecatalog import FirstMessageCatalog, MessageCatalog
from signalbook.replication.cncf.registry import CncfApi, CncfCopy, CncfSource, Requests
from signalbook.replication.cncf.schemaregistry import SchemaRegistry
from signalbook.replication.copying import Copy
from signalbook.replication.link import Link, RegistryDialect, Scope, is_within
from signalbook.replication.local import LocalRegistry
from signalbook.replication.replicating import Copying
from signalbook.replication.report import CopyReport
from signalbook.uris import without_user
from signalbook.values import JSON, JSONObject

HEADER: Final = "Replicated-From"
"""The header with the URL of the registry from which a request copies. A target may refuse such requests (D-12)."""
_NOT_LET_IN: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
CopyTarget = RemoteRegistry | LocalRegistry | CncfApi
"""A registry that can be the target of copies."""


class LinkError(SignalbookError):
    """The error for two registries that cannot be linked, or for a URL without a known registry."""


_DRAFTS: Final[Mapping[RegistryDialect, Callable[[Requests], CncfApi]]] = {
    RegistryDialect.SCHEMAREGISTRY: SchemaRegistry,
    RegistryDialect.MESSAGECATALOG: FirstMessageCatalog,
    RegistryDialect.MESSAGECATALOG_0_1: MessageCatalog,
}


@contextmanager
def open_target(
    url: str, *, timeout: float, dialect: RegistryDialect | None = None, source: str = "", token: str | None = ""
) -> Iterator[RemoteRegistry | CncfApi]:
    """Open the registry at ``url``, in its own ``dialect`` if none is given. Copies come from ``source``.

    Credentials are those of the URL. ``SIGNALBOOK_TOKEN`` is for one registry, and used only if ``token`` is None.
    Raises ``ClientError``, and ``LinkError`` if there is no registry.
    """
    headers = {HEADER: without_user(source)} if source else {}
    spoken = dialect or _detect_dialect(url, timeout, token)
    if spoken is RegistryDialect.XREGISTRY:
        with Client(url, timeout=timeout, max_bytes=MAX_BYTES, headers=headers, token=token) as client:
            yield RemoteRegistry(client)
        return
    with closing(Requests(url, timeout=timeout, headers=headers, token=token)) as requests:
        yield _DRAFTS[spoken](requests)


@contextmanager
def open_source(
    url: str, *, timeout: float, dialect: RegistryDialect | None = None, token: str | None = ""
) -> Iterator[ReadableRegistry]:
    """Open the registry at ``url`` as a source. The parameters and errors are those of ``open_target``."""
    with open_target(url, timeout=timeout, dialect=dialect, token=token) as registry:
        yield registry if isinstance(registry, RemoteRegistry) else CncfSource(registry)


def copying(source: ReadableRegistry, target: CopyTarget, link: Link, report: CopyReport) -> Callable[[], Copying]:
    """Return the function that begins a round of copying over ``link``."""
    if isinstance(target, RemoteRegistry | LocalRegistry):
        return partial(Copy, source, target, link, report)
    return partial(CncfCopy, source, target, link, report)


def identity(source: ReadableRegistry, reached: str, authorities: Sequence[str]) -> str:
    """Return the URL by which a source is known: the one it states, if trusted, else the one it was reached at.

    Copies belong to their source, so a source that claimed to be another one could delete copies of that one. A stated
    URL is trusted if ``reached`` is empty, because this process runs the source, or if the operator trusts the source
    for an authority that contains the URL.
    """
    claimed = source.url
    if not claimed:
        raise LinkError("a source needs a URL that its copies can name: set base_url")
    if not reached or any(is_within(claimed, authority) for authority in authorities):
        return claimed
    return without_user(reached).rstrip("/")


def link(
    source: ReadableRegistry, target: CopyTarget, scope: Scope, *, reached: str = "", authorities: Sequence[str] = ()
) -> Link:
    """Return the link between two registries. ``reached`` is the URL of the source, or ``""`` if this process runs it.

    Raises ``LinkError`` if both are the same registry.
    """
    source_url = identity(source, reached, authorities)
    if target.url and source_url == target.url:
        raise LinkError(f"{source_url} is source and target: nothing is to be copied")
    return Link(
        source=source_url,
        target=target.url,
        scope=scope,
        # Use the URL by which the source is known as the base of its APIs, not the one it states.
        bases={kind: source_url + base.removeprefix(source.url) for kind, base in source.bases().items()},
        authorities=tuple(authorities),
        partial=source.partial,
    )


def _detect_dialect(url: str, timeout: float, token: str | None) -> RegistryDialect:
    """Return the dialect of the registry at ``url``, by a path that no other dialect has. Raises ``LinkError``."""
    refused: list[Refused] = []

    def offered(path: str) -> JSON:
        try:
            return requests.json(path)
        except BadResponse:
            return None
        except Refused as error:
            if error.status in _NOT_LET_IN:
                refused.append(error)
            return None

    with closing(Requests(url, timeout=timeout, headers={}, token=token)) as requests:
        if isinstance(offered("model"), dict):
            return RegistryDialect.XREGISTRY
        if isinstance(offered("schemagroups"), list):
            return RegistryDialect.SCHEMAREGISTRY
        if isinstance(offered("messagecatalog"), list):
            return RegistryDialect.MESSAGECATALOG_0_1 if requests.features() else RegistryDialect.MESSAGECATALOG
    # A registry may refuse unknown paths, so a refusal counts only if no dialect was found.
    if refused:
        raise LinkError(f"{without_user(url)} does not let us in: {refused[0]}")
    raise LinkError(
        f"{without_user(url)} is no known registry: it has neither the xRegistry API nor that of a CNCF draft. "
        "If it has Confluent's API, write confluent+ before its URL"
    )


def extend_model(model: JSONObject, by: JSONObject) -> JSONObject | None:
    """Return the model source ``model`` with the types of ``by`` that it lacks, or None if it lacks none."""
    ours: JSONObject = model.get("groups") or {}
    theirs: JSONObject = by.get("groups") or {}
    groups = {**theirs, **ours}
    for plural in ours.keys() & theirs.keys():
        missing = {**(theirs[plural].get("resources") or {}), **(ours[plural].get("resources") or {})}
        if missing:
            groups[plural] = {**ours[plural], "resources": missing}
    return None if groups == ours else {**model, "groups": groups}
