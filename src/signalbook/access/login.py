"""Log in at an issuer with the authorization code flow with PKCE, as one of the issuer's clients.

Sources: OpenID Connect Core 1.0 (3.1), RFC 7636 (PKCE), RFC 9207 (issuer of a response), RFC 9700 (best current
practices), OpenID Connect RP-Initiated Logout 1.0. The state of a login attempt is kept in the browser, encrypted with
a key of this server. So beginning logins never makes the server store anything.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeGuard
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec

from signalbook.access.base import AuthenticationUnavailable, Unauthenticated
from signalbook.access.issuers import (
    FRESH,
    PAUSE,
    STALE,
    IssuerError,
    TokenVerifier,
    discover,
    fetch,
    open_http,
    request_json,
)
from signalbook.access.sealing import seal, unseal
from signalbook.access.sessions import LoggedIn
from signalbook.errors import SignalbookError
from signalbook.settings import SettingError, Settings
from signalbook.uris import is_secure
from signalbook.values import JSON, JSONObject, dump_json

ATTEMPT_SECONDS: Final = 600
"""The seconds within which a person has to log in at the issuer."""
MAX_HOURS: Final = 24.0 * 366
_LOGIN_CHOICES: Final = ("on", "issuer", "tokens", "off")
_FILE: Final = "file:"
_RANDOM_BYTES: Final = 32
_MAX_SHOWN_CHARS: Final = 200
_MAX_CODE: Final = 4096
_NAME_CLAIMS: Final = ("name", "preferred_username", "email")
"""Claims that may contain a person's display name. The first usable claim is taken."""
_ABOUT: Final = b"signalbook login"


class LoginFailed(SignalbookError):
    """A login failed. The message says why, for the person who tried to log in."""


