"""Sources of dbt."""

from __future__ import annotations

from typing import Any

import yaml
from tests.codegen.conftest import Make


def test_sources(make: Make) -> None:
    (source,) = yaml.safe_load(make("dbt").files[0].content)["sources"]
    assert (source["name"], source["schema"], source["description"]) == ("shop_orders", "shop.orders", "To the door.")
    names = {each["identifier"]: each["name"] for each in source["tables"]}
    assert (names["order.placed"], names["order-placed"], names["class"]) == (
        "order_placed_2",
        "order_placed",
        "class_",
    )
    columns = column_by_name(source, "order.placed")
    assert columns["kind"]["data_tests"] == [
        "not_null",
        {"accepted_values": {"arguments": {"values": ["again", "new"]}}},
    ]
    assert columns["total"]["data_type"] == "DOUBLE"
    assert "data_tests" not in columns["buyer"]
    assert columns["ce_id"]["data_tests"] == ["not_null"]
    # dbt renders descriptions as templates
    assert column_by_name(source, "class")["n"]["description"] == "a 'quoted' { { thing }} -- \\ x"


def column_by_name(source: dict[str, Any], identifier: str) -> dict[str, Any]:
    table = next(each for each in source["tables"] if each["identifier"] == identifier)
    return {each["name"]: each for each in table["columns"]}
