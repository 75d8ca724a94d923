"""A server that gives tokens as Google's and Azure's services do, to machines and to who signs in, and checks who asks.

By their documentation: https://cloud.google.com/compute/docs/metadata/querying-metadata,
https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token,
https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token,
https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference and
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.brokers.certificates import Certificates
from tests.brokers.program import with_and_without_tls

PROOF: Final = "proof-of-the-workload-5e20"
"""What a token file, a secret or a header has to say."""
CLIENT: Final = "0b8f6c1e-client"
TENANT: Final = "7d21a9c4-tenant"
REFRESH: Final = {"client_id": CLIENT, "client_secret": PROOF, "refresh_token": "refresh-77aa"}
AUDIENCE: Final = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"
ACCOUNT: Final = "lake@tests.iam.gserviceaccount.com"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_STORAGE: Final = "https://storage.azure.com"
_Answer = tuple[int, Mapping[str, Any]]


@dataclass(slots=True)
class TokenServer:
    """A token server: it counts the requests, and issues tokens that are valid for ``lasting`` seconds. Machines use
    ``port``, other callers TLS.
    """

    port: int = 0
    secure_port: int = 0
    proof: str = PROOF
    lasting: int = 3600
    failing: int = 0
    moved: str = ""
    """Where it sends whoever asks; nowhere if empty."""
    asked: list[str] = field(default_factory=list)
    issued: dict[str, float] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    """What it shows as a store of Azure's, to who has a token."""
    shown: list[str] = field(default_factory=list)
    """What it was shown as such a store."""
    sends_on: bool = False
    """Whether ``blobs`` are where it sends whoever asks for them."""
    certificates: Certificates | None = None

    @property
    def plain(self) -> str:
        """Return the address without TLS."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure(self) -> str:
        """Return the address with TLS."""
        return f"127.0.0.1:{self.secure_port}"

    @contextmanager
    def elsewhere(self) -> Iterator[TokenServer]:
        """Another one."""
        assert self.certificates is not None
        with tokens_given(self.certificates) as other:
            yield other

    def is_valid(self, authorization: str) -> bool:
        """Return True if the server issued the token and it has not expired."""
        return self.issued.get(authorization.removeprefix("Bearer "), 0) > time.time()

    def proves(self, subject: str) -> bool:
        """Return True if the subject is the proof or an AWS request signed with it, which Google forwards to AWS."""
        if not subject.startswith("%7B"):
            return subject == self.proof
        request = json.loads(unquote(subject))
        headers = {header["key"].lower(): header["value"] for header in request["headers"]}
        signed = re.fullmatch(
            rf"AWS4-HMAC-SHA256 Credential={CLIENT}/(\d+)/eu-west-1/sts/aws4_request, SignedHeaders=(\S+), "
            r"Signature=(\w+)",
            headers["authorization"],
        )
        if signed is None or headers["x-goog-cloud-target-resource"] != AUDIENCE:
            return False
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
        url, names = urlsplit(request["url"]), signed[2].split(";")
        canonical = [request["method"], url.path or "/", url.query, *(f"{name}:{headers[name]}" for name in names), ""]
        canonical += [signed[2], hashlib.sha256(b"").hexdigest()]
        scope = f"{signed[1]}/eu-west-1/sts/aws4_request"
        digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        key = f"AWS4{self.proof}".encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{digest}"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key.hex() == signed[3]

    def google(self) -> str:
        """A token that says nothing."""
        return self._issued(f"ya29.{secrets.token_urlsafe(16)}")

    def entra(self) -> str:
        """A token that says for whom it is, and until when."""
        now = int(time.time())
        claims = {"aud": _STORAGE, "iss": f"https://sts.windows.net/{TENANT}/", "iat": now, "nbf": now - 60}
        parts = {"alg": "none"}, {**claims, "exp": now + self.lasting, "jti": secrets.token_hex(8)}
        segments = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
        return self._issued(".".join([*segments, "c2lnbmVk"]))

    def _issued(self, token: str) -> str:
        self.issued[token] = time.time() + self.lasting
        return token

    def get(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> _Answer:
        """Answer the metadata requests of machines."""
        until = {"expires_in": self.lasting, "token_type": "Bearer"}
        if path == "/computeMetadata/v1/instance/service-accounts/default/token":
            if headers.get("metadata-flavor") != "Google":
                return 403, {}
            return 200, {"access_token": self.google(), **until}
        if path == "/":
            return 200, {}
        if path == "/subject":
            return (200, {"jwt": self.proof}) if headers.get("x-proof") == "yes" else (403, {})
        paths = {
            "/metadata/identity/oauth2/token": ("metadata", "true"),
            "/msi/token": ("x-identity-header", self.proof),
        }
        if path not in paths:
            return 404, {}
        header, value = paths[path]
        right = headers.get(header) == value and query.get("resource") == _STORAGE and "api-version" in query
        if not right or query.get("client_id", CLIENT) != CLIENT:
            return 400, {"error": "invalid_request", "error_description": f"shown was {headers.get(header)}"}
        ends = str(int(time.time()) + self.lasting)
        return 200, {"access_token": self.entra(), **until, "expires_on": ends, "resource": _STORAGE}

    def post(self, path: str, form: Mapping[str, str], body: bytes, authorization: str) -> _Answer:
        """Answer the requests of callers that sign in."""
        until = {"expires_in": self.lasting, "token_type": "Bearer"}
        if path == f"/{TENANT}/oauth2/v2.0/token":
            expected = {"client_id": CLIENT, "scope": f"{_STORAGE}/.default", "grant_type": "client_credentials"}
            kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            secret = form.get("client_secret") or (
                form.get("client_assertion_type") == kind and form["client_assertion"]
            )
            if not expected.items() <= form.items() or secret != self.proof:
                description = f"AADSTS7000215: Invalid client secret provided: {secret}.\r\nTrace ID: 1"
                return 401, {"error": "invalid_client", "error_description": description}
            return 200, {"access_token": self.entra(), **until}
        if path in ("/o/oauth2/token", "/token"):
            right = {**REFRESH, "client_secret": self.proof, "grant_type": "refresh_token"}.items() <= form.items()
            return (200, {"access_token": self.google(), **until}) if right else (400, {"error": "invalid_grant"})
        if path == "/v1/token":
            expected = {"audience": AUDIENCE, "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange"}
            if not expected.items() <= form.items() or not self.proves(form.get("subject_token", "")):
                return 400, {"error": "invalid_grant", "error_description": f"shown was {form.get('subject_token')}"}
            issued = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
            return 200, {"access_token": self.google(), **until, **issued}
        if path == "/v1/oauthtoken":
            secret = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            right = secret == f"{CLIENT}:{self.proof}" and form.get("refresh_token") == REFRESH["refresh_token"]
            return (200, {"access_token": self.google(), **until}) if right else (400, {"error": "invalid_grant"})
        if path == f"/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken":
            if not self.is_valid(authorization) or json.loads(body)["scope"] != [_SCOPE]:
                return 403, {"error": {"code": 403, "status": "PERMISSION_DENIED"}}
            ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lasting))
            return 200, {"accessToken": self.google(), "expireTime": ends}
        return 404, {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    tokens: TokenServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path in self.tokens.blobs:
            self._blob(self.tokens.blobs[url.path])
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._reply(lambda: self.tokens.get(url.path, dict(parse_qsl(url.query)), headers))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        form = dict(parse_qsl(body.decode(errors="replace")))
        self._reply(lambda: self.tokens.post(self.path, form, body, self.headers.get("authorization", "")))

    def do_CONNECT(self) -> None:
        """Accept the request as a proxy for every host, since no host name can be chosen for the server."""
        self.tokens.asked.append(f"CONNECT {self.path}")
        self.send_response(200)
        self.end_headers()
        with socket.create_connection(("127.0.0.1", self.tokens.secure_port)) as there:
            threading.Thread(target=_pump, args=(there, self.connection), daemon=True).start()
            _pump(self.connection, there)
        self.close_connection = True

    def _reply(self, answer: Callable[[], _Answer]) -> None:
        self.tokens.asked.append(f"{self.command} {urlsplit(self.path).path}")
        if self.tokens.failing:
            self.tokens.failing -= 1
            self._say(503, {})
        elif self.tokens.moved:
            self._say(307, {}, location=self.tokens.moved)
        else:
            self._say(*answer())

    def _say(self, status: int, fields: Mapping[str, Any], **headers: str) -> None:
        content = json.dumps(fields).encode()
        self.send_response(status)
        flavour = {"metadata-flavor": "Google"} if self.headers.get("metadata-flavor") else {}
        for name, value in {"content-length": str(len(content)), **flavour, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _blob(self, content: bytes) -> None:
        authorization = self.headers.get("authorization", "")
        self.tokens.shown.append(authorization)
        status, about = 200, {"etag": '"1"', "last-modified": formatdate(usegmt=True)}
        if self.tokens.sends_on:
            status, about, content = 307, {"location": content.decode()}, b""
        elif not self.tokens.is_valid(authorization):
            status, content = 401, b"<Error><Code>InvalidAuthenticationInfo</Code></Error>"
        self.send_response(status)
        for name, value in {**about, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for sock in (source, sink):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def tokens_given(certificates: Certificates) -> Iterator[TokenServer]:
    """Run a token server until the end of the block."""
    server = TokenServer(certificates=certificates)
    handler = type("Handler", (_Handler,), {"tokens": server})
    with with_and_without_tls(handler, certificates) as (server.port, server.secure_port):
        yield server
