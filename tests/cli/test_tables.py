import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.conftest import Cli
from tests.pipeline.commands.test_backfill import NUMBER, TEXT, definitions

from signalbook.pipeline import columns

from ..pipeline.lake import XID, Lake

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
ORDERS = ("--registry", EXAMPLE / "orders.xreg.yaml", "--input", EXAMPLE / "events.jsonl", "--master", "local[1]")


def test_tables_of_a_run_can_be_inspected(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("events.jsonl").write_text((EXAMPLE / "events.jsonl").read_text().replace("A-100", "A-" + "1" * 60))
    ran = cli("pipeline", "run", *ORDERS[:2], "--input", "events.jsonl", *ORDERS[4:], "--output", "lake")
    assert ran.code == 0, ran.err
    assert "1 unknown_kind" in cli("pipeline", "status", "--output", "lake").out
    (batch,) = cli("pipeline", "status", "--output", "lake", "--json").out.splitlines()
    assert json.loads(batch)["landed"] == 3
    result = cli("pipeline", "profile", "--output", "lake", "--master", "local[1]")
    assert "/messagegroups/shop.orders/messages/shop.order.placed: 2 rows" in result.out
    # as wide as the screen, and no name is folded
    row = next(line for line in result.out.splitlines() if "A-1111" in line)
    assert (len(row), row[:8], row[-1]) == (79, "│ order ", "│")
    table, *_ = cli("pipeline", "profile", "--output", "lake", "--master", "local[1]", "--json").out.splitlines()
    assert json.loads(table)["rows"] > 0


def test_an_empty_folder_is_no_output(cli: Cli) -> None:
    for command in ("status", "profile"):
        assert cli("pipeline", command, "--output", ".").ended(1, "no output folder")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two files of one day."""
    lake = Lake(tmp_path / "lake", "parquet")
    for number in range(2):
        lake.put([{"a": number}], {"a": pa.int32()})
    return lake


@pytest.mark.usefixtures("lake")
def test_view_combines_the_tables(cli: Cli) -> None:
    ran = cli("pipeline", "views", "--output", "lake", "--json")
    assert json.loads(ran.out)["view"] == "shop__order"
    ran = cli("pipeline", "views", "--output", "lake", "--definition", XID, "--catalog", "c")
    assert ran.out.startswith("CREATE OR REPLACE VIEW `shop__order` AS\nSELECT `a` AS `a`")
    assert cli("pipeline", "views", "--output", "lake", "--definition", "/x").code == 1


def test_views_name_the_catalog_by_its_own_name(tmp_path: Path, cli: Cli) -> None:
    """Spark finds no tables in one of SQL that it calls otherwise."""
    Lake(tmp_path / "ice", "iceberg").put([{"a": 1}], {"a": pa.int32()})
    with closing(sqlite3.connect(tmp_path / "ice" / "catalog.db")) as catalog:
        ((name,),) = catalog.execute("SELECT DISTINCT catalog_name FROM iceberg_tables")
    assert cli("pipeline", "views", "--output", "ice").out.endswith(f"FROM `{name}`.`shop`.`order`;\n\n")


@pytest.mark.usefixtures("lake")
def test_tables_are_compacted(cli: Cli) -> None:
    ran = cli("pipeline", "compact", "--output", "lake", "--json")
    assert json.loads(ran.out)["files"] == {"before": 2, "after": 1}
    assert cli("pipeline", "compact", "--output", "lake").out == "nothing to compact\n"
    assert len(cli("pipeline", "status", "--output", "lake", "--json").out.splitlines()) == 2


@pytest.mark.usefixtures("lake")
def test_a_compaction_is_shown(cli: Cli) -> None:
    ran = cli("pipeline", "compact", "--output", "lake", "--definition", XID, "--target-size", "1")
    assert "shop.order" in ran.out


def test_a_backfill_is_shown(tmp_path: Path, cli: Cli) -> None:
    lake = Lake(tmp_path / "lake", "parquet")
    members = '{"total":1.5,"at":"2026-01-02T03:04:05Z"}'
    stored = pa.schema([("id", pa.string()), ("at", pa.int32()), *columns.RESCUE])
    lake.put([{"id": "1", "at": 7, "_rescue": members}], stored)
    command = ("pipeline", "backfill", "--output", "lake", "--policy", "columns=typed", "--registry")
    shown = cli(*command, definitions(tmp_path / "r.json", total=NUMBER, at={**TEXT, "format": "date-time"})).out
    assert re.search(r"shop\.order\W+1\W+0\W+1\W", shown)
    assert "shop.order has other columns of these names: at\n" in shown
    assert cli(*command, definitions(tmp_path / "r.json", total=NUMBER)).out == "nothing to fill\n"
