"""Read requests: path, query, body (limited in size and time), and the base URL that clients use."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator
from functools import cached_property, lru_cache, partial
from typing import IO, Any, Final, TypeVar
from urllib.parse import parse_qs, parse_qsl

from starlette.requests import Request
from starlette.types import Receive, Scope

from signalbook.access.decisions import Access
from signalbook.api.kernel.responses import decode, write_all
from signalbook.errors import RegistryError
from signalbook.largejson import LARGE, MAX_VALUES, parse_untrusted_json
from signalbook.settings import Settings
from signalbook.values import JSON, JSONError, TooManyValues

T = TypeVar("T")

_MAX_LENGTH_DIGITS: Final = 18
"""The maximum digits of a ``Content-Length``. A longer number is too large, and is not parsed."""
_MAX_LEADING_ZEROS: Final = 99
"""The maximum number of leading zeros of a number, since ``int`` refuses to parse thousands of digits."""
_SLOW_BODY_SECONDS: Final = 0.5
"""The seconds after which a body counts as slow. Then the client's rights are checked again after receiving it."""
_SPOOLED_BYTES: Final = 1 << 20
"""The bytes from which on a body is stored in a file for the process that handles large requests, if there is one."""
HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)
"""The value of a Host header (RFC 9110, 7.2). No http URL has an empty host (RFC 9110, 4.2.1)."""


class HTTPRequest:
    """A request to a fixed path, as handlers get it. ``subject`` is the subject of errors."""

    def __init__(self, scope: Scope, receive: Receive, settings: Settings, subject: str = "") -> None:
        request = Request(scope)
        self.scope = scope
        self.method = request.method
        self.headers = request.headers
        self.query = request.query_params
        self.params: dict[str, str] = request.path_params
        self.path: str = scope["path"]
        self.subject = subject or self.path
        self._receive = receive
        self._settings = settings

    @property
    def access(self) -> Access:
        """The rights of the caller."""
        access: Access = self.scope["access"]
        return access

    @cached_property
    def root(self) -> str:
        """The URL of the registry root."""
        return base_url(self.scope, self._settings)

    async def body(self, limit: int, *, required: bool = True) -> bytes:
        """Return the body. Raises ``missing_body`` if it is empty and ``required``, and the errors of ``read_body``.

        It may have at most ``limit`` bytes and at most the setting ``max_body_bytes``.
        """
        limit = min(limit, self._settings.max_body_bytes)
        timeout = self._settings.body_timeout
        body = await read_body(self.scope, self._receive, self.subject, limit=limit, timeout=timeout)
        if required and not body:
            raise RegistryError("missing_body", subject=self.subject)
        return body

    async def unless_gone(self, running: Coroutine[Any, Any, T], abandon: Callable[[], None]) -> T:
        """Return the result of ``running``. The body has to be read before this call.

        If the client disconnects in the meantime, call ``abandon`` and raise ``Disconnected``.
        """
        task = asyncio.create_task(running)
        gone = asyncio.create_task(_wait_for_disconnect(self._receive))
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                abandon()
                raise Disconnected
            return await task
        finally:
            task.cancel()
            gone.cancel()

    def number(self, name: str, *, digits: int = 18) -> int | None:
        """Return the query parameter ``name``, a whole number from 1, or None if it is missing. Raises
        ``bad_request``."""
        text = self.query.get(name)
        if text is None:
            return None
        number = parse_whole_number(text, digits=digits)
        if number is None:
            raise self.wrong(f'"{name}" takes a whole number from 1, not "{text[:40]}"')
        return number

    def wrong(self, detail: str) -> RegistryError:
        """Return the error ``bad_request`` with ``detail``."""
        return RegistryError("bad_request", subject=self.subject, error_detail=detail)


def parse_form(body: bytes, request: HTTPRequest, *, most: int) -> dict[str, str]:
    """Return the fields of a page's form, at most ``most``. Of several fields with one name, return the first.

    Raises ``bad_request``.
    """
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=most, errors="strict")
    except ValueError:
        raise request.wrong("the body is not the form of this page") from None
    return {name: texts[0] for name, texts in fields.items()}


class Disconnected(Exception):
    """The client disconnected before its request was complete, so no response is needed."""


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class BodyTooLarge(RegistryError):
    """A body is larger than the setting ``max_body_bytes`` allows."""


class LargeBody(Exception):
    """A body is large: it is completely in ``file``, and the process for large requests handles the request."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file = file


async def read_body(scope: Scope, receive: Receive, subject: str, *, limit: int, timeout: float) -> bytes:
    """Return the whole body. Beyond ``limit`` bytes raise ``bad_request``, before the rest is read (R312).

    Also raise ``bad_request`` if the body takes longer than ``timeout`` seconds, or has a Content-Encoding, since it
    would be stored compressed. After a slow body the caller is admitted again. Raise ``LargeBody`` if the process for
    large requests has to handle it.
    """
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"").lstrip(b"0")
    # Refused by the declared length, before any byte of the body is read.
    if declared.isdigit() and (len(declared) > _MAX_LENGTH_DIGITS or int(declared) > limit):
        raise _build_too_large_error(limit, subject)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        detail = "the body has a Content-Encoding; send it without one"
        raise RegistryError("bad_request", subject=subject, error_detail=detail)
    receiving = _receive_body(receive, limit, subject, spool=scope.get("spool", False))
    # Most bodies arrive with their headers. Those need no timeout.
    try:
        waiting = receiving.send(None)
    except StopIteration as done:
        body: bytes | IO[bytes] = done.value
    else:
        body = await _receive_in_time(scope, _StartedCoroutine(receiving, waiting), subject, timeout)
    if isinstance(body, bytes):
        return body
    raise LargeBody(body)


async def _receive_in_time(
    scope: Scope, receiving: _StartedCoroutine, subject: str, timeout: float
) -> bytes | IO[bytes]:
    """Receive a body within ``timeout`` seconds, else raise ``bad_request``. After a slow body, admit the
    caller again."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout):
            body = await receiving
    except TimeoutError:
        detail = f"the body did not arrive within {timeout:g} seconds (setting body_timeout)"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None
    # While a slow body arrived, the token may have expired or the policy may have changed.
    if time.monotonic() - began > _SLOW_BODY_SECONDS and (admit_again := scope.get("admit_again")):
        await admit_again()
    return body


