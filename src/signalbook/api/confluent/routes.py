"""The Confluent-compatible API at its mounts: routes, reading of requests, and error responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from starlette.routing import Route
from starlette.types import Receive, Scope

from signalbook.access.base import Forbidden, Unauthenticated
from signalbook.api.cncf import is_mutable
from signalbook.api.confluent import association_changes, associations, listing, queries, registration, rights, settings
from signalbook.api.confluent.requests import CONTENT_TYPE, ConfluentRequest, answer, parse_path
from signalbook.api.confluent.rights import Right
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.kernel.caching import RequestHeaders
from signalbook.api.kernel.errors import NO_STORE, build_problem_response
from signalbook.api.kernel.requests import BodyTooLarge, base_url, query_pairs, raw_path, read_body
from signalbook.api.kernel.responses import Response, Sendable, build_options_response
from signalbook.api.kernel.routing import CORRELATION, EntityAPI, Kernel
from signalbook.confluent import errors
from signalbook.confluent.errors import ConfluentError
from signalbook.confluent.naming import GROUPS, SCHEMAS, list_schema_xids, parse_subject
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.largejson import LARGE
from signalbook.storage.base import StorageBusy, StorageError
from signalbook.values import digest
from signalbook.xid import Xid

MOUNTS: Final = ("/compat/confluent", "/apis/ccompat/v7", "/apis/ccompat/v8")
_MOST_PARAMETERS: Final = 1000
_NOT_ALLOWED: Final = 405
_MAX_CACHED_BYTES: Final = 1 << 16
"""The size of the largest request body for which the response is cached."""
_ACCEPTED: Final = ("application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry+json", "application/json")
_SENT: Final = frozenset({*_ACCEPTED, "application/octet-stream", ""})
_ANY_TYPES: Final = ("*/*", "application/*")

Reads = Callable[[View, ConfluentRequest], Response]
Known = Callable[[ConfluentRequest, Subjects], Response | None]
Writes = Callable[[Session, ConfluentRequest, Subjects], Response]
Rights = Callable[[Subjects, ConfluentRequest], Iterable[Right]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An operation that reads."""

    handler: Reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """An operation that writes, unless ``known`` returns the response already. ``rights`` are checked before both.

    Without ``rights`` the handler checks the rights, because only it finds out which subjects it writes. The audit log
    gets changes of entities from the engine, and all other changes from ``SubjectWriter``.
    """

    rights: Rights | None
    handler: Writes
    known: Known | None = None

    def check_rights(self, subjects: Subjects, request: ConfluentRequest) -> None:
        """Raise ``Forbidden`` unless the caller has the rights, whether the subjects exist or not."""
        for right in () if self.rights is None else self.rights(subjects, request):
            right.require(request.access)


Operation = Read | Write


def _build_read(handler: Reads) -> Read:
    return Read(handler=handler)


def _write(rights: Rights | None, handler: Writes, find_known: Known | None = None) -> Write:
    return Write(rights=rights, handler=handler, known=find_known)


