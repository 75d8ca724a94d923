"""JWT: which hold and which do not, keys that come and go, and issuers that are away."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.access.issuer import AUDIENCE, EC_KEY, ED_KEY, RSA_KEY, FakeIssuer, fake_issuer, jwk, raw_token

from signalbook.access import issuers
from signalbook.access.authentication import Authenticator, Credentials
from signalbook.access.base import AuthenticationUnavailable, Identity, Unauthenticated
from signalbook.access.issuers import TokenVerifier
from signalbook.settings import Settings
from signalbook.storage.store import Store

OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
NOW = int(time.time())


@pytest.fixture(scope="module")
def shared_issuer() -> Iterator[FakeIssuer]:
    with fake_issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(shared_issuer: FakeIssuer) -> FakeIssuer:
    shared_issuer.__init__(shared_issuer.url)  # type: ignore[misc]
    return shared_issuer


def settings(issuer: FakeIssuer, **more: Any) -> Settings:
    return Settings(**{"oidc_issuers": (issuer.url,), "oidc_audience": (AUDIENCE,), **more})


@pytest.fixture
def verifier(issuer: FakeIssuer) -> TokenVerifier:
    return TokenVerifier(settings(issuer))


def refused(verifier: TokenVerifier, token: str) -> str:
    """Return the error message for an invalid token."""
    with pytest.raises(Unauthenticated) as error:
        verifier.verify(token)
    assert token[-40:] not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA_KEY, "RS256", "r1"), (EC_KEY, "ES256", "e1"), (ED_KEY, "EdDSA", "d1"), (EC_KEY, "ES256", None)],
)
def test_valid_token_is_accepted(
    issuer: FakeIssuer, verifier: TokenVerifier, key: Any, algorithm: str, kid: str
) -> None:
    verified = verifier.verify(issuer.token(key, algorithm, kid, groups=["a", "b"]))
    assert verified.identity == Identity(subject="ann", groups=frozenset("ab"), issuer=issuer.url)
    assert verified.expires == pytest.approx(time.time() + 330, abs=60)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 3000}, "expired"),
        ({"exp": None}, "no claim exp"),
        ({"exp": "soon"}, "cannot be read"),
        ({"exp": 1e400}, "claims are no JSON"),
        ({"nbf": NOW + 300_000}, "not valid yet"),
        ({"nbf": "x"}, "cannot be read"),
        ({"iat": NOW + 300_000}, "not valid yet"),
        ({"iat": []}, "cannot be read"),
        ({"aud": "other"}, "audience"),
        ({"aud": ["other", "another"]}, "audience"),
        ({"aud": None}, "no claim aud"),
        ({"aud": {"registry": 1}}, "audience"),
        ({"aud": []}, "no claim aud"),
        ({"iss": "https://other.example"}, "not one that this server trusts"),
        ({"iss": None}, "not one that this server trusts"),
        ({"iss": "x" * 9000}, "not one that this server trusts"),
        ({"sub": None}, "no subject"),
        ({"sub": ""}, "no subject"),
        ({"sub": 7}, "no subject"),
        ({"sub": "x" * 1025}, "no subject"),
        ({"groups": 7}, "no list"),
        ({"groups": ["a", 7]}, "no list"),
        ({"groups": {"a": 1}}, "no list"),
        ({"groups": ["g"] * 2001}, "no list"),
    ],
)
def test_wrong_claims_are_rejected(
    issuer: FakeIssuer, verifier: TokenVerifier, claims: dict[str, Any], reason: str
) -> None:
    assert reason in refused(verifier, issuer.token(**claims))


def test_clocks_may_differ_a_little(issuer: FakeIssuer) -> None:
    now = time.time()
    token = issuer.token(exp=now - 5, iat=now - 100)
    assert TokenVerifier(settings(issuer, oidc_leeway=600.0)).verify(token)
    early = issuer.token(exp=now + 900, iat=now + 300, nbf=now + 300)
    assert TokenVerifier(settings(issuer, oidc_leeway=600.0)).verify(early)
    strict = TokenVerifier(settings(issuer, oidc_leeway=0.0))
    assert "expired" in refused(strict, token)
    assert "not valid yet" in refused(strict, early)


def test_one_matching_audience_is_enough(issuer: FakeIssuer) -> None:
    assert TokenVerifier(settings(issuer, oidc_audience=("a", "b"))).verify(issuer.token(aud=["x", "b"]))


@pytest.mark.parametrize(
    ("path", "claims", "groups"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["a", "b"]}}, "ab"),
        ("https://x.example/groups", {"https://x.example/groups": ["a"]}, "a"),
        ("realm_access.roles", {"realm_access": ["roles"]}, ""),
        ("groups", {"groups": "a"}, "a"),
        ("groups", {}, ""),
    ],
)
def test_path_of_the_groups_claim_is_configurable(
    issuer: FakeIssuer, path: str, claims: dict[str, Any], groups: str
) -> None:
    verifier = TokenVerifier(settings(issuer, oidc_groups_claim=path, oidc_subject_claim="sub"))
    assert verifier.verify(issuer.token(**claims)).identity.groups == frozenset(groups)


def test_subject_claim_is_configurable(issuer: FakeIssuer) -> None:
    verifier = TokenVerifier(settings(issuer, oidc_subject_claim="email"))
    assert verifier.verify(issuer.token(email="ann@x.example")).identity.subject == "ann@x.example"
    assert "no subject" in refused(verifier, issuer.token())


# Forged


def public_pem() -> bytes:
    return RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def with_hmac(issuer: FakeIssuer, secret: bytes, algorithm: str = "HS256") -> str:
    unsigned = raw_token({"alg": algorithm, "typ": "JWT", "kid": "r1"}, issuer.claims())[:-1]
    mac = hmac.digest(secret, unsigned.encode(), hashlib.sha256)
    return f"{unsigned}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS256", "HS384", "RS1", "ES256K", 7, None])
def test_insecure_algorithms_are_rejected(issuer: FakeIssuer, verifier: TokenVerifier, algorithm: Any) -> None:
    for signature in (b"", b"x" * 256):
        token = raw_token({"alg": algorithm, "kid": "r1"}, issuer.claims(), signature)
        assert "algorithm" in refused(verifier, token)
    assert issuer.asked == []


def test_public_key_is_not_accepted_as_a_secret(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    """HMAC with the public key, the confusion of algorithms that libraries fell for."""
    document = json.dumps(issuer.keys[0]).encode()
    for secret in (public_pem(), document, b""):
        assert "algorithm" in refused(verifier, with_hmac(issuer, secret))
        assert "signature" in refused(verifier, with_hmac(issuer, secret, "RS256"))


def test_shared_secret_among_the_keys_is_ignored(issuer: FakeIssuer) -> None:
    issuer.keys.append({"kty": "oct", "kid": "r1", "k": "c2VjcmV0"})
    issuer.keys.append({"kty": "oct", "kid": "o1", "k": "c2VjcmV0"})
    verifier = TokenVerifier(settings(issuer))
    assert verifier.verify(issuer.token())
    assert "algorithm" in refused(verifier, with_hmac(issuer, b"secret"))


@pytest.mark.parametrize("kid", ["r1", "x", "../../etc/passwd", "r1' OR '1'='1", "", "x" * 4000, None])
def test_token_signed_with_another_key_is_rejected(
    issuer: FakeIssuer, verifier: TokenVerifier, kid: str | None
) -> None:
    message = refused(verifier, issuer.token(OTHER_RSA, kid=kid))
    assert "signature" in message or "key that its issuer does not have" in message


def test_key_in_the_token_is_ignored(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    evil = f"{issuer.url}/evil"
    for headers in ({"jwk": jwk(OTHER_RSA, "r1")}, {"jku": evil}, {"x5u": evil}, {"x5c": ["MII"]}):
        assert "signature" in refused(verifier, issuer.token(OTHER_RSA, headers=headers))
    assert set(issuer.asked) == {"/.well-known/openid-configuration", "/jwks"}


def test_a_key_fits_its_algorithm_alone(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    assert "does not have" in refused(verifier, issuer.token(RSA_KEY, "PS256", "r1"))  # the key says RS256
    assert "does not have" in refused(verifier, issuer.token(EC_KEY, "ES256", "r1"))
    assert "does not have" in refused(verifier, issuer.token(RSA_KEY, "RS256", "e1"))


@pytest.mark.parametrize(
    "more",
    [{"use": "enc"}, {"key_ops": ["encrypt"]}, {"key_ops": "verify"}, {"d": "AQAB"}, {"alg": "RS512"}, {"n": "AQAB"},
     {"n": 7}, {"kid": 7}, {"crv": "P-384", "kty": "EC"}],
)  # fmt: skip
def test_unusable_keys_are_ignored(issuer: FakeIssuer, more: dict[str, Any]) -> None:
    issuer.keys = [jwk(RSA_KEY, "r1") | more, "x", None]  # type: ignore[list-item]
    assert "does not have" in refused(TokenVerifier(settings(issuer)), issuer.token())


def test_short_keys_and_other_curves(issuer: FakeIssuer) -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    curve = ec.generate_private_key(ec.SECP384R1())
    issuer.keys = [jwk(short, "s"), jwk(curve, "c"), {**jwk(curve, "f"), "crv": "P-256"}]
    verifier = TokenVerifier(settings(issuer))
    assert "does not have" in refused(verifier, raw_token({"alg": "RS256", "kid": "s"}, issuer.claims(), b"x" * 128))
    for kid in ("c", "f"):
        assert "does not have" in refused(verifier, issuer.token(EC_KEY, "ES256", kid))


def test_two_keys_with_one_id_are_ignored(issuer: FakeIssuer) -> None:
    issuer.keys = [jwk(RSA_KEY, "r1"), jwk(OTHER_RSA, "r1")]
    assert "does not have" in refused(TokenVerifier(settings(issuer)), issuer.token())


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"alg": "RS256", "crit": ["b64"], "b64": False}, "critical"),
        ({"alg": "RS256", "crit": []}, "critical"),
        ({"alg": "RS256", "typ": "logout+jwt"}, "type"),
        ({"alg": "RS256", "typ": 7}, "type"),
        ({"alg": "RS256", "kid": 7}, "key id"),
        ([], "header"),
        (b"{", "header"),
        (b"[" * 5000, "header"),
        (b'{"alg":"RS256","alg":"none"}', "header"),
        (b"\xff", "header"),
    ],
)
def test_invalid_token_headers_are_rejected(
    issuer: FakeIssuer, verifier: TokenVerifier, header: Any, reason: str
) -> None:
    assert reason in refused(verifier, raw_token(header, issuer.claims(), b"x"))
    assert issuer.asked == []


@pytest.mark.parametrize("claims", [b"{", [], b"[" * 5000, b'{"iss":"a","iss":"b"}', b""])
def test_invalid_claims_are_rejected(verifier: TokenVerifier, claims: Any) -> None:
    assert "claims" in refused(verifier, raw_token({"alg": "RS256", "kid": "r1"}, claims, b"x"))


@pytest.mark.parametrize("token", ["x", "a.b", "a.b.c.d.e", "...", "a.b.c" + "x" * 17000, "!.!.!"])
def test_malformed_token_is_rejected(verifier: TokenVerifier, token: str) -> None:
    assert refused(verifier, token)


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt", "AT+JWT"])
def test_types_of_access_tokens(issuer: FakeIssuer, verifier: TokenVerifier, kind: str) -> None:
    assert verifier.verify(issuer.token(headers={"typ": kind}))


def test_claims_are_checked_after_the_signature(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    forged = issuer.token(OTHER_RSA, exp=1, aud="x", sub="")
    assert refused(verifier, forged) == "the token's signature does not hold"


def test_tokens_of_another_issuer_with_a_trusted_name(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    """The keys of another issuer are not accepted for the trusted issuer, nor for a name that resembles it."""
    with fake_issuer() as other:
        other.keys = [jwk(OTHER_RSA, "r1")]
        assert "signature" in refused(verifier, other.token(OTHER_RSA, iss=issuer.url))
        assert "trusts" in refused(verifier, other.token(OTHER_RSA))
        assert other.asked == []
        both = TokenVerifier(settings(issuer, oidc_issuers=(issuer.url, other.url)))
        assert "signature" in refused(both, other.token(OTHER_RSA, iss=issuer.url))
        assert both.verify(other.token(OTHER_RSA)).identity.issuer == other.url
    assert "trusts" in refused(verifier, issuer.token(iss=issuer.url + "/"))


# Keys that come and go


def test_keys_are_fetched_once(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    for _ in range(3):
        verifier.verify(issuer.token())
    assert issuer.asked == ["/.well-known/openid-configuration", "/jwks"]


def test_unknown_keys_cause_few_requests_to_the_issuer(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    verifier.verify(issuer.token())
    for number in range(20):
        refused(verifier, issuer.token(kid=f"new{number}"))
    assert issuer.asked.count("/jwks") == 1


def test_a_new_key_is_found(issuer: FakeIssuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier.verify(issuer.token())
    issuer.keys.append(jwk(OTHER_RSA, "r2"))
    assert "does not have" in refused(verifier, issuer.token(OTHER_RSA, kid="r2"))  # asked a moment ago
    monkeypatch.setattr(issuers, "PAUSE", 0.0)
    assert verifier.verify(issuer.token(OTHER_RSA, kid="r2"))
    assert issuer.asked.count("/jwks") == 2


def test_withdrawn_key_invalidates_verified_tokens(
    issuer: FakeIssuer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = Authenticator(store, settings(issuer))
    old = Credentials(header=b"Bearer " + issuer.token().encode())
    assert authenticator.find_verified(old, 1) is None
    assert authenticator.identify(old, 1).subject == "ann"
    cached = authenticator.find_verified(old, 2)  # commits do not matter
    assert cached is not None
    assert cached.issuer == issuer.url
    monkeypatch.setattr(issuers, "PAUSE", 0.0)
    monkeypatch.setattr(issuers, "FRESH", 0.0)
    issuer.keys = [jwk(OTHER_RSA, "r2")]
    new = Credentials(header=b"Bearer " + issuer.token(OTHER_RSA, kid="r2").encode())
    assert authenticator.identify(new, 1).subject == "ann"
    assert authenticator.find_verified(old, 1) is None
    with pytest.raises(Unauthenticated, match="does not have"):
        authenticator.identify(old, 1)


def test_verified_token_expires_in_the_cache(issuer: FakeIssuer, store: Store) -> None:
    began = int(time.time())
    now = [float(began)]
    authenticator = Authenticator(store, settings(issuer, oidc_leeway=10.0), clock=lambda: now[0])
    credentials = Credentials(header=b"Bearer " + issuer.token(exp=began + 1000).encode())
    assert authenticator.identify(credentials, 1)
    for now[0], holds in ((began + 1009.0, True), (began + 1010.0, False)):
        assert (authenticator.find_verified(credentials, 1) is not None) == holds


def test_issuer_unavailable_at_the_start_is_retried(issuer: FakeIssuer, verifier: TokenVerifier) -> None:
    """The error blames the issuer, not the client, and the issuer is not called with every request."""
    issuer.away = True
    for _ in range(5):
        with pytest.raises(AuthenticationUnavailable, match="try again"):
            verifier.verify(issuer.token())
    assert len(issuer.asked) == 1


def test_known_keys_are_used_while_the_issuer_is_unavailable(
    issuer: FakeIssuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier.verify(issuer.token())
    issuer.away = True
    monkeypatch.setattr(issuers, "FRESH", 0.0)
    monkeypatch.setattr(issuers, "PAUSE", 0.0)
    assert verifier.verify(issuer.token())
    monkeypatch.setattr(issuers, "STALE", 0.0)
    with pytest.raises(AuthenticationUnavailable):
        verifier.verify(issuer.token())
    issuer.away = False
    monkeypatch.setattr(issuers, "STALE", 100.0)
    assert verifier.verify(issuer.token())


@contextmanager
def held_up(issuer: FakeIssuer, ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a block while a thread waits for an answer of the issuer, which comes only after the block."""
    monkeypatch.setattr(issuers, "_TIMEOUT_SECONDS", 300.0)
    before = len(issuer.asked)
    issuer.answers.clear()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            while len(issuer.asked) == before:
                assert not asking.done()
                time.sleep(0.01)
            yield
            assert not asking.done()
        finally:
            issuer.answers.set()
        asking.result()