class AnotherLogin(LoginFailed):
    """A response does not belong to the login that this browser began. That login may still succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """A login that was begun: the values its response has to contain, and the path ``back`` to go to afterwards.

    ``expires`` is in seconds since 1970.
    """

    state: str
    nonce: str
    verifier: str
    back: str
    expires: float

    def sealed(self, key: bytes) -> str:
        """Return the attempt sealed for the browser, which can neither read nor change it."""
        return seal(key, dump_json(asdict(self)), _ABOUT)

    @classmethod
    def opened(cls, sealed: str, key: bytes) -> LoginAttempt | None:
        """Return the attempt that was sealed with ``key``, or None for any other text."""
        content = unseal(key, sealed, _ABOUT)
        try:
            return None if content is None else msgspec.json.decode(content, type=cls)
        except msgspec.MsgspecError:  # of a server of another version
            return None


def check_login(settings: Settings) -> None:
    """Raise ``SettingError`` for a setting of logins that has no usable value."""
    if settings.login not in _LOGIN_CHOICES:
        raise SettingError(f"login is one of {', '.join(_LOGIN_CHOICES)}, not {settings.login!r}")
    if not 0 < settings.session_hours <= MAX_HOURS:
        raise SettingError(f"session_hours is more than 0 and at most {MAX_HOURS:g}, not {settings.session_hours:g}")
    if settings.login_issuer and settings.login_issuer not in settings.oidc_issuers:
        raise SettingError(f"login_issuer: {settings.login_issuer!r} is none of oidc_issuers")
    if settings.login_client_id and not settings.oidc_issuers:
        raise SettingError("login_client_id needs oidc_issuers: at which issuer people log in")
    if settings.login == "issuer" and not settings.login_client_id:
        raise SettingError("login is issuer, which needs login_client_id")
    if settings.login_client_id and "openid" not in settings.login_scope.split():
        raise SettingError("login_scope has to have openid: without it issuers give no ID token")
    _read_secret(settings.login_client_secret)


class LoginClient:
    """This server as a client of the issuer at which people log in. It is thread-safe. Raises ``SettingError``.

    ``issuer`` is empty if people do not log in at an issuer.
    """

    def __init__(self, settings: Settings, verifier: TokenVerifier) -> None:
        check_login(settings)
        self._settings = settings
        self._verifier = verifier
        self._id = settings.login_client_id
        uses_issuer = self._id and settings.login in ("on", "issuer")
        self.issuer = (settings.login_issuer or settings.oidc_issuers[0]) if uses_issuer else ""
        self._known: tuple[float, JSONObject] | None = None
        self._failed: tuple[float, str] | None = None
        self._lock = threading.Lock()

    def begin(self, callback: str, back: str) -> tuple[str, LoginAttempt]:
        """Begin a login.

        Return the URL to send the browser to, and the attempt to store in the browser. The issuer sends the browser
        back to ``callback``; ``back`` is the path to show after the login. Raises ``AuthenticationUnavailable``.
        """
        state, nonce, verifier = (secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._id,
            "redirect_uri": callback,
            "scope": self._settings.login_scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        where = _with_query(self._find_endpoint("authorization_endpoint"), query)
        expires = time.time() + ATTEMPT_SECONDS
        return where, LoginAttempt(state=state, nonce=nonce, verifier=verifier, back=back, expires=expires)

    def finish(self, attempt: LoginAttempt, answer: Mapping[str, str], callback: str) -> LoggedIn:
        """Return the person who logged in, from the issuer's response ``answer`` to ``attempt``.

        ``callback`` is the same as for ``begin``. Raises ``LoginFailed`` (``AnotherLogin``), ``Unauthenticated``,
        ``AuthenticationUnavailable``.
        """
        if not hmac.compare_digest(answer.get("state", "").encode("utf-8", "replace"), attempt.state.encode()):
            raise AnotherLogin("the answer is of another login: it was begun in another tab, or not by you")
        if time.time() > attempt.expires:
            raise LoginFailed(f"it took longer than {ATTEMPT_SECONDS // 60} minutes")
        metadata = self._read_metadata()
        # RFC 9207 2.4: a response from another issuer contains that issuer's code, which must not be sent to this
        # issuer.
        issuer = answer.get(
            "iss", "" if metadata.get("authorization_response_iss_parameter_supported") else self.issuer
        )
        if issuer != self.issuer:
            raise LoginFailed("the answer is not of the issuer at which the login began")
        if "error" in answer:
            raise LoginFailed(_format_refusal(answer))
        code = answer.get("code", "")
        if not 0 < len(code) <= _MAX_CODE:
            raise LoginFailed("the issuer's answer has no code")
        return self._redeem(attempt, code, callback)

    def faults(self) -> tuple[str, ...]:
        """Return messages about everything in the issuer's metadata that prevents logins; empty if logins work.

        Raises ``AuthenticationUnavailable``.
        """
        metadata = self._read_metadata()
        endpoints = ("authorization_endpoint", "token_endpoint")
        problems = [f"it has no {name} at an https URL" for name in endpoints if not _is_endpoint(metadata.get(name))]
        if not _supports(metadata, "response_types_supported", "code"):
            problems.append("it does not take the code flow (response_types_supported)")
        if not _supports(metadata, "code_challenge_methods_supported", "S256"):
            problems.append("it does not take PKCE with S256 (code_challenge_methods_supported)")
        for scope in self._settings.login_scope.split():
            if not _supports(metadata, "scopes_supported", scope):
                problems.append(f"it does not know the scope {scope}")
        groups = self._settings.oidc_groups_claim
        if "userinfo_endpoint" not in metadata and not _supports(metadata, "claims_supported", groups):
            problems.append(
                f"it has no UserInfo endpoint and no claim {groups}: nobody logs in there while the policy names groups"
            )
        return tuple(problems)

    def logout_url(self, hint: str, back: str) -> str:
        """Return the URL at which the issuer ends its own session and returns to ``back``, or "" if it has no such URL.

        ``hint`` is the ID token of the login, or "". Raises ``AuthenticationUnavailable``.
        """
        endpoint = self._read_metadata().get("end_session_endpoint")
        if not _is_endpoint(endpoint):
            return ""
        query = {"client_id": self._id, "post_logout_redirect_uri": back}
        return _with_query(endpoint, query | ({"id_token_hint": hint} if hint else {}))

    def _redeem(self, attempt: LoginAttempt, code: str, callback: str) -> LoggedIn:
        """Redeem ``code`` at the issuer and return the person it was issued for."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "code_verifier": attempt.verifier,
        }
        with _open_http(self.issuer) as http:
            authorization, form = self._authenticate(form)
            endpoint = self._find_endpoint("token_endpoint")
            status, granted = request_json(
                http, "POST", endpoint, "its token endpoint", authorization=authorization, form=form
            )
            if status != httpx.codes.OK or not isinstance(granted, dict):
                raise LoginFailed(
                    _format_refusal(granted if isinstance(granted, dict) else {"error": f"it answers {status}"})
                )
            token = granted.get("id_token")
            if not isinstance(token, str) or not token:
                raise LoginFailed("the issuer gave no ID token: is login_scope right?")
            claims = self._verifier.verify_id_token(token, issuer=self.issuer, client=self._id, nonce=attempt.nonce)
            completed = self._complete_claims(http, claims, granted)
        return LoggedIn(
            identity=self._verifier.identity(completed, self._verifier.issuers[self.issuer]),
            displayname=_find_displayname(completed),
            hint=token if token.isascii() else "",
            groupless=completed is claims and not self._verifier.has_subject_and_groups(claims),
        )

    def _authenticate(self, form: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Return the ``Authorization`` header and the form for a request authenticated as this client (RFC
        6749 2.3.1)."""
        secret = _read_secret(self._settings.login_client_secret)
        if not secret:
            return "", {**form, "client_id": self._id}
        methods = self._read_metadata().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if isinstance(methods, list) and "client_secret_basic" not in methods:
            return "", {**form, "client_id": self._id, "client_secret": secret}
        pair = f"{quote_plus(self._id)}:{quote_plus(secret)}".encode("ascii")
        return f"Basic {base64.b64encode(pair).decode('ascii')}", form

    def _complete_claims(self, http: httpx.Client, claims: JSONObject, granted: JSONObject) -> JSONObject:
        """Return the claims, completed from the UserInfo endpoint if the ID token lacks subject or groups (Core 5.3).

        If the issuer has no such endpoint, the claims are returned as they are. The policy decides whether they
        suffice.
        """
        token, endpoint = granted.get("access_token"), self._read_metadata().get("userinfo_endpoint")
        if self._verifier.has_subject_and_groups(claims) or endpoint is None:
            return claims
        # Nobody may log in with fewer groups than assigned, since rules may deny actions to groups.
        if not isinstance(token, str) or not token.isascii():
            raise LoginFailed("the issuer gave no access token for its userinfo, and its ID token does not say all")
        more = fetch(http, endpoint, "its userinfo_endpoint", authorization=f"Bearer {token}")
        if not isinstance(more, dict) or more.get("sub") != claims.get("sub"):
            raise Unauthenticated("the issuer's userinfo is of somebody else than its ID token")
        return {**more, **claims}

    def _find_endpoint(self, name: str) -> str:
        endpoint = self._read_metadata().get(name)
        if not _is_endpoint(endpoint):
            raise AuthenticationUnavailable(f"the issuer {self.issuer} has no {name} at an https URL")
        return endpoint

    def _read_metadata(self) -> JSONObject:
        """Return the issuer's metadata, cached for five minutes."""
        cached = self._known
        if cached is not None and time.monotonic() - cached[0] < FRESH:
            return cached[1]
        with self._lock:
            if self._known is not cached and self._known is not None:
                return self._known[1]
            try:
                metadata = self._fetch_metadata()
            except AuthenticationUnavailable:
                if cached is not None and time.monotonic() - cached[0] < STALE:
                    return cached[1]
                raise
            self._known = (time.monotonic(), metadata)
            return metadata

    def _fetch_metadata(self) -> JSONObject:
        """Read the issuer's metadata, unless the last attempt failed a moment ago.

        Anybody can begin logins, and each login would wait for an issuer that does not respond, one after the other.
        """
        if self._failed is not None and time.monotonic() - self._failed[0] < PAUSE:
            raise AuthenticationUnavailable(self._failed[1])
        try:
            with _open_http(self.issuer) as http:
                return discover(http, self.issuer)
        except AuthenticationUnavailable as error:
            self._failed = (time.monotonic(), str(error))
            raise


@contextmanager
def _open_http(issuer: str) -> Iterator[httpx.Client]:
    """Yield an HTTP client for the issuer. Errors of the issuer are raised as ``AuthenticationUnavailable``."""
    try:
        with open_http() as http:
            yield http
    except IssuerError as error:
        raise AuthenticationUnavailable(f"the issuer {issuer} cannot be asked: {error}") from None


def _is_endpoint(url: JSON) -> TypeGuard[str]:
    return isinstance(url, str) and is_secure(url)


def _supports(metadata: JSONObject, name: str, value: str) -> bool:
    """Return True if an issuer supports ``value``. An issuer that publishes no list is assumed to support it."""
    listed = metadata.get(name)
    return not isinstance(listed, list) or value in listed


def _read_secret(text: str) -> str:
    """Return the secret in ``text``, or in the file that ``text`` names. Raises ``SettingError``."""
    path = _parse_secret_path(text)
    if path is None:
        return text
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"login_client_secret: cannot read {path}: {error}") from None
    if not secret:
        raise SettingError(f"login_client_secret: {path} is empty")
    return secret


def find_secret_file(settings: Settings) -> Path | None:
    """Return the path of the file with the client's secret, or None if the secret is not in a file."""
    return _parse_secret_path(settings.login_client_secret)


def _parse_secret_path(text: str) -> Path | None:
    return Path(text.removeprefix(_FILE)) if text.startswith(_FILE) else None


def _with_query(url: str, query: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    return parts._replace(query="&".join(filter(None, (parts.query, urlencode(query))))).geturl()


def _format_refusal(answer: Mapping[str, JSON]) -> str:
    """Return a message with the issuer's own reason for a refusal, shortened and printable."""
    words = ": ".join(str(answer[name]) for name in ("error", "error_description") if answer.get(name))
    printable = "".join(character if character.isprintable() else " " for character in words[:_MAX_SHOWN_CHARS])
    return f"the issuer refused it ({printable})"


def _find_displayname(claims: JSONObject) -> str:
    for name in _NAME_CLAIMS:
        displayname = claims.get(name)
        if isinstance(displayname, str) and 0 < len(displayname) <= _MAX_SHOWN_CHARS and displayname.isprintable():
            return displayname
    return ""
