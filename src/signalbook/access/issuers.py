"""Verify JSON Web Tokens of OpenID Connect issuers: fetch the issuers' keys, check tokens, and read their claims.

Sources: RFC 7519 (JWT), RFC 8725 (best current practices), RFC 9068 (access tokens), OpenID Connect Discovery 1.0.
PyJWT checks signatures and registered claims. This module decides which key may check which signature.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import jwt

from signalbook.access.base import AuthenticationUnavailable, Identity, Unauthenticated
from signalbook.errors import SignalbookError
from signalbook.settings import SettingError, Settings
from signalbook.uris import is_secure
from signalbook.values import JSON, JSONError, JSONObject, parse_json

_LOG: Final = logging.getLogger("signalbook.access")
_KEY_KINDS: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}
"""The supported algorithms, with the key type and curve of each. Algorithms with a shared secret and ``none`` are
excluded."""
_TOKEN_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
MAX_TOKEN: Final = 16 * 1024
_MAX_JSON_DEPTH: Final = 16
_MAX_KEYS: Final = 100
_MAX_GROUPS: Final = 2000
_MAX_TEXT: Final = 1024
_MAX_LEEWAY: Final = 600.0
_MAX_BYTES: Final = 1 << 20
_MIN_RSA_BITS: Final = 2048
_TIMEOUT_SECONDS: Final = 5.0
_DEADLINE_SECONDS: Final = 15.0
"""The maximum seconds for one response of an issuer, from the first byte to the last."""
_ID_TOKEN_TYPES: Final = frozenset({"jwt", "application/jwt"})
FRESH: Final = 300.0
"""The seconds for which keys are used without fetching them again. A key that the issuer withdrew is accepted that
long."""
STALE: Final = 4 * 3600.0
"""The seconds for which keys are used if the issuer cannot be reached."""
PAUSE: Final = 10.0
"""The minimum seconds between two requests to an issuer, so that tokens with unknown keys cannot cause many
requests."""


class IssuerError(SignalbookError):
    """An issuer cannot be reached, or its response is invalid."""


class KeySet:
    """The keys of an issuer at one time. Raises ``IssuerError`` if ``document`` is not a JSON Web Key Set."""

    def __init__(self, document: JSON) -> None:
        listed = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise IssuerError("its keys are no JSON Web Key Set")
        self.document = document
        self._keys = [key for key in listed[:_MAX_KEYS] if isinstance(key, dict) and _can_verify(key)]
        self._made: dict[tuple[str | None, str], jwt.PyJWK] = {}

    def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key ``kid`` for an ``algorithm``, or None. Without ``kid``, return the only key for
        the algorithm."""
        cached = self._made.get((kid, algorithm))
        if cached is not None:
            return cached
        matches = [key for key in self._keys if _is_key_for(key, kid, algorithm)]
        if len(matches) != 1:
            return None
        try:
            key = jwt.PyJWK(matches[0], algorithm=algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        if getattr(key.key, "key_size", _MIN_RSA_BITS) < _MIN_RSA_BITS and algorithm[:2] in ("RS", "PS"):
            return None
        self._made[kid, algorithm] = key
        return key


def _can_verify(key: JSONObject) -> bool:
    """Return True if a key is a public key for signatures. A key with a private part is rejected, since it was
    published."""
    operations = key.get("key_ops")
    return (
        key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use", "sig") == "sig"
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
        and "d" not in key
    )


def _is_key_for(key: JSONObject, kid: str | None, algorithm: str) -> bool:
    kind, curve = _KEY_KINDS[algorithm]
    return (
        (kid is None or key.get("kid") == kid)
        and key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("alg", algorithm) == algorithm
    )


class Issuer:
    """An issuer and its keys, which are fetched when needed. It is thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: KeySet | None = None
        self._fetched = self._asked = -STALE
        self._problem = ""
        self._lock = threading.Lock()

    def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """Return the key for a signature. Raises ``Unauthenticated`` if the issuer does not have it.

        Raises ``AuthenticationUnavailable`` if the issuer's keys cannot be fetched.
        """
        keys = self._load_keys()
        key = keys.find(kid, algorithm)
        if key is None:
            # The key may be new.
            key = self._refresh(keys).find(kid, algorithm)
        if key is None:
            raise Unauthenticated("the token is signed with a key that its issuer does not have for this algorithm")
        return key

    @property
    def trusted_until(self) -> float:
        """The time (of ``time.monotonic``) until which checks with these keys remain valid."""
        # While the issuer is unreachable, this must not end before the next attempt to fetch keys. Otherwise each
        # request would check its token again, with the same keys.
        return max(self._fetched + FRESH, self._asked + PAUSE)

    def _load_keys(self) -> KeySet:
        keys, age = self.keys, time.monotonic() - self._fetched
        if keys is not None and age < FRESH:
            return keys
        keys = self._refresh(keys)
        if time.monotonic() - self._fetched > STALE:
            raise AuthenticationUnavailable(f"the issuer {self.url} cannot be asked for its keys: try again later")
        return keys

    def _refresh(self, seen: KeySet | None) -> KeySet:
        """Fetch the keys again. Return newer keys than ``seen``, or ``seen`` if it is too early or the fetch failed."""
        # Do not wait for another thread that fetches keys, which may take seconds: forged tokens would block every
        # thread.
        if not self._lock.acquire(blocking=False):
            if seen is None:
                raise AuthenticationUnavailable(f"the issuer {self.url} is being asked for its keys: try again")
            return seen
        try:
            if self.keys is seen and time.monotonic() - self._asked >= PAUSE:
                self._fetch_keys()
            if self.keys is None:
                raise AuthenticationUnavailable(f"the issuer {self.url} cannot be asked for its keys: try again later")
            return self.keys
        finally:
            self._lock.release()

    def _fetch_keys(self) -> None:
        self._asked = time.monotonic()
        try:
            keys = fetch_keys(self.url)
        except IssuerError as error:
            if str(error) != self._problem:
                _LOG.warning("issuer %s: %s", self.url, error)
            self._problem = str(error)
            return
        self._fetched, self._problem = time.monotonic(), ""
        # Keep the same object while the keys are unchanged, so that tokens checked with it stay valid.
        if self.keys is None or self.keys.document != keys.document:
            self.keys = keys


def fetch_keys(issuer: str) -> KeySet:
    """Fetch the current keys of an issuer. Raises ``IssuerError``."""
    with open_http() as http:
        address = discover(http, issuer).get("jwks_uri")
        return KeySet(fetch(http, address, "its jwks_uri"))


def open_http() -> httpx.Client:
    """Return an HTTP client for issuers: it verifies TLS, has a timeout, and follows no redirects."""
    return httpx.Client(timeout=_TIMEOUT_SECONDS, verify=ssl.create_default_context(), follow_redirects=False)


def discover(http: httpx.Client, issuer: str) -> JSONObject:
    """Return the metadata of an issuer (OpenID Connect Discovery 4.3). Raises ``IssuerError``."""
    metadata = fetch(http, f"{issuer.rstrip('/')}/.well-known/openid-configuration", "its discovery document")
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        stated_issuer = metadata.get("issuer") if isinstance(metadata, dict) else None
        raise IssuerError(f"it says that it is {stated_issuer!r}: the setting has to name it exactly so")
    return metadata


def fetch(http: httpx.Client, url: JSON, description: str, *, authorization: str = "") -> JSON:
    """Return the JSON at ``url``, an address of an issuer that error messages call ``description``. Raises
    ``IssuerError``."""
    status, document = request_json(http, "GET", url, description, authorization=authorization)
    if status != httpx.codes.OK:
        raise IssuerError(f"{description} ({url}): it answers {status}")
    return document


def request_json(
    http: httpx.Client,
    method: str,
    url: JSON,
    description: str,
    *,
    authorization: str = "",
    form: Mapping[str, str] | None = None,
) -> tuple[int, JSON]:
    """Return the status and JSON of an issuer's response at ``url``. The JSON is None for an error without JSON.

    ``description`` names the address in error messages. Raises ``IssuerError``.
    """
    if not isinstance(url, str) or not is_secure(url):
        raise IssuerError(f"{description} is not at an https URL")
    headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
    content, status, ends = bytearray(), 0, time.monotonic() + _DEADLINE_SECONDS
    try:
        with http.stream(method, url, headers=headers, data=form) as response:
            status = response.status_code
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _MAX_BYTES:
                    raise IssuerError(f"{description} ({url}) is larger than {_MAX_BYTES} bytes")
                if time.monotonic() > ends:
                    raise IssuerError(f"{description} ({url}) takes longer than {_DEADLINE_SECONDS:g} seconds")
        return status, parse_json(bytes(content))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise IssuerError(f"{description} ({url}): {error or type(error).__name__}") from None
    except JSONError as error:
        if status != httpx.codes.OK:
            return status, None
        raise IssuerError(f"{description} ({url}) is no JSON: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """A token with valid signature and claims. It is valid until ``expires`` (seconds since 1970) while its issuer has
    ``keys``."""

    identity: Identity
    expires: float
    issuer: Issuer
    keys: KeySet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """The header of a token. ``kind`` is its type in lower case."""

    kid: str | None
    algorithm: str
    kind: str


class TokenVerifier:
    """Checks tokens of the issuers that the settings name. Raises ``SettingError``."""

    def __init__(self, settings: Settings) -> None:
        self.issuers = {url: Issuer(url) for url in settings.oidc_issuers}
        self._audience = list(settings.oidc_audience)
        self._algorithms = settings.oidc_algorithms
        self._subject = settings.oidc_subject_claim
        self._groups = settings.oidc_groups_claim
        self._leeway = settings.oidc_leeway
        self._check()

    def _check(self) -> None:
        for url in self.issuers:
            if not is_secure(url):
                raise SettingError(f"oidc_issuers: {url!r} is not an https URL (http only for this machine)")
        if self.issuers and not self._audience:
            raise SettingError(
                "oidc_issuers needs oidc_audience: without it every token that the issuer made for anybody counts here"
            )
        for name in self._algorithms:
            if name not in _KEY_KINDS:
                raise SettingError(f"oidc_algorithms: {name!r} is none of {', '.join(_KEY_KINDS)}")
        if self.issuers and not (self._algorithms and self._subject):
            raise SettingError("oidc_algorithms and oidc_subject_claim must not be empty")
        if not 0 <= self._leeway <= _MAX_LEEWAY:
            raise SettingError(f"oidc_leeway is 0 to {_MAX_LEEWAY:g} seconds, not {self._leeway:g}")

    def verify(self, text: str) -> VerifiedToken:
        """Return the verified content of a token. Raises ``Unauthenticated``, ``AuthenticationUnavailable``."""
        header, issuer = self._read(text)
        claims, keys = self._verify_claims(text, header, issuer, self._audience)
        return VerifiedToken(
            identity=self.identity(claims, issuer),
            expires=float(claims["exp"]) + self._leeway,
            issuer=issuer,
            keys=keys,
        )

    def verify_id_token(self, text: str, *, issuer: str, client: str, nonce: str) -> JSONObject:
        """Return the claims of an ID token that ``issuer`` made for ``client`` and for the login with this ``nonce``.

        Raises ``Unauthenticated``, ``AuthenticationUnavailable`` (OpenID Connect Core 3.1.3.7).
        """
        header, token_issuer = self._read(text)
        if token_issuer.url != issuer:
            raise Unauthenticated("the token's issuer (iss) is not the one at which the login began")
        if header.kind not in _ID_TOKEN_TYPES:
            raise Unauthenticated("the token's type (typ) is not that of an ID token")
        claims, _ = self._verify_claims(text, header, token_issuer, [client])
        audience, party = claims["aud"], claims.get("azp")
        if party != client and (party is not None or (isinstance(audience, list) and len(audience) > 1)):
            raise Unauthenticated("the token was made for another client (azp)")
        token_nonce = claims.get("nonce")
        if not isinstance(token_nonce, str) or not hmac.compare_digest(token_nonce.encode(), nonce.encode()):
            raise Unauthenticated("the token is not of this login (nonce)")
        return claims

    def _verify_claims(
        self, text: str, header: _Header, issuer: Issuer, audience: list[str]
    ) -> tuple[JSONObject, KeySet | None]:
        """Return the claims of a token and the keys it was checked with. Signature, issuer, audience and times are
        checked.

        Raises ``Unauthenticated``, ``AuthenticationUnavailable``.
        """
        key = issuer.find(header.kid, header.algorithm)
        keys = issuer.keys
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[header.algorithm],
                audience=audience,
                issuer=issuer.url,
                leeway=self._leeway,
                options={"require": ["exp", "iss", "aud"], "verify_sub": False},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise Unauthenticated(_explain_error(error)) from None
        return claims, keys

    def _read(self, text: str) -> tuple[_Header, Issuer]:
        """Return the header and issuer that a token claims to have, without verifying them. Raises
        ``Unauthenticated``."""
        parts = text.split(".")
        if len(text) > MAX_TOKEN or len(parts) != 3:
            raise Unauthenticated("the bearer token is neither an API token of this server nor a signed JWT")
        header, claims = _parse_part(parts[0], "header"), _parse_part(parts[1], "claims")
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise Unauthenticated(f"the token's algorithm (alg) is none of {', '.join(self._algorithms)}")
        if "crit" in header:
            raise Unauthenticated("the token has critical extensions (crit), and none is understood here")
        if not isinstance(kind, str) or kind.lower() not in _TOKEN_TYPES:
            raise Unauthenticated("the token's type (typ) is not that of an access token: JWT or at+jwt")
        if kid is not None and not isinstance(kid, str):
            raise Unauthenticated("the token's key id (kid) is no text")
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or issuer not in self.issuers:
            raise Unauthenticated("the token's issuer (iss) is not one that this server trusts")
        return _Header(kid=kid, algorithm=algorithm, kind=kind.lower()), self.issuers[issuer]

    def has_subject_and_groups(self, claims: JSONObject) -> bool:
        """Return True if the claims contain a subject and groups."""
        return claim(claims, self._subject) is not None and claim(claims, self._groups) is not None

    def identity(self, claims: JSONObject, issuer: Issuer) -> Identity:
        """Return the identity in verified claims. Without the claim for groups, the identity has no groups.

        Raises ``Unauthenticated`` if the subject is missing, or if subject or groups are invalid.
        """
        subject, groups = claim(claims, self._subject), claim(claims, self._groups)
        if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_TEXT:
            raise Unauthenticated(f"the token's claim {self._subject} is no subject: a text that is not empty")
        names = [groups] if isinstance(groups, str) else [] if groups is None else groups
        if not isinstance(names, list) or len(names) > _MAX_GROUPS or not all(isinstance(name, str) for name in names):
            raise Unauthenticated(f"the token's claim {self._groups} is no list of at most {_MAX_GROUPS} groups")
        return Identity(subject=subject, groups=frozenset(names), issuer=issuer.url)


def claim(claims: Mapping[str, Any], path: str) -> JSON:
    """Return the claim named ``path`` or, if there is none, the claim at this path with dots; None if it is absent."""
    if path in claims:
        return claims[path]
    value: JSON = dict(claims)
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _parse_part(text: str, part: str) -> JSONObject:
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        members = parse_json(content, max_depth=_MAX_JSON_DEPTH, unique=True)
    except (binascii.Error, ValueError, JSONError):
        members = None
    if not isinstance(members, dict):
        raise Unauthenticated(f"the token's {part} are no JSON object in base64url".replace("header are", "header is"))
    return members


def _explain_error(error: Exception) -> str:
    """Return the reason why a token is invalid, as a message for its sender."""
    match error:
        case jwt.InvalidSignatureError():
            return "the token's signature does not hold"
        case jwt.ExpiredSignatureError():
            return "the token has expired (exp)"
        case jwt.ImmatureSignatureError():
            return "the token is not valid yet (nbf, iat): is a clock wrong?"
        case jwt.InvalidAudienceError():
            return "the token is for another audience (aud) than this server"
        case jwt.MissingRequiredClaimError():
            return f"the token has no claim {error.claim}"
        case _:
            return "the token cannot be read as a signed JWT with the claims iss, aud and exp"
