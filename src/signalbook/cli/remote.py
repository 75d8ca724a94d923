"""A registry behind its API, as commands see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from typing import Final

from signalbook.client import Client, NotFound, ReadFlags, Refused
from signalbook.client.registry import Reading, Registry
from signalbook.documents import Upload
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

_PAGE: Final = 100


class RemoteRegistry:
    """A registry behind its API."""

    def __init__(self, client: Client, *, trial: bool = False) -> None:
        self._client = client
        self._trial = trial
        self._tried = False

    def model(self) -> JSONObject:
        """The full model."""
        return self._client.model()

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""
        return self._client.modelsource()

    def find(self, xid: Xid) -> JSONObject | None:
        """As the protocol says."""
        try:
            return self._client.get(xid, inline=["capabilities"] if xid == ROOT else ["*"], doc=True)
        except NotFound:
            return None

    def patch(self, upload: Upload, ignore: Sequence[str]) -> bool:
        """As the protocol says."""
        ignored = [*upload.ignore, *ignore]
        if self._trial:
            self._try(upload, ignored)
        else:
            self._client.patch(upload.target, upload.body, ignore=ignored)
        return not self._trial

    def _try(self, upload: Upload, ignored: Sequence[str]) -> None:
        """Ask the server what it would say, if it can tell. Of several writes it only can of the first."""
        tried, self._tried = self._tried, True
        if tried:
            return
        try:
            verdict = self._client.check("PATCH", upload.target, upload.body, ignore=ignored)
        except NotFound:
            return
        for error in verdict.errors:
            raise Refused(int(error.get("status", HTTPStatus.BAD_REQUEST)), error)

    def get(self, xid: Xid, reading: Reading) -> JSONObject:
        """As the protocol says."""
        return self._client.get(xid, **_flags(reading))

    def items(self, xid: Xid, reading: Reading) -> Iterator[tuple[str, JSONObject]]:
        """As the protocol says; a page at a time."""
        page = _PAGE if reading.limit is None else min(_PAGE, reading.limit)
        return islice(self._client.items(xid, limit=page, **_flags(reading)), reading.limit)

    def export(self, target: Xid) -> Iterator[bytes]:
        """As the protocol says."""
        return self._client.export_stream(target)

    def entities(self) -> Iterator[tuple[Xid, JSONObject]]:
        """As the protocol says; a page of a collection at a time."""
        yield ROOT, self._client.get(ROOT, inline=["capabilities", "modelsource"], doc=True)
        for plural, group in self._client.model()["groups"].items():
            for name, body in self._client.items(ROOT / plural, doc=True, limit=_PAGE):
                yield ROOT / plural / name, body
                for resources in group["resources"]:
                    yield from self._resources(ROOT / plural / name / resources)

    def _resources(self, collection: Xid) -> Iterator[tuple[Xid, JSONObject]]:
        for name, body in self._client.items(collection, inline=["*"], doc=True, binary=True, limit=_PAGE):
            yield collection / name, body

    @contextmanager
    def trying(self) -> Iterator[Registry]:
        """The same registry, sent nothing."""
        yield RemoteRegistry(self._client, trial=True)


def _flags(reading: Reading) -> ReadFlags:
    flags: ReadFlags = {"filter": reading.filter, "inline": reading.inline}
    return flags if reading.sort is None else {**flags, "sort": reading.sort}
