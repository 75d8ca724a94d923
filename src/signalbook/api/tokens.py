"""The API for API tokens, for administrators; and public metadata about the accepted issuers of tokens."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.routing import Route

from signalbook import values
from signalbook.access.authentication import METADATA
from signalbook.access.base import Action
from signalbook.access.control import PolicyRefused
from signalbook.access.tokens import PATH, InvalidToken, TokenRequest, TooManyTokens, describe, is_id, read_request
from signalbook.api.kernel.errors import NO_STORE, Conflict
from signalbook.api.kernel.paging import build_next_link
from signalbook.api.kernel.requests import HTTPRequest, parse_json_body
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Handler, Kernel, PathEndpoint
from signalbook.errors import RegistryError
from signalbook.storage.tokens import StoredToken
from signalbook.values import Finding
from signalbook.xid import ROOT

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 8
_PAGE_TOKENS: Final = 1000


class TokensAPI:
    """The paths ``/access/tokens`` and ``/access/tokens/{id}``, and the metadata of a protected resource (RFC 9728)."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def routes(self) -> list[Route]:
        many: dict[str, Handler] = {"GET": self._list, "POST": self._create}
        single: dict[str, Handler] = {"GET": self._show, "DELETE": self._revoke}
        return [
            *self._build_endpoint(many).routes(PATH),
            *self._build_endpoint(single).routes(f"{PATH}/{{id}}"),
            *PathEndpoint({"GET": self._show_metadata}, self._kernel, public=True).routes(METADATA),
        ]

    def _build_endpoint(self, handlers: dict[str, Handler]) -> PathEndpoint:
        return PathEndpoint(handlers, self._kernel, needs=Action.ADMINISTER, explain=_explain)

    async def _list(self, request: HTTPRequest) -> Response:
        """Return all tokens by id, or a page with a link to the next one."""
        limit = min(request.number("limit") or _PAGE_TOKENS, self._kernel.settings.max_page_size, _PAGE_TOKENS)
        tokens = await self._kernel.workers.read(partial(self._page, _read_cursor(request), limit + 1))
        headers = [NO_STORE]
        if len(tokens) > limit:
            headers.append(build_next_link(request.root + PATH, limit=limit, cursor=tokens[limit - 1].id))
        return json_response([describe(token) for token in tokens[:limit]], headers=tuple(headers))

    async def _create(self, request: HTTPRequest) -> Response:
        """Create a token. Only this response contains its text."""
        self._kernel.control.check_closed()
        body = parse_json_body(await request.body(MAX_BYTES), request.subject, max_depth=MAX_DEPTH)
        token_request = read_request(body, values.now())
        _check_narrowing(token_request, request)
        stored, text = await self._kernel.write(lambda session: session.create_token(token_request), request.access)
        headers = (NO_STORE, ("Location", f"{request.root}{PATH}/{stored.id}"))
        return json_response({**describe(stored), "token": text}, status=201, headers=headers)

    async def _show(self, request: HTTPRequest) -> Response:
        token = await self._kernel.workers.read(partial(self._get, _read_id(request)))
        if token is None:
            raise RegistryError("not_found", subject=request.path)
        return json_response(describe(token), headers=(NO_STORE,))

    async def _revoke(self, request: HTTPRequest) -> Response:
        self._kernel.control.check_closed()
        token_id = _read_id(request)
        if not await self._kernel.write(lambda session: session.revoke_token(token_id), request.access):
            raise RegistryError("not_found", subject=request.path)
        return Response(status=204, headers=(NO_STORE,))

    async def _show_metadata(self, request: HTTPRequest) -> Response:
        """Return the metadata by which clients such as ``signalbook login`` find the issuer of tokens for this
        registry."""
        settings = self._kernel.settings
        if not settings.oidc_issuers:
            raise RegistryError("api_not_found", subject=request.path)
        metadata = {
            "resource": request.root,
            "authorization_servers": list(settings.oidc_issuers),
            "bearer_methods_supported": ["header"],
            "signalbook_audience": list(settings.oidc_audience),
            "signalbook_client_id": settings.oidc_client_id,
            "signalbook_scope": settings.oidc_scope,
        }
        return json_response(metadata)

    def _page(self, after: str, limit: int) -> list[StoredToken]:
        with self._kernel.engine.store.read() as transaction:
            return transaction.tokens.page(after, limit)

    def _get(self, id: str) -> StoredToken | None:
        with self._kernel.engine.store.read() as transaction:
            return transaction.tokens.get(id)


def _read_id(request: HTTPRequest) -> str:
    token_id = request.params["id"]
    if not is_id(token_id):
        raise RegistryError("not_found", subject=request.path)
    return token_id


def _read_cursor(request: HTTPRequest) -> str:
    cursor = request.query.get("cursor", "")
    if cursor and not is_id(cursor):
        raise request.wrong('"cursor" is not one that this server gave')
    return cursor


def _check_narrowing(token_request: TokenRequest, request: HTTPRequest) -> None:
    """Check that a token with limited scopes creates no token with more scopes. Raises ``Forbidden``,
    ``InvalidToken``."""
    request.access.require(Action.ADMINISTER, ROOT)
    own_scopes = request.access.identity.scopes
    if own_scopes is not None and (token_request.scopes is None or not own_scopes.issuperset(token_request.scopes)):
        listed = ", ".join(sorted(own_scopes))
        raise InvalidToken([Finding(path="/scopes", rule="value", message=f"your own token may only {listed}")])


def _explain(error: Exception, path: str) -> Exception:
    """Return ``bad_request`` for an invalid request or too many tokens, ``Conflict`` while access is open, and other
    errors unchanged."""
    match error:
        case InvalidToken():
            return RegistryError("bad_request", subject=path, error_detail=str(error), faults=error.faults)
        case PolicyRefused():
            return Conflict(path, str(error))
        case TooManyTokens():
            return RegistryError("bad_request", subject=path, error_detail=str(error))
        case _:
            return error