_CONFIG: Final[dict[str, Operation]] = {
    "GET": _build_read(settings.show_config),
    "PUT": _write(rights.list_setting_rights, settings.put_config),
    "DELETE": _write(rights.list_setting_rights, settings.delete_config),
}
_MODE: Final[dict[str, Operation]] = {
    "GET": _build_read(settings.show_mode),
    "PUT": _write(rights.list_setting_rights, settings.put_mode),
    "DELETE": _write(rights.list_setting_rights, settings.delete_mode),
}
ROUTES: Final[dict[tuple[str, ...], dict[str, Operation]]] = {
    (): {"GET": _build_read(queries.show_liveness), "POST": _build_read(queries.show_liveness)},
    ("contexts",): {"GET": _build_read(queries.list_contexts)},
    ("contexts", "{}"): {"DELETE": _write(rights.list_context_deletion_rights, registration.delete_context)},
    ("subjects",): {"GET": _build_read(listing.list_subjects)},
    ("subjects", "{}"): {
        "POST": _build_read(registration.look_up),
        "DELETE": _write(rights.list_deletion_rights, registration.delete_subject),
    },
    ("subjects", "{}", "versions"): {
        "GET": _build_read(queries.list_versions),
        "POST": _write(rights.list_register_rights, registration.register, registration.find_known_version),
    },
    ("subjects", "{}", "versions", "{}"): {
        "GET": _build_read(queries.show_version),
        "DELETE": _write(rights.list_deletion_rights, registration.delete_version),
    },
    ("subjects", "{}", "versions", "{}", "schema"): {"GET": _build_read(queries.show_version_text)},
    ("subjects", "{}", "versions", "{}", "referencedby"): {"GET": _build_read(queries.list_referrers)},
    ("subjects", "{}", "versions", "{}", "tags"): {"POST": _write(rights.list_register_rights, registration.tag)},
    ("subjects", "{}", "metadata"): {"GET": _build_read(queries.find_latest_with_metadata)},
    ("schemas",): {"GET": _build_read(listing.list_schemas)},
    ("schemas", "types"): {"GET": _build_read(queries.list_types)},
    ("schemas", "ids", "{}"): {"GET": _build_read(queries.show_schema)},
    ("schemas", "ids", "{}", "schema"): {"GET": _build_read(queries.show_schema_text)},
    ("schemas", "ids", "{}", "subjects"): {"GET": _build_read(queries.list_subjects_with_id)},
    ("schemas", "ids", "{}", "versions"): {"GET": _build_read(queries.list_versions_with_id)},
    ("schemas", "guids", "{}"): {"GET": _build_read(queries.show_guid)},
    ("schemas", "guids", "{}", "ids"): {"GET": _build_read(queries.list_ids_of_guid)},
    ("compatibility", "subjects", "{}", "versions"): {"POST": _build_read(registration.compare)},
    ("compatibility", "subjects", "{}", "versions", "{}"): {"POST": _build_read(registration.compare)},
    ("associations",): {"POST": _write(None, association_changes.create)},
    ("associations:batchGet",): {"POST": _build_read(associations.batch_get)},
    ("associations:batchMutate",): {"POST": _write(None, association_changes.batch_mutate)},
    ("associations", "subjects", "{}"): {"GET": _build_read(associations.of_subject)},
    ("associations", "resources", "{}"): {
        "GET": _build_read(associations.of_resource),
        "PUT": _write(None, association_changes.upsert),
        "DELETE": _write(None, association_changes.delete),
    },
    ("associations", "resources", "{}", "{}"): {"GET": _build_read(associations.of_named)},
    ("config",): _CONFIG,
    ("config", "{}"): _CONFIG,
    ("mode",): _MODE,
    ("mode", "{}"): _MODE,
    ("v1", "metadata", "id"): {"GET": _build_read(queries.show_cluster)},
    ("v1", "metadata", "version"): {"GET": _build_read(queries.release)},
    ("v1", "metadata", "deployment"): {"GET": _build_read(queries.show_deployment)},
}


def find_route(words: tuple[str, ...]) -> tuple[dict[str, Operation], tuple[str, ...]]:
    """Return the operations of a path by method, and the values for its ``{}``. Raises 404."""
    if words in ROUTES and "{}" not in words:
        return ROUTES[words], ()
    for template, methods in ROUTES.items():
        if len(template) == len(words) and all(a in ("{}", b) for a, b in zip(template, words, strict=True)):
            return methods, tuple(b for a, b in zip(template, words, strict=True) if a == "{}")
    raise errors.not_found()


def routes(kernel: Kernel) -> list[Route]:
    """Return the routes of the API at its mounts."""
    apis = [(mount, ConfluentAPI(kernel, mount)) for mount in MOUNTS]
    return [route for mount, api in apis for route in (Route(f"{mount}/{{path:any}}", api), Route(mount, api))]


def mount(scope: Scope) -> None:
    """Route a request at the root of a port to the API. Its other mounts are available as well."""
    if not scope["path"].startswith(MOUNTS):
        scope["path"] = f"{MOUNTS[0]}{scope['path']}"
        scope["raw_path"] = MOUNTS[0].encode("ascii") + scope["raw_path"]


