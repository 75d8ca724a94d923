"""TLS of the server, and the identity in a client's certificate."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from signalbook.access.base import Identity
from signalbook.settings import SettingError, Settings

_ALTERNATIVE_NAMES: Final = ("URI", "email", "DNS")
"""The kinds of alternative names. The first kind that is present provides the subject."""


def build_tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Return a context for TLS 1.2 or newer by the settings ``tls_*``, or None without a certificate.

    Clients may send a certificate. If ``tls_client_ca`` did not sign it, the connection ends. Raises ``SettingError``.
    """
    if not settings.tls_cert:
        for name in ("tls_key", "tls_client_ca"):
            if getattr(settings, name):
                raise SettingError(f"{name} needs tls_cert, the server's own certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _check_readable(settings.tls_cert, "tls_cert")
    _check_readable(settings.tls_key or settings.tls_cert, "tls_key")
    try:
        # Without a password of its own OpenSSL would ask at the terminal.
        context.load_cert_chain(settings.tls_cert, settings.tls_key or None, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", "") or error
        raise SettingError(
            f"tls_cert {settings.tls_cert}: it is no certificate (PEM) with the key of tls_key, unencrypted ({reason})"
        ) from None
    if settings.tls_client_ca:
        _check_readable(settings.tls_client_ca, "tls_client_ca")
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except ssl.SSLError as error:
            raise SettingError(f"tls_client_ca {settings.tls_client_ca}: no certificates ({error.reason})") from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def read_certificate_identity(certificate: Mapping[str, Any] | None) -> Identity | None:
    """Return the identity in a verified certificate (form of ``ssl.SSLSocket.getpeercert``), or None.

    The subject is its common name or, without one, its first URI, e-mail address or DNS name; groups are its
    organizations, as in Kubernetes.
    """
    if not certificate:
        return None
    names: dict[str, list[str]] = {}
    for part in certificate.get("subject", ()):
        for kind, value in part:
            names.setdefault(kind, []).append(value)
    alternative = certificate.get("subjectAltName", ())
    subjects = [
        *names.get("commonName", ()),
        *(value for kind in _ALTERNATIVE_NAMES for name, value in alternative if name == kind),
    ]
    if not subjects or not subjects[0].isprintable():
        return None
    return Identity(subject=subjects[0], groups=frozenset(names.get("organizationName", ())))


def _check_readable(name: str, setting: str) -> None:
    try:
        Path(name).open("rb").close()
    except OSError as error:
        raise SettingError(f"cannot read {setting} {name}: {error.strerror}") from None
