"""A server that gives temporary keys, as AWS does to containers, and by TLS for web identities.

By their documentation: https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html and
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.brokers.certificates import Certificates
from tests.brokers.program import with_and_without_tls
from tests.brokers.servers import PASSWORD, USER

PATH: Final = "/v1/credentials"
ROLE: Final = "arn:aws:iam::123456789012:role/lake"
SESSION: Final = "session-token-7d31"
_STS: Final = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult><Credentials>
    <AccessKeyId>{AccessKeyId}</AccessKeyId><SecretAccessKey>{SecretAccessKey}</SecretAccessKey>
    <SessionToken>{Token}</SessionToken><Expiration>{Expiration}</Expiration>
  </Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
_REFUSED: Final = "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>"


@dataclass(slots=True)
class KeyServer:
    """A server that gives credentials to callers that present ``proof``, or to everybody without a ``proof``. It counts
    the requests.
    """

    port: int = 0
    secure_port: int = 0
    proof: str = "proof-of-the-container"
    secret: str = PASSWORD
    lasting: timedelta = timedelta(hours=1)
    asked: int = 0
    failing: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def container(self) -> dict[str, str]:
        """The variable of a container that says where it is."""
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{self.port}{PATH}"}

    @property
    def sts(self) -> dict[str, str]:
        """The variables of a pod that say who it is, but for the file with its token."""
        return {"AWS_ENDPOINT_URL_STS": f"https://127.0.0.1:{self.secure_port}", "AWS_ROLE_ARN": ROLE}

    def given(self) -> dict[str, str] | int:
        """Keys, or the status of an error; the next request."""
        with self._turn:
            self.asked += 1
            if self.failing:
                self.failing -= 1
                return 503
        ends = datetime.now(UTC) + self.lasting
        keys = {"AccessKeyId": USER, "SecretAccessKey": self.secret, "Token": SESSION}
        return {**keys, "Expiration": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}


@contextmanager
def keys_given(certificates: Certificates) -> Iterator[KeyServer]:
    """Run a key server until the end of the block."""
    key_server = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path != PATH:
                self._answer(404, "")
            elif key_server.proof != self.headers.get("authorization", ""):
                self._answer(401, "")
            else:
                keys = key_server.given()
                self._answer(keys if isinstance(keys, int) else 200, json.dumps(keys))

        def do_POST(self) -> None:
            """Parameters are in the URL or, as SDKs have it, in the body."""
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            form = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query or body).items()}
            expected = {"Action": "AssumeRoleWithWebIdentity", "RoleArn": ROLE, "WebIdentityToken": key_server.proof}
            if not expected.items() <= form.items():
                self._answer(403, _REFUSED)
                return
            keys = key_server.given()
            self._answer(*((keys, "") if isinstance(keys, int) else (200, _STS.format(**keys))))

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    with with_and_without_tls(Handler, certificates) as (key_server.port, key_server.secure_port):
        yield key_server