class ConfluentAPI(EntityAPI[ConfluentRequest]):
    """The API that Kafka clients use."""

    writes = frozenset({"POST", "PUT", "DELETE"})
    holds = True

    def __init__(self, kernel: Kernel, mount: str) -> None:
        super().__init__(kernel)
        self._mount = mount

    def request(self, scope: Scope, body: bytes) -> ConfluentRequest:
        text = raw_path(scope)
        path = parse_path(text.removeprefix(self._mount), self.kernel.settings.confluent_group)
        pairs = tuple(query_pairs(scope["query_string"], text, most=_MOST_PARAMETERS))
        return ConfluentRequest(
            method="GET" if scope["method"] == "HEAD" else scope["method"],
            subject=text,
            path=path,
            names=find_route(path.words)[1],
            query=dict(pairs),
            pairs=pairs,
            raw_headers=RequestHeaders(scope["headers"]),
            body=body,
            root=base_url(scope, self.kernel.settings),
            settings=self.kernel.settings,
            access=scope["access"],
        )

    async def respond(self, scope: Scope, receive: Receive) -> Sendable:
        """Return the response like every API. Reads sent by POST are also cached."""
        _check_types(scope)
        if scope["method"] != "POST":
            return await super().respond(scope, receive)
        settings = self.kernel.settings
        limit, timeout = settings.max_body_bytes, settings.body_timeout
        body = await read_body(scope, receive, raw_path(scope), limit=limit, timeout=timeout)
        # The same request has the same response as long as nothing is written.
        kernel = self.kernel
        path = (scope["path"], scope.get("raw_path"), scope["query_string"])
        key = (base_url(scope, settings), *path, digest(body), scope["access"].key)
        generation = await kernel.freshness.now() if kernel.generation is None else kernel.generation()
        response = kernel.cache.get(key, generation, scope["headers"])
        if response is not None:
            scope["repeatable"] = generation, body
            return response
        large = len(body) > LARGE
        request = await self.prepare(self.request(scope, body), large=large)
        operation = self._find_operation(request)
        write = operation if isinstance(operation, Write) else None
        # If a commit is running, the write has to wait anyway. Then it costs less to check for a known response in the
        # write itself.
        shared = write is not None and kernel.commits.busy and len(body) <= registration.QUICK
        if write is None or (write.known is not None and not shared):
            response = await self._try_answer(request, operation)
        if response is None and write is not None:
            about = self.about(request)
            response = await kernel.commit(partial(self._commit, request=request), alone=large, about=about)
            if write.known is None or any(name == CORRELATION for name, _ in response.headers):
                return response
        if response is not None and len(body) <= _MAX_CACHED_BYTES:
            read = request.raw_headers.names_read
            kernel.cache.put(key, generation, response, scope["headers"], names_read=read)
        return response or answer({})

    def about(self, request: ConfluentRequest) -> tuple[Xid, ...]:
        """Return the xids that the schema of the subject may have."""
        if not request.names or request.path.words[0] != "subjects":
            return ()
        default = request.settings.confluent_group
        return list_schema_xids(parse_subject(request.names[0], request.context, default), default)

    async def _try_answer(self, request: ConfluentRequest, operation: Operation) -> Response | None:
        """Return the response if no write is needed, else None. Small requests run on the event loop, because a thread
        would cost more than the work."""
        quick = self.kernel.direct and len(request.body) <= registration.QUICK and isinstance(operation, Write)
        if quick and b'"references"' not in request.body:
            return self._read_answer(request, operation)
        return await self.kernel.workers.read(partial(self._read_answer, request, operation))

    def _read_answer(self, request: ConfluentRequest, operation: Operation) -> Response | None:
        with self.kernel.engine.reading(request.access) as view:
            self.check(view, request)
            if isinstance(operation, Read):
                return _set_accepted_type(operation.handler(view, request), request.raw_headers)
            subjects = queries.subjects_of(view, request)
            operation.check_rights(subjects, request)
            response = None if operation.known is None else operation.known(request, subjects)
            return None if response is None else _set_accepted_type(response, request.raw_headers)

    def _find_operation(self, request: ConfluentRequest) -> Operation:
        methods, _ = find_route(request.path.words)
        if request.method not in methods:
            raise errors.not_allowed()
        return methods[request.method]

    def check(self, view: View, request: ConfluentRequest) -> None:
        """Raise an error unless the path supports the method, the model has schemas, and the registry is writable for a
        write."""
        operation = None if request.method == "OPTIONS" else self._find_operation(request)
        groups = view.model.groups.get(GROUPS)
        kind = groups.resources.get(SCHEMAS) if groups is not None else None
        if kind is None or not kind.hasdocument:
            raise ConfluentError(404, "the model of this registry has no schemas")
        if isinstance(operation, Write) and not is_mutable(view):
            raise errors.not_permitted("this registry is read-only")

    def options(self, view: View, request: ConfluentRequest) -> Response:  # noqa: ARG002
        """Return the response to OPTIONS: the methods of a path."""
        return build_options_response(_list_allowed(find_route(request.path.words)[0]))

    def read(self, view: View, request: ConfluentRequest) -> Response:
        """Return the response to GET."""
        operation = self._find_operation(request)
        if not isinstance(operation, Read):
            raise errors.not_allowed()
        return _set_accepted_type(operation.handler(view, request), request.raw_headers)

    def write(self, session: Session, request: ConfluentRequest) -> Response:
        """Execute a write, if the caller has the rights for it, and return the response."""
        operation = self._find_operation(request)
        if not isinstance(operation, Write):
            raise errors.not_allowed()
        subjects = queries.subjects_of(session.view, request)
        operation.check_rights(subjects, request)
        return _set_accepted_type(operation.handler(session, request, subjects), request.raw_headers)

    def is_point_read(self, request: ConfluentRequest) -> bool:
        """Return True if a request is about one schema."""
        return len(request.path.words) > 2

    def failed(self, error: Exception, scope: Scope) -> Response:
        """Return an error in the form and media type that clients expect."""
        response = (
            error.response if isinstance(error, association_changes.Undone) else self._build_failure(error, scope)
        )
        return _set_accepted_type(response, RequestHeaders(scope["headers"]))

    def _build_failure(self, error: Exception, scope: Scope) -> Response:
        confluent_error = _as_confluent(error)
        if confluent_error is not None:
            response = _build_error_response(confluent_error)
            if confluent_error.code != _NOT_ALLOWED:
                return response
            path = parse_path(raw_path(scope).removeprefix(self._mount))
            allowed = ", ".join(_list_allowed(find_route(path.words)[0]))
            return replace(response, headers=(*response.headers, ("Allow", allowed)))
        # Other errors: use the kernel's text and headers. The kernel logs failures of the server.
        error_response = build_problem_response(error, raw_path(scope))
        headers = tuple(header for header in error_response.headers if header[0] != "Content-Type")
        problem = json.loads(error_response.body)
        status = 422 if error_response.status == 400 else error_response.status
        response = _build_error_response(ConfluentError(status, problem.get("detail") or problem.get("title") or ""))
        return replace(response, headers=(response.headers[0], *headers))


