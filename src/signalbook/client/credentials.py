"""Find the credentials for a registry, and send them only to the server of that registry."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import httpx

from signalbook.client.login import StoredLogin
from signalbook.client.responses import ClientError
from signalbook.uris import user_of, without_user

VARIABLE: Final = "SIGNALBOOK_TOKEN"
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FILE: Final = "file:"
_MAX_BYTES: Final = 64 * 1024


class ServerAuth(httpx.Auth):
    """Adds ``Authorization`` to requests to the server at ``base_url``, never to requests to other servers.

    ``header`` returns the value of the header for each request, or ``""`` for no header.
    """

    def __init__(self, base_url: str, header: Callable[[], str]) -> None:
        self._origin = _find_origin(httpx.URL(base_url))
        self._header = header

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Authenticate ``request`` if it goes to the server. Raises ``ClientError`` if a secret cannot be read."""
        if _find_origin(request.url) == self._origin and (value := self._header()):
            request.headers["Authorization"] = value
        yield request


def find(base_url: str, token: str | None) -> ServerAuth | None:
    """Return the credentials for the server at ``base_url``, or None if there are none.

    The first source that has credentials is used: the URL, ``token``, the variable ``SIGNALBOOK_TOKEN``, the login of
    this user. If ``token`` is empty, ``SIGNALBOOK_TOKEN`` is skipped.

    A user and password in the URL are sent with Basic authentication (RFC7617). ``https://${NAME}@host`` names an
    environment variable with a token. A token may be ``${NAME}`` or ``file:PATH``, which are read for each request.
    """
    bare, user = without_user(base_url), user_of(base_url)
    if user is not None:
        return ServerAuth(bare, lambda: _of_url(*user))
    if token is None:
        token = os.environ.get(VARIABLE)
    if token:
        secret = token
        return ServerAuth(bare, lambda: _make_bearer(secret))
    login = StoredLogin.of(bare)
    return None if login is None else ServerAuth(bare, lambda: f"Bearer {login.token()}")


def read_secret(text: str) -> str:
    """Return the secret that ``text`` stands for: ``${NAME}`` is an environment variable, ``file:PATH`` a file.

    Any other text is the secret itself. Raises ``ClientError`` if the variable or file has no usable secret.
    """
    match = _REFERENCE.fullmatch(text)
    if match:
        value = os.environ.get(match[1])
        if not value:
            raise ClientError(f"the variable {match[1]} is not set in the environment: it should have a secret")
        return read_secret(value) if value.startswith(_FILE) else value
    if not text.startswith(_FILE):
        return text
    path = Path(text.removeprefix(_FILE))
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES).decode().strip()
    except OSError as error:
        raise ClientError(f"cannot read the secret in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        content = ""
    if not content or not content.isprintable():
        raise ClientError(f"{path} has no secret: one line of text")
    return content


def _of_url(user: str, password: str) -> str:
    if _REFERENCE.fullmatch(user) and not password:
        return _make_bearer(user)
    pair = f"{read_secret(user)}:{read_secret(password)}" if password else f"{user}:"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _make_bearer(token: str) -> str:
    text = read_secret(token).strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ClientError("the token has characters that no token has: was something else copied?")
    return f"Bearer {text}"


def _find_origin(url: httpx.URL) -> tuple[str, str, int | None]:
    default = {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, url.port or default
