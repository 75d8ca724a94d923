"""Find the identity of a request: from API tokens, Basic credentials, JWTs, sessions, client certificates or proxy
headers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Protocol

from signalbook.access import sessions, tokens
from signalbook.access.base import Identity, Unauthenticated
from signalbook.access.issuers import MAX_TOKEN, TokenVerifier, VerifiedToken
from signalbook.access.login import LoginClient, check_login
from signalbook.settings import SettingError, Settings
from signalbook.storage.base import StorageError, StorageUnavailable
from signalbook.storage.store import Store
from signalbook.storage.tokens import StoredToken

_LOG: Final = logging.getLogger("signalbook.access")
_MAX_VERIFIED: Final = 10_000
"""The number of verified credentials kept in memory."""
_USED_SECONDS: Final = 60.0
"""The seconds between two writes of the times at which tokens were used."""
_MAX_NAME: Final = 1024
METADATA: Final = "/.well-known/oauth-protected-resource"
"""The path at which a protected resource says who issues tokens for it (RFC 9728)."""
_UNKNOWN: Final = "the API token is unknown or revoked, or its secret is wrong"
_MALFORMED: Final = "the API token is malformed or mistyped: its checksum does not hold"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of a request: an ``Authorization`` header, the secret of a session, or a verified identity."""

    header: bytes = b""
    session: str = ""
    identity: Identity | None = None

    @property
    def key(self) -> bytes:
        """The hash under which the verified credentials are cached."""
        # No header contains a NUL, so a header never has the same key as a session.
        content = b"\0" + self.session.encode("utf-8", "replace") if self.session else self.header
        return hashlib.sha256(content).digest()

    @property
    def claimed(self) -> str:
        """The id of the API token that the request claims to have, not verified; "" if there is none."""
        if self.session:
            return ""
        try:
            match = tokens.TOKEN.fullmatch(_parse_api_token(self.header) or "")
        except Unauthenticated:
            return ""
        return match[1] if match else ""


class _Verified(Protocol):
    """Credentials that were verified."""

    @property
    def identity(self) -> Identity:
        """Return the identity that the credentials prove."""

    def is_valid(self, generation: Hashable, now: float) -> bool:
        """Return True if the credentials are still valid, as far as this process knows.

        ``generation`` is the current generation of the store, and ``now`` the time in seconds since 1970.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownToken:
    """An API token or a session, as it was in one ``generation`` of the store. ``expires`` is in seconds since 1970."""

    identity: Identity
    generation: Hashable
    expires: float

    def is_valid(self, generation: Hashable, now: float) -> bool:
        """Return True if nothing was committed since the check, and it has not expired."""
        # Revoking a token is a commit, on any server, so no process keeps accepting a revoked token.
        return generation == self.generation and now < self.expires


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownJWT:
    """A JWT that was checked with the keys its issuer had. ``until`` is the monotonic time at which the keys expire."""

    identity: Identity
    token: VerifiedToken
    until: float

    def is_valid(self, generation: Hashable, now: float) -> bool:  # noqa: ARG002  it is not in the store
        """Return True if the issuer's keys are unchanged, as far as this process knows, and the JWT has not expired."""
        # When an issuer withdraws a key, it gets a new set of keys. JWTs that were checked with the old set are checked
        # again.
        trusted = self.token.issuer.keys is self.token.keys and time.monotonic() < self.until
        return trusted and now < self.token.expires


def check_authentication(settings: Settings) -> None:
    """Raise ``SettingError`` if a setting about authentication has no usable value."""
    TokenVerifier(settings)
    check_login(settings)
    _read_proxy_headers(settings)
    _parse_networks(settings)


