"""TLS: files that work and files that do not, who a certificate is from, and a server that speaks it."""

import json
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.serving import kept_port

from signalbook.access.base import Identity
from signalbook.api.kernel.tls import build_tls_context, read_certificate_identity
from signalbook.settings import SettingError, Settings


@dataclass(frozen=True, slots=True)
class Files:
    """An authority and, by it, the server's certificate."""

    authority: trustme.CA
    folder: Path

    def settings(self, **more: Any) -> Settings:
        return Settings(tls_cert=str(self.folder / "cert.pem"), tls_key=str(self.folder / "key.pem"), **more)

    def renew(self) -> None:
        """Another certificate of the server."""
        issued = self.authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(self.folder / "key.pem")
        (self.folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    tls_files = Files(trustme.CA(), tmp_path)
    tls_files.renew()
    tls_files.authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tls_files


def test_tls_context_is_built_from_files(files: Files) -> None:
    assert build_tls_context(Settings()) is None
    context = build_tls_context(files.settings())
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    asking = build_tls_context(files.settings(tls_client_ca=str(files.folder / "ca.pem")))
    assert asking is not None
    assert asking.verify_mode is ssl.CERT_OPTIONAL
    both = files.folder / "both.pem"
    both.write_bytes((files.folder / "key.pem").read_bytes() + (files.folder / "cert.pem").read_bytes())
    assert build_tls_context(Settings(tls_cert=str(both))) is not None


def test_invalid_tls_files_are_rejected(files: Files) -> None:
    folder = files.folder
    (folder / "text.pem").write_text("hello")
    key = load_pem_private_key((folder / "key.pem").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (folder / "locked.pem").write_bytes(locked)
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(folder / "other.pem")
    wrong: list[tuple[dict[str, str], str]] = [
        ({"tls_key": "x"}, "tls_key needs tls_cert"),
        ({"tls_client_ca": "x"}, "tls_client_ca needs tls_cert"),
        ({"tls_cert": "gone.pem"}, "cannot read tls_cert gone.pem: No such file"),
        ({"tls_cert": "cert.pem", "tls_key": "gone.pem"}, "cannot read tls_key"),
        ({"tls_cert": "text.pem", "tls_key": "key.pem"}, "no certificate"),
        ({"tls_cert": "cert.pem", "tls_key": "text.pem"}, "no certificate"),
        ({"tls_cert": "cert.pem", "tls_key": "other.pem"}, "no certificate"),
        ({"tls_cert": "cert.pem", "tls_key": "locked.pem"}, "unencrypted"),
        ({"tls_cert": "cert.pem"}, "no certificate"),
        ({"tls_cert": "cert.pem", "tls_key": "key.pem", "tls_client_ca": "text.pem"}, "no certificates"),
        ({"tls_cert": "cert.pem", "tls_key": "key.pem", "tls_client_ca": "gone.pem"}, "cannot read tls_client_ca"),
    ]
    for names_by_setting, message in wrong:
        names = {
            name: value if value.startswith("gone") else str(folder / value) for name, value in names_by_setting.items()
        }
        with pytest.raises(SettingError, match=message):
            build_tls_context(Settings(**names))  # type: ignore[arg-type]


def subject(*parts: tuple[str, str]) -> tuple[tuple[tuple[str, str]], ...]:
    return tuple(((part),) for part in parts)


LETTERS = (("organizationName", "g"), ("organizationName", "h"))
NAMES = (("DNS", "h.example"), ("email", "a@x"))


@pytest.mark.parametrize(
    ("certificate", "identity"),
    [
        (None, None),
        ({}, None),
        ({"subject": ()}, None),
        ({"subject": subject(("organizationName", "g"))}, None),
        ({"subject": subject(("commonName", "a\0b"))}, None),
        ({"subject": subject(("commonName", "ann"))}, Identity(subject="ann")),
        ({"subject": subject(*LETTERS, ("commonName", "ann"))}, Identity(subject="ann", groups=frozenset("gh"))),
        ({"subject": (), "subjectAltName": (*NAMES, ("URI", "spiffe://x/y"))}, Identity(subject="spiffe://x/y")),
        ({"subject": (), "subjectAltName": (("IP Address", "::1"), ("DNS", "h"))}, Identity(subject="h")),
    ],
)
def test_certificate_identity(certificate: Any, identity: Identity | None) -> None:
    assert read_certificate_identity(certificate) == identity


def client(files: Files, certificate: trustme.LeafCert | None = None) -> httpx.Client:
    context = ssl.create_default_context()
    files.authority.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return httpx.Client(verify=context, timeout=60)


@pytest.mark.merge
def test_server_speaks_tls(files: Files) -> None:
    """Also after SIGHUP with a new certificate, and with one that cannot be used."""
    policy = {"rules": [{"who": ["subject:root"], "role": "administrator"}, {"who": ["subject:ann"], "role": "reader"}]}
    (files.folder / "policy.json").write_text(json.dumps(policy))
    files_given = ("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem")
    options = (*files_given, "--access-file", "policy.json")
    with kept_port() as port:
        url = f"https://127.0.0.1:{port}"
        command = [sys.executable, "-m", "signalbook", "serve", "--port", str(port), *options]
        process = subprocess.Popen(command, cwd=files.folder, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert f"at {url}/" in process.stdout.readline()
            first = serial(files, url, process)
            with client(files) as http:
                assert http.get(f"{url}/").status_code == 401
            certificate = files.authority.issue_cert("ann@x.example", common_name="ann")
            with client(files, certificate) as http:
                assert http.get(f"{url}/").json()["self"] == f"{url}/"
                assert http.put(f"{url}/schemagroups/x", json={}).status_code == 403
                # What a request says of itself counts more than the connection it comes by.
                assert http.get(f"{url}/", headers={"Authorization": "Bearer x"}).status_code == 401
            with client(files, files.authority.issue_cert("eve@x.example", common_name="eve")) as http:
                assert http.get(f"{url}/").status_code != 200
            with pytest.raises(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
            with client(files, trustme.CA().issue_cert("eve")) as http, pytest.raises(httpx.TransportError):
                http.get(f"{url}/")
            files.renew()
            process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 120
            while (now := serial(files, url, process)) == first:
                assert time.monotonic() < deadline, "the new certificate is not used"
            (files.folder / "cert.pem").write_text("broken")
            process.send_signal(signal.SIGHUP)
            time.sleep(1)
            assert serial(files, url, process) == now
        finally:
            process.terminate()
            process.communicate(timeout=300)


def serial(files: Files, url: str, process: subprocess.Popen[str]) -> str:
    """The number of the certificate that the server has, once it answers."""
    while True:
        assert process.poll() is None, "the server ended"
        try:
            with client(files) as http, http.stream("GET", f"{url}/health/live") as response:
                certificate = response.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
                return str(certificate["serialNumber"])
        except httpx.TransportError:
            time.sleep(0.05)
