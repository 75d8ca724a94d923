"""Capabilities that list the discovery of registries, which was there before it could be switched off."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add it to those stored; a registry without any has all there are."""
    connection = op.get_bind()
    stored = connection.execute(sa.text("SELECT value FROM config WHERE name = 'capabilities'")).scalar()
    if stored is None:
        return
    capabilities = json.loads(stored)
    capabilities["available"] = {".xregistry": {"mutable": False}} | capabilities["available"]
    changed = json.dumps(capabilities, separators=(",", ":"))
    # Servers that are running know by the epoch that there is something new.
    update = sa.text("UPDATE config SET value = :value, epoch = epoch + 1 WHERE name = 'capabilities'")
    connection.execute(update, {"value": changed})