def test_verification_with_known_keys_does_not_wait_for_the_issuer(
    issuer: FakeIssuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier.verify(issuer.token())
    monkeypatch.setattr(issuers, "PAUSE", 0.0)
    with held_up(issuer, lambda: refused(verifier, issuer.token(kid="new")), monkeypatch):
        assert verifier.verify(issuer.token())
        refused(verifier, issuer.token(kid="another"))


def test_verification_fails_fast_while_keys_are_being_fetched(
    issuer: FakeIssuer, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forged tokens would hold up every thread of the server while an issuer hangs."""
    token = issuer.token()
    with (
        held_up(issuer, lambda: verifier.verify(token), monkeypatch),
        pytest.raises(AuthenticationUnavailable, match="try again"),
    ):
        verifier.verify(token)
    assert verifier.verify(token)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"jwks_uri": "http://keys.example/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"jwks_uri": "http://127.0.0.1:1/"},
        {"jwks_uri": "https://["},
    ],
)
def test_invalid_issuer_metadata_is_rejected(
    issuer: FakeIssuer, verifier: TokenVerifier, metadata: dict[str, Any]
) -> None:
    issuer.metadata |= metadata
    with pytest.raises(AuthenticationUnavailable):
        verifier.verify(issuer.token())
    assert "/jwks" not in issuer.asked


def test_invalid_key_set_is_rejected(
    issuer: FakeIssuer, verifier: TokenVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.metadata["jwks_uri"] = f"{issuer.url}/.well-known/openid-configuration"
    with pytest.raises(AuthenticationUnavailable):
        verifier.verify(issuer.token())
    assert caplog.text.count("no JSON Web Key Set") == 1
