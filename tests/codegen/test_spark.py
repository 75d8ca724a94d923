"""Spark's statements and schemas."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from pyspark.sql.types import StructType
from tests.codegen.conftest import GROUP, Make
from tests.codegen.hostile import HOSTILE, document, texts

from signalbook.codegen.base import Generated, GeneratorInput
from signalbook.values import dump_json


def run_schemas(generated: Generated) -> dict[str, StructType]:
    (module,) = [file for file in generated.files if file.path == "schemas.py"]
    names: dict[str, dict[str, StructType]] = {}
    exec(compile(module.content, module.path, "exec"), names)
    return names["TABLES"]


def schemas(make: Make) -> dict[str, StructType]:
    return run_schemas(make("spark"))


def test_schemas_have_the_landed_columns(make: Make) -> None:
    schema = schemas(make)["shop.orders.order.placed"]
    assert schema["kind"].simpleString() == "kind:string"
    assert schema["total"].metadata == {"comment": "Euros | cents"}
    assert schema["buyer"].dataType.simpleString() == "struct<e-mail:string>"


def test_the_table_format(make: Make) -> None:
    assert b"USING iceberg" in make("spark", format="iceberg").files[1].content
    assert b"USING" not in make("spark").files[1].content


def test_names_of_constants(read: Callable[..., GeneratorInput], make: Make) -> None:
    text = next(file.content.decode() for file in make("spark").files if file.path == "schemas.py")
    assert all(f"{name} = StructType(" in text for name in ("ORDER_PLACED", "ORDER_PLACED_2", "CLASS_"))
    assert GROUP + "class" in read("spark").messages


def test_a_message_named_as_the_tables(make: Make) -> None:
    messages = {"tables": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}}
    schemas_ = schemas(lambda target: make(target, {"messagegroups": {"g": {"messages": messages}}}))
    assert isinstance(schemas_["g.tables"], StructType)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts())
@example(texts=[*HOSTILE])
@example(texts=["it's", "_", "it'sit's"])
def test_hostile_texts_in_schemas_are_data(make: Make, texts: list[str]) -> None:
    """Run the module, and look for the texts in names and comments."""
    generated = make("spark", document(texts))
    schema = run_schemas(generated)["all.all"]
    for text in texts:
        kind: Any = schema[text].dataType
        assert kind.names == [text, "fixed member", "chosen member"]
        member = f"Member {dump_json(text).decode()} of the payload. " if text.endswith("_") else ""
        assert schema[text].metadata == {"comment": member + text}
