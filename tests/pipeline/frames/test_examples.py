"""Programs of schedulers that land DataFrames, without their servers."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from signalbook.pipeline import status

EXAMPLES = Path(__file__).parents[3] / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "dataframes" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("default")  # for Dagster's own
def test_an_asset_of_dagster(spark_session: SparkSession, tmp_path: Path) -> None:
    """Materialised twice, a day is landed once."""
    import dagster  # takes long to import

    asset = loaded("dagster_orders").orders
    (tmp_path / "2026-01-07.jsonl").write_bytes((EXAMPLES / "orders" / "events.jsonl").read_bytes())
    registry = str(EXAMPLES / "orders" / "orders.xreg.yaml")
    config = {"registry": registry, "events": str(tmp_path), "output": str(tmp_path / "lake")}

    def materialised() -> dict[str, object]:
        settings = {"ops": {"orders": {"config": config}}}
        ran = dagster.materialize([asset], partition_key="2026-01-07", run_config=settings)
        (event,) = ran.asset_materializations_for_node("orders")
        return {name: value.value for name, value in event.metadata.items() if "/" not in name}

    assert materialised().items() >= {"landed": 3, "dead letters": 2, "note": ""}.items()
    assert "committed before" in str(materialised()["note"])
    assert [report.batch for report in status(tmp_path / "lake").reports] == ["orders-2026-01-07"]
