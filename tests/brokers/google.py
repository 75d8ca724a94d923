"""Google Cloud Storage's XML API in memory, as far as the pipeline asks for it.

Emulators that registries offer speak Google's JSON API, or do not heed conditions; clients in Rust speak this one:
https://cloud.google.com/storage/docs/xml-api/overview.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Stored:
    """An object: what it holds, and which of all writes made it."""

    content: bytes
    generation: int
    written: datetime

    @property
    def tag(self) -> str:
        """Return the ETag as Google formats it."""
        return f'"{hashlib.md5(self.content, usedforsecurity=False).hexdigest()}"'


@dataclass(slots=True)
class Google:
    """A server for whoever signs with ``key``; it has every bucket."""

    key: RSAPrivateKey = field(default_factory=lambda: generate_private_key(65537, 2048))
    port: int = 0
    objects: dict[str, Stored] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    generation: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)
    knows: Callable[[str], bool] = lambda _: False
    """Whether somebody else gave a token, and it has not ended."""

    @property
    def account(self) -> str:
        """The file that Google gives for a service account."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        account = {"private_key": key, "private_key_id": "1", "client_email": "tests@lake"}
        # The last of these is a word of the client's own.
        return json.dumps({"type": "service_account", **account, "gcs_base_url": f"http://127.0.0.1:{self.port}"})

    def signed(self, authorization: str) -> bool:
        """Return True if the token was signed with the key, or if ``knows`` accepts it."""
        if self.knows(authorization):
            return True
        signing, _, signature = authorization.removeprefix("Bearer ").rpartition(".")
        try:
            sent = base64.urlsafe_b64decode(signature + "==")
            self.key.public_key().verify(sent, signing.encode(), PKCS1v15(), SHA256())
        except (InvalidSignature, ValueError):
            return False
        return True

    def write(self, name: str, content: bytes, generation: str | None) -> Stored | None:
        """Store the object if its generation is the expected one; 0 means that it must not exist."""
        with self.turn:
            there = self.objects.get(name)
            if generation is not None and int(generation) != (there.generation if there else 0):
                return None
            self.generation += 1
            self.objects[name] = Stored(content, self.generation, datetime.now(UTC))
            return self.objects[name]

    def listed(self, bucket: str, query: dict[str, str]) -> str:
        """A page of what begins with a prefix."""
        start, delimiter = f"{bucket}/", query.get("delimiter", "")
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        entries: dict[str, str] = {}
        for name, stored in sorted(self.objects.copy().items()):
            key = name.removeprefix(start)
            if not name.startswith(start + prefix):
                continue
            suffix = key[len(prefix) :]
            if delimiter and delimiter in suffix:
                folder = prefix + suffix.partition(delimiter)[0] + delimiter
                entries[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            else:
                entries[key] = (
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.content)}</Size><ETag>{stored.tag}</ETag>"
                    f"<LastModified>{stored.written.isoformat().replace('+00:00', 'Z')}</LastModified></Contents>"
                )
        keys = sorted(key for key in entries if key > after)
        page = keys[:_PAGE]
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(keys) > _PAGE else ""
        return f"<ListBucketResult>{''.join(entries[key] for key in page)}{more}</ListBucketResult>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # one packet for head and body: else each answer waits for the other side's delay
    google: Google

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def _asked(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        if not self.google.signed(self.headers.get("authorization", "")):
            self._refuse(401, "AuthenticationRequired")
        else:
            getattr(self, f"_{self.command.lower()}")(unquote(url.path).strip("/"), query, body)

    def _get(self, name: str, query: dict[str, str], _: bytes) -> None:
        if "list-type" in query:
            self._answer(200, self.google.listed(name, query).encode())
            return
        stored = self.google.objects.get(name)
        if stored is None:
            self._refuse(404, "NoSuchKey")
            return
        content, size, status = stored.content, len(stored.content), 200
        more: dict[str, str] = {}
        if span := self.headers.get("range"):
            first, last = span.removeprefix("bytes=").split("-")
            content, status = content[int(first) : int(last) + 1], 206
            more = {"Content_Range": f"bytes {first}-{int(first) + len(content) - 1}/{size}"}
        written = format_datetime(stored.written, usegmt=True)
        about = {"ETag": stored.tag, "Last_Modified": written, "x_goog_generation": str(stored.generation)}
        self._answer(status, content, **about, **more)

    _head = _get

    def _put(self, name: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            self.google.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, ETag=f'"{query["partNumber"]}"')
            return
        if source := self.headers.get("x-goog-copy-source"):
            origin = self.google.objects.get(unquote(source).strip("/"))
            if origin is None:
                self._refuse(404, "NoSuchKey")
                return
            body = origin.content
        stored = self.google.write(name, body, self.headers.get("x-goog-if-generation-match"))
        if stored is None:
            self._refuse(412, "PreconditionFailed")
        else:
            self._answer(200, ETag=stored.tag, x_goog_generation=str(stored.generation))

    def _post(self, name: str, query: dict[str, str], _: bytes) -> None:
        if "uploads" in query:
            upload = str(len(self.google.parts))
            self.google.parts[upload] = {}
            reply = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        else:
            parts = self.google.parts[query["uploadId"]]
            stored = self.google.write(name, b"".join(parts[number] for number in sorted(parts)), None)
            assert stored is not None
            reply = f"<CompleteMultipartUploadResult><ETag>{escape(stored.tag)}</ETag></CompleteMultipartUploadResult>"
        self._answer(200, reply.encode())

    def _delete(self, name: str, _: dict[str, str], __: bytes) -> None:
        with self.google.turn:
            removed = self.google.objects.pop(name, None)
        if removed is None:
            self._refuse(404, "NoSuchKey")
        else:
            self._answer(204)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _asked  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # clients keep their connections


@contextmanager
def running() -> Iterator[Google]:
    """A server on a free port of this machine."""
    google = Google()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"google": google}))
    google.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield google
    finally:
        server.shutdown()
        server.server_close()
