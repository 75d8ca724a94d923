"""The example for Airflow, run without its servers by ``make airflow``: Airflow is no part of the test environment."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.pipeline.frames.test_examples import loaded

from signalbook.pipeline import status

ROOT = Path(__file__).parents[3]
DAY = datetime(2026, 1, 7, tzinfo=UTC)


def test_a_day_is_landed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "2026-01-07.jsonl").write_bytes((ROOT / "examples" / "orders" / "events.jsonl").read_bytes())
    orders = ROOT / "examples" / "orders" / "orders.xreg.yaml"
    places = {"registry": orders, "events": tmp_path, "output": tmp_path / "lake"}
    for name, place in places.items():
        monkeypatch.setenv(f"AIRFLOW_VAR_ORDERS_{name.upper()}", str(place))
    module = loaded("airflow_orders")
    for _ in range(2):
        run = module.DAG.test(logical_date=DAY)
        assert run.state == "success"
    (report,) = status(tmp_path / "lake").reports
    assert (report.batch, report.tally.landed.total()) == ("orders-2026-01-07", 3)