class _StartedCoroutine:
    """A coroutine that was started by ``send``, and the object ``waiting`` that it yielded for the event loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, bytes | IO[bytes]], waiting: Any) -> None:
        self._coroutine = coroutine
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, bytes | IO[bytes]]:
        waiting = self._waiting
        while True:
            try:
                sent = yield waiting
            except BaseException as error:  # raised at the await: the coroutine has to handle it
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, sent)
            try:
                waiting = step()
            except StopIteration as done:
                body: bytes | IO[bytes] = done.value
                return body


async def _receive_body(receive: Receive, limit: int, subject: str, *, spool: bool) -> bytes | IO[bytes]:
    parts, size, more = [], 0, True
    file: IO[bytes] | None = None
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        size += len(part)
        # The received bytes are counted, because the declared length may be missing or wrong.
        if size > limit:
            raise _build_too_large_error(limit, subject)
        parts.append(part)
        more = message.get("more_body", False)
        if spool and size > _SPOOLED_BYTES:
            # Several large bodies at once must not fill the memory. The last user of the file closes it.
            file = file or tempfile.TemporaryFile(prefix="signalbook-", buffering=0)  # noqa: SIM115
            write_all(file, b"".join(parts))
            parts.clear()
    if file is not None:
        return file
    if size <= LARGE:
        return b"".join(parts)
    # Join in a thread: copying 60 MB takes 50 ms, and would delay other requests on the event loop.
    return await asyncio.get_running_loop().run_in_executor(None, b"".join, parts)


def _build_too_large_error(limit: int, subject: str) -> BodyTooLarge:
    detail = f"the body is larger than the {limit} bytes this server takes (setting max_body_bytes)"
    return BodyTooLarge("bad_request", subject=subject, error_detail=detail)


def base_url(scope: Scope, settings: Settings) -> str:
    """Return the base URL without a trailing slash: the setting ``base_url``, or scheme and host of the request.

    An invalid ``Host`` is not used, since it would get into URLs and headers.
    """
    if "base_url" in scope:  # the application computed it before
        url: str = scope["base_url"]
        return url
    if settings.base_url:
        return settings.base_url.rstrip("/")
    return _build_url(scope.get("scheme", "http"), host(scope), scope.get("server"), scope.get("root_path", ""))


def host(scope: Scope) -> bytes:
    """Return the header ``Host``, empty if it is missing."""
    for name, value in scope["headers"]:
        if name == b"host":
            return bytes(value)
    return b""


@lru_cache(maxsize=128)
def _build_url(scheme: str, authority: bytes, server: tuple[str, int | None] | None, path: str) -> str:
    host = authority.decode("latin-1")
    # The host is used in links, so a crafted header must not insert anything else (RFC9110 7.2).
    if not HOST.fullmatch(host):
        host, port = server or ("localhost", None)
        host = f"{host}:{port}" if port else host
    return f"{scheme}://{host}{path}"


def parse_whole_number(text: str, *, digits: int = 18) -> int | None:
    """Return the whole number from 1 in ``text``, with at most ``digits`` digits, or None if it is not such
    a number."""
    significant = text.lstrip("0")
    if not (text.isascii() and text.isdigit() and 0 < len(significant) <= digits):
        return None
    return int(significant) if len(text) - len(significant) <= _MAX_LEADING_ZEROS else None


def raw_path(scope: Scope) -> str:
    """Return the path below the registry's root as it was sent, still percent-encoded, because an id may contain a
    slash."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    text: str = raw.decode("latin-1").partition("?")[0]
    return text.removeprefix(scope.get("root_path", ""))


def query_pairs(query: bytes, subject: str, *, most: int) -> list[tuple[str, str]]:
    """Return the parameters of a query string. Raises ``bad_request`` if it is invalid or has more than ``most``."""
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError:
        detail = f"the query string is not percent-encoded UTF-8 of at most {most} parameters"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None


def decode_header(value: str, name: str, *, subject: str) -> str:
    """Return the decoded text of the header ``name``. Raises ``header_error``."""
    try:
        return decode(value)
    except ValueError as error:
        raise RegistryError("header_error", subject=subject, name=name, error_detail=str(error)) from None


def parse_json_body(body: bytes, subject: str, *, max_depth: int, max_values: int = MAX_VALUES) -> JSON:
    """Return the JSON in a body. Raises ``parsing_data``. Call this in a thread for large bodies, because it takes
    long."""
    try:
        return parse_untrusted_json(body, max_depth=max_depth, max_values=max_values, unique=True)
    except TooManyValues as error:
        detail = f"{error} (setting max_json_values); send it in parts"
        raise RegistryError("parsing_data", subject=subject, error_detail=detail) from None
    except JSONError as error:
        raise RegistryError("parsing_data", subject=subject, error_detail=str(error)) from None
