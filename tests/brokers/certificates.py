"""A certificate of this machine's, and the authority to trust it by."""

from dataclasses import dataclass, fields
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the ``authority``, and for names of this machine, and those that Google's clients have and no setting
    for, the ``chain``, its ``key``, and ``both``.
    """

    authority: Path
    chain: Path
    key: Path
    both: Path


def certificates_in(folder: Path) -> Certificates:
    """Return the certificates that ``issue`` wrote to ``folder``."""
    return Certificates(*(folder / f"{field.name}.pem" for field in fields(Certificates)))


def issue(folder: Path) -> Certificates:
    authority = trustme.CA()
    issued = authority.issue_cert(
        "localhost", "127.0.0.1", "accounts.google.com", "oauth2.googleapis.com", "iamcredentials.googleapis.com"
    )
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
    # PKCS 8 is the one form that servers in Java read, too.
    private = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = {"authority": authority.cert_pem.bytes(), "chain": chain, "key": key, "both": key + chain}
    for name, content in files.items():
        (folder / f"{name}.pem").write_bytes(content)
    return certificates_in(folder)
