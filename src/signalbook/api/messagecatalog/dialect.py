"""What a dialect is: which methods its paths take, and what each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from signalbook.api.answers import Response
from signalbook.api.messagecatalog.catalog import CatalogView
from signalbook.api.messagecatalog.paths import CatalogTarget
from signalbook.api.messagecatalog.requests import CatalogRequest
from signalbook.api.messagecatalog.writing import CatalogWriter
from signalbook.engine import uris
from signalbook.errors import RegistryError
from signalbook.xid import Xid

Read = Callable[[CatalogView, CatalogRequest], Response]
Write = Callable[[CatalogWriter, CatalogRequest], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDraft:
    """The operations of one draft; ``features`` is what OPTIONS of the catalog tells, if that is more than methods."""

    reads: Mapping[CatalogTarget, Read]
    writes: Mapping[tuple[str, CatalogTarget], Write]
    features: Read | None = None

    def methods(self, place: CatalogTarget, *, read_only: bool = False) -> tuple[str, ...]:
        """What a path takes; of a ``read_only`` catalog only what reads."""
        writes = () if read_only else (method for method, where in self.writes if where is place)
        return ("GET", "HEAD", "OPTIONS", *sorted(writes))


def delete(writing: CatalogWriter, request: CatalogRequest) -> Response:
    """DELETE of whatever the path names."""
    writing.delete(request.path.xid)
    return Response(status=204)


def lookup(catalog: CatalogView, request: CatalogRequest) -> Xid:
    """The version that the parameter ``uri`` names (A-43b, A-54).

    Raises ``bad_request`` without it, and ``not_found``.
    """
    named = request.uri
    found = uris.find(catalog.view, named, request.places)
    if found is None:
        raise RegistryError("not_found", subject=request.path.text, detail=f"no version has the URI {named[:500]}")
    return found
