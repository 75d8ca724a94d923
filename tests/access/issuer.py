"""An issuer of our own for tests: it answers as one, can be away, and signs whatever it is asked to."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.serving import serving_answers

AUDIENCE: Final = "registry"
RSA_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY: Final = ec.generate_private_key(ec.SECP256R1())
ED_KEY: Final = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    """The public part of a key."""
    algorithm: Any = (
        jwt.algorithms.RSAAlgorithm
        if isinstance(key, rsa.RSAPrivateKey)
        else jwt.algorithms.ECAlgorithm
        if isinstance(key, ec.EllipticCurvePrivateKey)
        else jwt.algorithms.OKPAlgorithm
    )
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}


class FakeIssuer:
    """A fake OpenID Connect issuer at ``url``. It publishes ``keys`` and lists the requested paths in ``asked``; while
    ``away`` is set it responds 503. The token endpoint responds with ``granted`` and records the requests in
    ``posted``. GET requests wait until ``answers`` is set.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = [jwk(RSA_KEY, "r1", use="sig", alg="RS256"), jwk(EC_KEY, "e1", use="sig"), jwk(ED_KEY, "d1")]
        self.asked: list[str] = []
        self.away = False
        self.metadata: dict[str, Any] = {
            "issuer": url,
            "jwks_uri": f"{url}/jwks",
            "authorization_endpoint": f"{url}/auth?tenant=a",
            "token_endpoint": f"{url}/token",
        }
        self.granted: tuple[int, Any] = (400, {"error": "invalid_grant"})
        self.userinfo: dict[str, Any] = {}
        self.posted: list[tuple[str, dict[str, str]]] = []
        self.answers = threading.Event()
        self.answers.set()

    def claims(self, **more: Any) -> dict[str, Any]:
        """Return the claims of a valid token; None removes a claim."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300, **more}
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self, key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "r1", headers: Any = None, **claims: Any
    ) -> str:
        """A token, a good one unless something is said."""
        head = {**({} if kid is None else {"kid": kid}), **(headers or {})}
        return jwt.encode(self.claims(**claims), key, algorithm=algorithm, headers=head)

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        assert self.answers.wait(300)
        if self.away:
            return 503, b"away"
        documents: dict[str, Any] = {
            "/.well-known/openid-configuration": self.metadata,
            "/jwks": {"keys": self.keys},
            "/userinfo": self.userinfo,
        }
        return (200, json.dumps(documents[path]).encode()) if path in documents else (404, b"")


def raw_token(header: Any, claims: Any, signature: bytes = b"") -> str:
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims, signature)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@contextmanager
def fake_issuer() -> Iterator[FakeIssuer]:
    def answer(request: BaseHTTPRequestHandler, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        if request.command == "GET":
            status, body = issuer.answer(request.path)
            return status, {}, body
        issuer.posted.append((request.headers.get("Authorization", ""), dict(parse_qsl(sent.decode()))))
        status, granted = issuer.granted
        return status, {}, granted if isinstance(granted, bytes) else json.dumps(granted).encode()

    with serving_answers(answer) as url:
        issuer = FakeIssuer(url)
        yield issuer
