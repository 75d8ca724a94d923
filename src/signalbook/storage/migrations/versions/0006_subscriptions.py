"""Tables for subscriptions, their deliveries and consents, which were values of the key-value store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_TEXTS: Final = ("protocol", "sink", "source", "root")
_JSON: Final[dict[str, Any]] = {"types": [], "filters": [], "config": {}, "protocolsettings": {}}
_STATE: Final[dict[str, Any]] = {
    "position": 0,
    "state": "active",
    "delivered": 0,
    "rejected": 0,
    "failures": 0,
    **dict.fromkeys(("failing", "lasterror", "lastattempt", "lastdelivery", "next"), ""),
}


def upgrade() -> None:
    """Make the tables, and move what there is."""
    subscriptions = op.create_table(
        "subscriptions",
        sa.Column("id", _BY_CODE_POINT, primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in (*_TEXTS, *_JSON)),
        sa.Column("credential", sa.Text),
        sa.Column("sealed", sa.Text),
    )
    deliveries = op.create_table(
        "deliveries",
        sa.Column("subscription", _BY_CODE_POINT, primary_key=True),
        *(
            sa.Column(name, sa.BigInteger if isinstance(default, int) else sa.Text, nullable=False)
            for name, default in _STATE.items()
        ),
    )
    consents = op.create_table(
        "consents",
        sa.Column("subscription", _BY_CODE_POINT, primary_key=True),
        sa.Column("sink", sa.Text, nullable=False),
        sa.Column("rate", sa.BigInteger),
    )
    op.create_index("deliveries_by_position", "deliveries", ["position"])
    stored_subscriptions = dict(_read_values("subscriptions"))
    op.bulk_insert(subscriptions, [_convert_subscription(name, value) for name, value in stored_subscriptions.items()])
    # A state or a consent without its subscription was about to be removed.
    states = [
        {"subscription": name, **_convert_state(value)}
        for name, value in _read_values("deliveries")
        if name in stored_subscriptions
    ]
    op.bulk_insert(deliveries, states)
    agreed = [
        {"subscription": name, **value} for name, value in _read_values("consents") if name in stored_subscriptions
    ]
    op.bulk_insert(consents, agreed)
    _count()
    op.execute(
        "DELETE FROM notes WHERE name = 'subscriptions' OR name LIKE 'subscriptions/%' OR name LIKE 'deliveries/%'"
        " OR name LIKE 'consents/%'"
    )


def _read_values(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    records = op.get_bind().execute(
        sa.text("SELECT name, value FROM notes WHERE name LIKE :names ORDER BY name"), {"names": f"{folder}/%"}
    )
    for name, value in records.fetchall():
        yield name.partition("/")[2], json.loads(value)


def _convert_subscription(id: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription for the new table. Absent values become empty ones."""
    credential = value.get("credential")
    return {
        "id": id,
        "revision": value.get("revision", 0),
        **{name: value.get(name, "") for name in _TEXTS},
        **{name: json.dumps(value.get(name, default)) for name, default in _JSON.items()},
        "credential": None if credential is None else json.dumps(credential),
        "sealed": value.get("sealed"),
    }


def _convert_state(value: dict[str, Any]) -> dict[str, Any]:
    state = {name: value.get(name, default) for name, default in _STATE.items()}
    return {**state, "lasterror": state["lasterror"].replace("\0", "\ufffd")}  # PostgreSQL's text holds no NUL


def _count() -> None:
    """The revision and the number of all, which were one value of their own, become counters."""
    connection = op.get_bind()
    records = connection.execute(sa.text("SELECT value FROM notes WHERE name = 'subscriptions'")).fetchall()
    totals = json.loads(records[0][0]) if records else {}
    for name in ("revision", "count"):
        connection.execute(
            sa.text("INSERT INTO counters (name, value) VALUES (:name, :value)"),
            {"name": f"subscriptions.{name}", "value": totals.get(name, 0)},
        )