class Authenticator:
    """Authenticates requests. Create one per server process; it is thread-safe. Raises ``SettingError``.

    The first of these decides: the headers of a trusted proxy, ``Authorization``, a session, the client's certificate.
    The certificate is last, because browsers send it without being asked. A trusted proxy's own certificate is ignored,
    because it does not identify the client. ``clock`` returns the seconds since 1970.
    """

    def __init__(self, store: Store, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self.verifier = TokenVerifier(settings)
        self.login = LoginClient(settings, self.verifier)
        self._user, self._groups = _read_proxy_headers(settings)
        self._proxies = _parse_networks(settings)
        proxy_headers = {self._user, self._groups, b"x-forwarded-for"} if self._proxies else set()
        cookies = {b"cookie"} if settings.login != "off" and settings.ui == "on" else set()
        self.headers = frozenset({b"authorization", *cookies, *proxy_headers})
        """The names of the headers that can identify the caller or its address."""
        self._known: OrderedDict[bytes, _Verified] = OrderedDict()
        self._lock = threading.Lock()
        self._trusts = lru_cache(maxsize=1024)(self._is_proxy)
        self.usage = Usage(store)

    def read_credentials(self, scope: Mapping[str, Any]) -> Credentials | None:
        """Return the credentials of a request, or None for an anonymous request. Raises ``Unauthenticated``.

        ``scope`` has ``headers`` (pairs of bytes, names in lower case) and ``client`` (address, port) as in ASGI. Its
        key ``certificate``, if present, is the identity in the client certificate that TLS has verified, and
        ``session_secret`` the secret in the session cookie.
        """
        authorizations = [value for name, value in scope["headers"] if name == b"authorization"]
        if self._proxies:
            client = scope.get("client")
            if client and self._trusts(client[0]):
                proxy_identity = self._read_proxy_identity(scope["headers"])
                if proxy_identity is not None:
                    return Credentials(identity=proxy_identity)
                if not authorizations:
                    return _read_session(scope)
        if not authorizations:
            certificate = Credentials(identity=scope["certificate"]) if "certificate" in scope else None
            return _read_session(scope) or certificate
        if len(authorizations) > 1:
            raise Unauthenticated("there is more than one Authorization header")
        return Credentials(header=authorizations[0])

    def find_verified(self, credentials: Credentials, generation: Hashable) -> Identity | None:
        """Return the identity of a request if it is known without I/O, else None. After None, call ``identify``.

        ``generation`` is the current generation of the store.
        """
        if credentials.identity is not None:
            return credentials.identity
        key = credentials.key
        with self._lock:
            verified = self._known.get(key)
            if verified is None:
                return None
            if not verified.is_valid(generation, self._clock()):
                del self._known[key]
                return None
            self._known.move_to_end(key)
        if verified.identity.token:
            self.usage.note(verified.identity.token)
        return verified.identity

    def identify(self, credentials: Credentials, generation: Hashable) -> Identity:
        """Return the identity of a request. This may read the store or query an issuer.

        ``generation`` is the generation of the store, read before this call. Raises ``Unauthenticated``,
        ``AuthenticationUnavailable``, ``StorageError``.
        """
        if credentials.identity is not None:
            return credentials.identity
        if credentials.session:
            verified = self._verify_session(credentials.session, generation)
        else:
            verified = self._verify(credentials.header, generation)
        with self._lock:
            self._known[credentials.key] = verified
            while len(self._known) > _MAX_VERIFIED:
                self._known.popitem(last=False)
        if verified.identity.token:
            self.usage.note(verified.identity.token)
        return verified.identity

    def build_challenges(self, root: str, error: Unauthenticated | None = None) -> tuple[tuple[str, str], ...]:
        """Return the ``WWW-Authenticate`` headers of a 401 response: the accepted kinds of credentials (RFC 9110
        11.6.1).

        ``root`` is the registry's URL, ``error`` says why credentials were rejected; None if the request had none.
        """
        bearer = ['realm="signalbook"']
        if error is not None:
            text = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else " " for c in str(error))
            bearer += ['error="invalid_token"', f'error_description="{text}"']
        if self.verifier.issuers:
            bearer.append(f'resource_metadata="{root}{METADATA}"')
        basic = 'Basic realm="signalbook", charset="UTF-8"'
        return ("WWW-Authenticate", f"Bearer {', '.join(bearer)}"), ("WWW-Authenticate", basic)

    def _read_proxy_identity(self, headers: Iterable[tuple[bytes, bytes]]) -> Identity | None:
        """Return the identity in the headers of a trusted proxy, or None if the headers name no user."""
        users = [value for name, value in headers if name == self._user]
        if not users:
            return None
        if len(users) > 1:
            raise Unauthenticated(f"there is more than one {self._user.decode()} header")
        lists = [value for name, value in headers if self._groups and name == self._groups]
        groups = (_decode_name(part) for value in lists for part in value.split(b",") if part.strip())
        user = _decode_name(users[0])
        return Identity(subject=user, groups=frozenset(groups)) if user else None

    def _verify(self, header: bytes, generation: Hashable) -> _Verified:
        text = _parse_api_token(header)
        if text is not None:
            return self._verify_api_token(text, generation)
        if not self.verifier.issuers:
            raise Unauthenticated(f"the bearer token is no API token of this server: these begin with {tokens.PREFIX}_")
        verified = self.verifier.verify(_split_authorization(header)[1])
        return _KnownJWT(identity=verified.identity, token=verified, until=verified.issuer.trusted_until)

    def _verify_session(self, secret: str, generation: Hashable) -> _Verified:
        if not sessions.is_secret(secret):
            raise sessions.SessionEnded
        with self._store.read() as transaction:
            stored = transaction.sessions.get(sessions.compute_session_id(secret))
            token = transaction.tokens.get(stored.token) if stored is not None and stored.token else None
        identity = sessions.identity(stored, token, datetime.fromtimestamp(self._clock(), UTC))
        assert stored is not None
        # The operator may have removed this issuer from the settings since.
        if identity.issuer and identity.issuer not in self.verifier.issuers:
            raise sessions.SessionEnded
        ends = stored.expires.timestamp()
        return _KnownToken(
            identity=identity, generation=generation, expires=ends if token is None else min(ends, _expires(token))
        )

    def _verify_api_token(self, text: str, generation: Hashable) -> _KnownToken:
        parts = tokens.split(text)
        if parts is None:
            raise Unauthenticated(_MALFORMED)
        with self._store.read() as transaction:
            stored = transaction.tokens.get(parts[0])
        if not tokens.is_secret_of(stored, parts[1]):
            raise Unauthenticated(_UNKNOWN, token=parts[0])
        assert stored is not None
        expires = _expires(stored)
        if self._clock() >= expires:
            raise Unauthenticated("the API token has expired", token=parts[0])
        return _KnownToken(identity=tokens.identity(stored), generation=generation, expires=expires)

    def find_forwarded_address(self, scope: Mapping[str, Any]) -> str:
        """Return the client address that a trusted proxy reports, or "" if there is no proxy or no valid address."""
        client = scope.get("client")
        if not self._proxies or not client or not self._trusts(client[0]):
            return ""
        values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        hops = [hop.strip() for hop in b",".join(values).decode("latin-1").split(",")]
        # Each proxy appends the address it sees. Everything before the trusted proxies' entries may be forged by the
        # client.
        seen = next((hop for hop in reversed(hops) if not self._trusts(hop)), "")
        return seen if _is_address(seen) else ""

    def _is_proxy(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        unmapped = getattr(address, "ipv4_mapped", None) or address
        return any(unmapped in network for network in self._proxies)


class Usage:
    """Records when tokens were last used, and writes these times to the store in the background."""

    def __init__(self, store: Store, *, seconds: float = _USED_SECONDS) -> None:
        self._store = store
        self._seconds = seconds
        self._noted: dict[str, float] = {}
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def note(self, id: str) -> None:
        """Note that the token ``id`` was used now. The first note starts the background thread."""
        self._noted[id] = time.time()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._stopped.is_set():
                    self._thread = threading.Thread(target=self._run, name="token-usage", daemon=True)
                    self._thread.start()

    def stop(self) -> None:
        """Write the remaining notes and stop the thread."""
        with self._lock:
            self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def write(self) -> None:
        """Write the times noted since the last call."""
        noted, self._noted = self._noted, {}
        if not noted:
            return
        try:
            with self._store.write() as transaction:
                for used, stamp in list(noted.items()):  # a request may still be adding to this dictionary
                    transaction.tokens.put_used(used, datetime.fromtimestamp(stamp, UTC))
        except StorageUnavailable:
            pass  # the store logs it, once
        except StorageError as error:
            _LOG.warning("when API tokens were used cannot be written: %s", error)

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self.write()
        self.write()


def _read_session(scope: Mapping[str, Any]) -> Credentials | None:
    secret = scope.get("session_secret")
    return Credentials(session=secret) if secret else None


def _expires(stored: StoredToken) -> float:
    return float("inf") if stored.expires is None else stored.expires.timestamp()


def _split_authorization(header: bytes) -> tuple[bytes, str]:
    """Return scheme and credentials of an ``Authorization`` header. Raises ``Unauthenticated``."""
    scheme, _, parameter = header.strip().partition(b" ")
    try:
        text = parameter.strip().decode("ascii")
    except UnicodeDecodeError:
        raise Unauthenticated("the Authorization header has other characters than ASCII") from None
    if len(text) > MAX_TOKEN:
        raise Unauthenticated(f"the credentials are longer than {MAX_TOKEN} characters")
    return scheme.lower(), text


def _parse_api_token(header: bytes) -> str | None:
    """Return the API token in an ``Authorization`` header, or None for a bearer token of another kind.

    Raises ``Unauthenticated``.
    """
    scheme, text = _split_authorization(header)
    if scheme == b"basic":
        return _parse_basic(text)
    if scheme != b"bearer":
        raise Unauthenticated("the Authorization header has to be Bearer with a token, or Basic")
    return text if text.startswith(f"{tokens.PREFIX}_") else None


def _parse_basic(text: str) -> str:
    """Return the API token in Basic credentials: the user is its id, the password its secret (RFC 7617)."""
    try:
        user, colon, secret = base64.b64decode(text, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        raise Unauthenticated("the Basic credentials are no base64 of USER:PASSWORD") from None
    if not colon:
        raise Unauthenticated("the Basic credentials have no colon: they are the id and the secret of an API token")
    return f"{tokens.PREFIX}_{user}_{secret}"


def _decode_name(value: bytes) -> str:
    """Return the user or group name in a header of a trusted proxy. Raises ``Unauthenticated``."""
    try:
        name = value.strip().decode("utf-8")
    except UnicodeDecodeError:
        name = "\0"
    if not name.isprintable() or len(name) > _MAX_NAME:
        raise Unauthenticated("the proxy names a user or group that is no printable UTF-8 text")
    return name


def _read_proxy_headers(settings: Settings) -> tuple[bytes, bytes]:
    """Return the names of the headers in which a trusted proxy sends user and groups; empty if they are not
    configured."""
    return (
        _check_header_name(settings.proxy_user_header, "proxy_user_header"),
        _check_header_name(settings.proxy_groups_header, "proxy_groups_header"),
    )


def _check_header_name(text: str, setting: str) -> bytes:
    name = text.lower()
    if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum()) and name:
        raise SettingError(f"{setting}: {text!r} is no name of a header")
    if name in ("authorization", "cookie", "host"):
        raise SettingError(f"{setting}: {text!r} is a header that clients send themselves")
    return name.encode("ascii")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parse_networks(settings: Settings) -> tuple[Network, ...]:
    networks = []
    for text in settings.trusted_proxies:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise SettingError(f"trusted_proxies: {text!r} is no address or network: {error}") from None
    if settings.proxy_groups_header and not settings.proxy_user_header:
        raise SettingError("proxy_groups_header needs proxy_user_header")
    if settings.proxy_user_header and not networks:
        raise SettingError("proxy_user_header needs trusted_proxies: who may name users in that header")
    return tuple(networks)
