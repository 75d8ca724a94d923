"""Spark's statements and schemas."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.types import StructType
from tests.codegen.conftest import GROUP, Make

from signalbook.codegen.base import GeneratorInput


def schemas(make: Make) -> dict[str, StructType]:
    (module,) = [file for file in make("spark").files if file.path == "schemas.py"]
    names: dict[str, dict[str, StructType]] = {}
    exec(compile(module.content, module.path, "exec"), names)
    return names["TABLES"]


def test_schemas_have_the_columns_that_land(make: Make) -> None:
    found = schemas(make)["shop.orders.order.placed"]
    assert found["kind"].simpleString() == "kind:string"
    assert found["total"].metadata == {"comment": "Euros | cents"}
    assert found["buyer"].dataType.simpleString() == "struct<e-mail:string>"


def test_the_table_format(make: Make) -> None:
    assert b"USING iceberg" in make("spark", format="iceberg").files[1].content
    assert b"USING" not in make("spark").files[1].content


def test_names_of_constants(read: Callable[..., GeneratorInput], make: Make) -> None:
    text = next(file.content.decode() for file in make("spark").files if file.path == "schemas.py")
    assert all(f"{name} = StructType(" in text for name in ("ORDER_PLACED", "ORDER_PLACED_2", "CLASS_"))
    assert GROUP + "class" in read("spark").messages
