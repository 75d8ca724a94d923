"""Versions found by their URIs however these are written: digests of their normal form."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import sqlalchemy as sa
from alembic import op

from signalbook.uris import is_uri, normal_uri

revision = "0008"
down_revision = "0007"

_VERSIONS_QUERY: Final = """
SELECT key, xid, attributes FROM entities WHERE type = 'versions' AND attributes LIKE '%"globaluri"%'
"""
_BASE: Final = "any:/base"


def upgrade() -> None:
    """Give the Versions there are their digests. Two with the same URI keep it: only new claims are refused."""
    connection = op.get_bind()
    update = sa.text("UPDATE entities SET uri = :uri WHERE key = :key")
    for key, xid, attributes in connection.execute(sa.text(_VERSIONS_QUERY)).fetchall():
        connection.execute(update, {"key": key, "uri": _compute_digest(xid.split("/")[1], json.loads(attributes))})


def _compute_digest(groups: str, attributes: dict[str, object]) -> str | None:
    """Return the digest that the engine computed for these attributes when this migration was written."""
    stated_uri, authority = attributes.get("globaluri"), attributes.get("authority")
    authority = authority if isinstance(authority, str) else ""
    if not isinstance(stated_uri, str) or not stated_uri:
        return None
    uri, behind = stated_uri.replace(" ", "%20"), authority.partition(":")[2]
    if not is_uri(uri):
        opaque = bool(behind) and not behind.startswith("/") and is_uri(authority)
        base = (authority or _BASE).removesuffix("/")
        uri = f"{authority}:{uri}" if opaque else f"{base}/{uri.removeprefix('/')}"
    key = normal_uri(uri).removeprefix(f"{_BASE}/")
    return hashlib.sha256(f"{groups} {key}".encode("utf-8", "surrogatepass")).hexdigest()
