"""Log in to registries with an OIDC issuer, and store the tokens in a file that only this user can read.

The device flow (RFC 8628) gets the tokens, and refresh tokens (RFC 6749 6) renew them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urljoin, urlsplit

import httpx
import msgspec
from filelock import FileLock

from signalbook.client.responses import (
    BadResponse,
    ClientError,
    Unreachable,
    explain_unreachable,
    require_registry_url,
)
from signalbook.uris import is_secure, without_user
from signalbook.values import JSONError, JSONObject, dump_json, parse_json

METADATA: Final = "/.well-known/oauth-protected-resource"
_DISCOVERY: Final = "/.well-known/openid-configuration"
_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_TIMEOUT_SECONDS: Final = 30.0
_EARLY: Final = 30.0
"""A token is renewed when it expires in less than this number of seconds."""
_MAX_BYTES: Final = 1 << 20
_MAX_WAIT: Final = 1800.0
_INTERVAL: Final = 5.0


class LoginEnded(ClientError):
    """The error for a login that cannot be renewed."""

    def __init__(self, registry: str, reason: str) -> None:
        super().__init__(f"the login for {registry} has ended ({reason}): signalbook login {registry}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedTokens:
    """The tokens that an OIDC issuer gave for a registry.

    ``client`` is the client id, ``endpoint`` the token endpoint that renews the tokens, ``access`` the access token,
    and ``refresh`` the refresh token (``""`` without one). ``expires`` is in seconds since 1970.
    """

    issuer: str
    client: str
    endpoint: str
    access: str
    refresh: str = ""
    expires: float = 0.0

    @classmethod
    def from_answer(cls, answer: JSONObject, *, issuer: str, client: str, endpoint: str, refresh: str = "") -> Self:
        """Read the tokens in the ``answer`` of a token endpoint. ``refresh`` is used if the answer has no new one.

        Raises ``BadResponse`` if there is no access token, or if it is not a JWT.
        """
        access, again, lifetime = (answer.get(name) for name in ("access_token", "refresh_token", "expires_in"))
        if not isinstance(access, str) or not access:
            raise BadResponse(f"{endpoint}: the issuer gave no access token")
        if access.count(".") != 2:
            raise BadResponse(
                f"{endpoint}: the issuer gave an opaque access token, and registries take JWTs: have it issue those "
                "for this client and audience"
            )
        seconds = float(lifetime) if isinstance(lifetime, int | float) and lifetime > 0 else 60.0
        return cls(
            issuer=issuer,
            client=client,
            endpoint=endpoint,
            access=access,
            refresh=again if isinstance(again, str) and again else refresh,
            expires=time.time() + seconds,
        )


class StoredLogin:
    """The stored login for the registry at ``url``, renewed as needed. Several processes may use it at once."""

    def __init__(self, url: str, tokens: IssuedTokens) -> None:
        self._url = url
        self._tokens = tokens

    @classmethod
    def of(cls, url: str) -> Self | None:
        """Return the login for the registry at ``url``, or None if the user is not logged in there.

        Raises ``ClientError`` if the stored logins cannot be read.
        """
        tokens = _read_logins().get(_normalise_url(url))
        return None if tokens is None else cls(url, tokens)

    def token(self) -> str:
        """Return an access token that has not expired.

        Raises ``LoginEnded`` if it cannot be renewed, and other kinds of ``ClientError``.
        """
        if time.time() > self._tokens.expires - _EARLY:
            with _lock_credentials():
                # Read the login again, because another process may have renewed it. A refresh token often works only
                # once.
                stored = _read_logins().get(_normalise_url(self._url))
                if stored is None:
                    raise LoginEnded(self._url, "signed out")
                self._tokens = stored
                if time.time() > stored.expires - _EARLY:
                    self._tokens = self._renew(stored)
                    _write_logins({**_read_logins(), _normalise_url(self._url): self._tokens})
        return self._tokens.access

    def _renew(self, old: IssuedTokens) -> IssuedTokens:
        if not old.refresh:
            raise LoginEnded(self._url, "expired")
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh, "client_id": old.client}
        with _open_http() as http:
            status, answer = _post(http, old.endpoint, form)
        if status != httpx.codes.OK:
            raise LoginEnded(self._url, str(answer.get("error", status))[:100])
        return IssuedTokens.from_answer(
            answer, issuer=old.issuer, client=old.client, endpoint=old.endpoint, refresh=old.refresh
        )


Show = Callable[[str, str, str, str], None]


def log_in(url: str, show: Show, *, issuer: str = "", client: str = "", scope: str = "") -> str:
    """Log this user in to the registry at ``url`` by the device flow, and return the URL of the issuer.

    If ``issuer`` or ``client`` is empty, the registry's metadata names it. ``show`` is called with the issuer, the
    audience of the token (``""`` for the issuer's default), the address that the user has to open in a browser, and the
    code to confirm there. Raises ``ClientError``.
    """
    require_registry_url(url)
    bare = without_user(url).rstrip("/")
    if not is_secure(bare):
        raise ClientError(f"{bare}: tokens are not sent without TLS, but to this machine: use https")
    with _open_http() as http:
        metadata = {} if issuer and client else _get(http, bare + METADATA)
        audience = _choose_audience(metadata, bare) if metadata else ""
        servers = metadata.get("authorization_servers") or [""]
        issuer, client = issuer or str(servers[0]), client or str(metadata.get("signalbook_client_id") or "")
        if not issuer or not client:
            raise ClientError(f"{bare} does not say how to log in: give --issuer and --client-id")
        about = _get(http, issuer.rstrip("/") + _DISCOVERY)
        if about.get("issuer") != issuer:
            raise BadResponse(f"{issuer}: it says that it is another issuer")
        endpoint = _find_endpoint(about, "token_endpoint", issuer)
        form = {"client_id": client, "scope": scope or str(metadata.get("signalbook_scope") or "openid")}
        # RFC 8707: the server that the token is meant for.
        form |= {"resource": audience} if audience else {}
        status, begun = _post(http, _find_endpoint(about, "device_authorization_endpoint", issuer), form)
        if status != httpx.codes.OK:
            raise _make_refusal(issuer, begun, status)
        where = str(begun.get("verification_uri_complete") or begun.get("verification_uri") or "")
        show(issuer, audience, where, str(begun.get("user_code") or ""))
        answer = _poll(http, endpoint, begun, client, issuer)
    tokens = IssuedTokens.from_answer(answer, issuer=issuer, client=client, endpoint=endpoint)
    with _lock_credentials():
        _write_logins({**_read_logins(), _normalise_url(bare): tokens})
    return issuer


def log_out(url: str) -> bool:
    """Delete the login for the registry at ``url``. Return True if there was one.

    If the issuer has a revocation endpoint, the refresh token is revoked there (RFC 7009). Raises ``ClientError``.
    """
    require_registry_url(url)
    with _lock_credentials():
        logins = dict(_read_logins())
        gone = logins.pop(_normalise_url(url), None)
        if gone is not None:
            _write_logins(logins)
    if gone is not None and gone.refresh:
        with suppress(ClientError), _open_http() as http:
            about = _get(http, gone.issuer.rstrip("/") + _DISCOVERY)
            revoke = _find_endpoint(about, "revocation_endpoint", gone.issuer)
            _post(http, revoke, {"token": gone.refresh, "client_id": gone.client})
    return gone is not None


def credentials_file() -> Path:
    """Return the path of the file with the logins, under ``XDG_CONFIG_HOME`` or, by default, ``~/.config``."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "signalbook" / "credentials.json"


def _choose_audience(metadata: JSONObject, registry: str) -> str:
    """Return the first audience in ``metadata`` that is a URL, or ``""`` if there is none.

    Raises ``BadResponse`` if the metadata names another server than ``registry``: a hostile registry could otherwise
    obtain its users' tokens for another server and use them there (RFC 9728 3.3, 7.3).
    """
    resource = str(metadata.get("resource"))
    if _normalise_url(resource) != _normalise_url(registry):
        raise BadResponse(f"{registry} says that it is {resource}: log in to that URL, if you trust it")
    audiences = [
        audience
        for audience in metadata.get("signalbook_audience") or ()
        if isinstance(audience, str) and "://" in audience
    ]
    for audience in audiences:
        if urlsplit(_normalise_url(audience))[:2] != urlsplit(_normalise_url(registry))[:2]:
            raise BadResponse(f"{registry} wants a token for {audience}, which is another server: not logged in")
    return audiences[0] if audiences else ""


def _poll(http: httpx.Client, endpoint: str, begun: JSONObject, client: str, issuer: str) -> JSONObject:
    """Poll the token endpoint until the user has decided, and return its answer (RFC 8628 3.4, 3.5).

    ``begun`` is the answer of the device authorization endpoint. Raises ``ClientError`` if the user declines or does
    not answer in time.
    """
    pause, lifetime = (begun.get(name) for name in ("interval", "expires_in"))
    wait = float(pause) if isinstance(pause, int | float) and 0 < pause < _MAX_WAIT else _INTERVAL
    deadline = time.monotonic() + min(_MAX_WAIT, float(lifetime) if isinstance(lifetime, int | float) else _MAX_WAIT)
    form = {"grant_type": _DEVICE, "device_code": str(begun.get("device_code")), "client_id": client}
    while time.monotonic() < deadline:
        time.sleep(wait)
        status, answer = _post(http, endpoint, form)
        if status == httpx.codes.OK:
            return answer
        match answer.get("error"):
            case "authorization_pending":
                continue
            case "slow_down":
                wait += _INTERVAL
            case _:
                raise _make_refusal(issuer, answer, status)
    raise ClientError(f"{issuer}: nobody confirmed the code in time: try again")


def _make_refusal(issuer: str, answer: JSONObject, status: int) -> ClientError:
    reason = str(answer.get("error_description") or answer.get("error") or f"it answers {status}")[:300]
    return ClientError(f"{issuer}: {''.join(c if c.isprintable() else ' ' for c in reason)}")


def _find_endpoint(about: JSONObject, name: str, issuer: str) -> str:
    endpoint = about.get(name)
    if not isinstance(endpoint, str) or not is_secure(endpoint):
        raise ClientError(
            f"{issuer} has no {name.replace('_', ' ')} to be reached by https: it cannot be used to log in"
        )
    return endpoint


def _open_http() -> httpx.Client:
    return httpx.Client(timeout=_TIMEOUT_SECONDS, follow_redirects=False)


def _get(http: httpx.Client, url: str) -> JSONObject:
    status, answer = _exchange(http, "GET", url, None)
    if status != httpx.codes.OK:
        raise BadResponse(f"{url}: it answers {status}: there is nothing that says how to log in")
    return answer


def _post(http: httpx.Client, url: str, form: Mapping[str, str]) -> tuple[int, JSONObject]:
    return _exchange(http, "POST", url, form)


def _exchange(http: httpx.Client, method: str, url: str, form: Mapping[str, str] | None) -> tuple[int, JSONObject]:
    try:
        response = http.request(method, url, data=form, headers={"Accept": "application/json"})
        answer = parse_json(response.content[:_MAX_BYTES])
    except httpx.HTTPError as error:
        raise Unreachable(explain_unreachable(urljoin(url, "/"), error)) from None
    except httpx.InvalidURL:
        raise BadResponse(f"{url!r} is no URL") from None
    except JSONError:
        answer = {}
    return response.status_code, answer if isinstance(answer, dict) else {}


def _normalise_url(url: str) -> str:
    parts = urlsplit(without_user(url))
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl().rstrip("/")


def _read_logins() -> dict[str, IssuedTokens]:
    path = credentials_file()
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ClientError(f"cannot read {path}: {error.strerror}") from None
    with opened as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise ClientError(f"{path} has secrets and can be read by others: chmod 600 {path}")
        try:
            return msgspec.json.decode(file.read(), type=dict[str, IssuedTokens])
        except (msgspec.MsgspecError, ValueError):
            raise ClientError(f"{path} cannot be read as credentials: delete it and log in again") from None


def _write_logins(logins: Mapping[str, IssuedTokens]) -> None:
    path = credentials_file()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    content = dump_json({name: asdict(tokens) for name, tokens in logins.items()}, indent=2)
    try:
        temporary.unlink(missing_ok=True)
        # Create the file with its final mode, so that no other user can read it at any time.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise ClientError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def _lock_credentials() -> Iterator[None]:
    """Lock the stored logins, so that no other process changes them within this block."""
    folder = credentials_file().parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(folder / "credentials.lock").acquire()
    except OSError as error:
        raise ClientError(f"cannot write {folder}: {error.strerror}") from None
    with lock:
        yield
