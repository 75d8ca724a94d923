"""``signalbook pipeline status`` and ``profile``."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
ORDERS = ("--registry", EXAMPLE / "orders.xreg.yaml", "--input", EXAMPLE / "events.jsonl", "--master", "local[1]")


def test_what_was_run_can_be_looked_at(cli: Cli) -> None:
    ran = cli("pipeline", "run", *ORDERS, "--output", "lake", "--batch-id", "b")
    assert ran.code == 0, ran.err
    assert "1 no_match" in cli("pipeline", "status", "--output", "lake").out
    (batch,) = cli("pipeline", "status", "--output", "lake", "--json").out.splitlines()
    assert json.loads(batch)["landed"] == 3
    shown = cli("pipeline", "profile", "--output", "lake", "--master", "local[1]")
    assert "/messagegroups/shop.orders/messages/shop.order.placed: 2 rows" in shown.out
    table, *_ = cli("pipeline", "profile", "--output", "lake", "--master", "local[1]", "--json").out.splitlines()
    assert json.loads(table)["rows"] > 0


def test_an_empty_folder_is_no_output(cli: Cli) -> None:
    for command in ("status", "profile"):
        ran = cli("pipeline", command, "--output", ".")
        assert ran.code == 1
        assert "no output folder" in ran.err
