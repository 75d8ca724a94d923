"""What a dialect is: which methods its paths take, and what each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from signalbook.api.answers import Answer
from signalbook.api.messagecatalog.catalog import Catalog
from signalbook.api.messagecatalog.paths import Place
from signalbook.api.messagecatalog.requests import Request
from signalbook.api.messagecatalog.writing import Writing
from signalbook.engine import uris
from signalbook.errors import RegistryError
from signalbook.xid import Xid

Read = Callable[[Catalog, Request], Answer]
Write = Callable[[Writing, Request], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The operations of one draft; ``features`` is what OPTIONS of the catalog tells, if that is more than methods."""

    reads: Mapping[Place, Read]
    writes: Mapping[tuple[str, Place], Write]
    features: Read | None = None

    def methods(self, place: Place, *, read_only: bool = False) -> tuple[str, ...]:
        """What a path takes; of a ``read_only`` catalog only what reads."""
        writes = () if read_only else (method for method, where in self.writes if where is place)
        return ("GET", "HEAD", "OPTIONS", *sorted(writes))


def delete(writing: Writing, request: Request) -> Answer:
    """DELETE of whatever the path names."""
    writing.delete(request.path.xid)
    return Answer(status=204)


def lookup(catalog: Catalog, request: Request) -> Xid:
    """The version that the parameter ``uri`` names (A-43b, A-54).

    Raises ``bad_request`` without it, and ``not_found``.
    """
    named = request.uri
    found = uris.find(catalog.view, named, request.places)
    if found is None:
        raise RegistryError("not_found", subject=request.path.text, detail=f"no version has the URI {named[:500]}")
    return found
