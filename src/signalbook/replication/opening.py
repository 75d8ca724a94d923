"""Registries by where they are, and the link between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from signalbook.client import Client
from signalbook.errors import SignalbookError
from signalbook.replication.link import Link, within
from signalbook.replication.registry import Registry
from signalbook.replication.remote import MAX_BYTES, RemoteRegistry
from signalbook.replication.scope import Scope

HEADER: Final = "Replicated-From"
"""Which registry the content of a request comes from: a target may refuse such requests (D-12)."""


class LinkError(SignalbookError):
    """Two registries that cannot be linked."""


@contextmanager
def open_remote(url: str, *, timeout: float, source: str = "") -> Iterator[RemoteRegistry]:
    """The registry at ``url``; if it is a target, ``source`` is where its copies come from. Raises ``ClientError``."""
    headers = {HEADER: source} if source else {}
    with Client(url, timeout=timeout, max_bytes=MAX_BYTES, headers=headers) as client:
        yield RemoteRegistry(client)


def identity(registry: Registry, reached: str, authorities: Sequence[str]) -> str:
    """By which URL a source is known: the one it gives itself if it is to be believed, else that it was reached at.

    Copies belong to the source they came from; one that claimed to be another could delete what is that one's. It is
    believed if it says nothing else than its URL, or if the operator lets it speak for that authority.
    """
    claimed = registry.url
    if not claimed:
        raise LinkError("a source needs a URL that its copies can name: set base_url")
    if not reached or any(within(claimed, authority) for authority in authorities):
        return claimed
    return reached.rstrip("/")


def link(
    source: Registry, target: Registry, scope: Scope, *, reached: str = "", authorities: Sequence[str] = ()
) -> Link:
    """The link between two registries; ``reached`` is the URL of the source, ``""`` if this process runs it.

    Raises ``LinkError`` if they are one and the same.
    """
    known = identity(source, reached, authorities)
    if target.url and known == target.url:
        raise LinkError(f"{known} is source and target: nothing is to be copied")
    bases = {kind: known + base.removeprefix(source.url) for kind, base in source.bases().items()}
    return Link(source=known, target=target.url, scope=scope, bases=bases, authorities=tuple(authorities))