def _set_accepted_type(response: Response, headers: RequestHeaders) -> Response:
    """Return a response with the media type that a request with these headers accepts."""
    accepted = _choose_media_type(",".join(headers.values("accept")) or "*/*") or CONTENT_TYPE
    typed_headers = tuple((name, accepted if value == CONTENT_TYPE else value) for name, value in response.headers)
    return replace(response, headers=(*typed_headers, ("Vary", "Accept")))


def _list_allowed(methods: Collection[str]) -> tuple[str, ...]:
    return (*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS")


def _as_confluent(error: Exception) -> ConfluentError | None:
    match error:
        case ConfluentError():
            return error
        case Unauthenticated():
            return ConfluentError(401, str(error))
        case Forbidden():
            return ConfluentError(403, str(error))
        case StorageBusy():
            return errors.timed_out(error.shown)
        case StorageError():
            return errors.store_error(error.shown)
        case BodyTooLarge():
            return errors.too_large(str(error))
        case RegistryError() if error.code == "too_large":
            return errors.too_large(str(error))
        case RegistryError() if error.code in ("not_found", "api_not_found"):
            return errors.not_found()
    return None


def _build_error_response(error: ConfluentError) -> Response:
    return replace(answer(error.to_json(), status=error.status), headers=(("Content-Type", CONTENT_TYPE), NO_STORE))


def _check_types(scope: Scope) -> None:
    """Raise 406 and 415 for unsupported media types."""
    for name, value in scope["headers"]:
        if name == b"accept" and _choose_media_type(value.decode("latin-1")) is None:
            raise ConfluentError(406, "HTTP 406 Not Acceptable")
        if name == b"content-type" and not _is_read(value):
            raise ConfluentError(415, "HTTP 415 Unsupported Media Type")


@lru_cache(maxsize=64)
def _choose_media_type(accept: str) -> str | None:
    """Return the first type of ``_ACCEPTED`` that an ``Accept`` header lists, or None if it accepts no such type.

    If the header lists none of them but accepts any type, return ``CONTENT_TYPE``.
    """
    accepted = {part.partition(";")[0].strip() for part in accept.lower().split(",")}
    return next(filter(accepted.__contains__, _ACCEPTED), None if accepted.isdisjoint(_ANY_TYPES) else CONTENT_TYPE)


@lru_cache(maxsize=64)
def _is_read(contenttype: bytes) -> bool:
    return contenttype.decode("latin-1").partition(";")[0].strip().lower() in _SENT
