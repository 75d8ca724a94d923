"""The private names of libraries: one module uses those of a library, and the installed release has them.

An upgrade of a library may remove its private names. Then the first test reports the missing name, and the module of
ours to change.
"""

import ast
import inspect
import re
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

import pytest
from tests.test_layers import MODULES

# For each module of ours, the names that it uses, by the library's module or class.
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "signalbook.formats.avro.format": {"fastavro": ("_read_py",)},
    "signalbook.formats.xsd.patterns": {"xmlschema.validators:XsdPatternFacets": ("_parse_value",)},
    "signalbook.metrics": {"prometheus_client:Histogram": ("_buckets", "_labelnames", "_metric_init", "_sum")},
    "signalbook.pipeline.spark": {
        "pyspark:SparkContext": ("_active_spark_context", "_gateway", "_jvm"),
        "pyspark.sql:SparkSession": ("_jsc", "_jvm"),
    },
    "signalbook.pipeline.tables.iceberg_internals": {
        "pyiceberg.catalog:Catalog": ("_convert_schema_if_needed",),
        "pyiceberg.catalog:MetastoreCatalog": ("_update_and_stage_table", "_write_metadata"),
        "pyiceberg.catalog.rest:RestCatalog": ("_create_session",),
        "pyiceberg.catalog.sql:SqlCatalog": ("_convert_orm_to_iceberg", "_create_table_row"),
        "pyiceberg.io.pyarrow": ("_check_pyarrow_schema_compatible",),
        "pyiceberg.table:Transaction": ("_table", "_updates"),
    },
    "signalbook.tracing": {
        "opentelemetry.exporter.otlp.proto.http": ("_log_exporter",),
        "opentelemetry.sdk": ("_logs",),
    },
}
PUBLIC = {"_exit", "_fields", "_make", "_replace"}
"""Documented names of the standard library."""


@pytest.mark.parametrize(
    ("module", "owner", "name"),
    [(module, owner, name) for module, owners in NAMES.items() for owner, names in owners.items() for name in names],
)
def test_the_library_has_the_name(module: str, owner: str, name: str) -> None:
    assert has(resolve_name(owner), name), f"{owner} has no {name} any more: change {module}"


def has(owner: Any, name: str) -> bool:
    """Return True if a module or class has ``name``, or if a method of the class or of its bases sets it."""
    if inspect.ismodule(owner):
        return hasattr(owner, name) or find_spec(f"{owner.__name__}.{name}") is not None
    package = owner.__module__.partition(".")[0]
    bases = [base for base in owner.__mro__ if base.__module__.partition(".")[0] == package]
    return hasattr(owner, name) or any(re.search(rf"self\.{name}(: .+)? = ", inspect.getsource(base)) for base in bases)


def test_one_module_uses_the_private_names_of_a_library() -> None:
    listed = {module: {name for names in owners.values() for name in names} for module, owners in NAMES.items()}
    names = {module: collect_names(ast.parse(path.read_text(encoding="utf-8"))) for module, path in MODULES.items()}
    ours = {name for _, defined in names.values() for name in defined} - set().union(*listed.values())
    foreign = {
        module: (used - ours - defined - PUBLIC) | ((used | defined) & listed.get(module, set()))
        for module, (used, defined) in names.items()
    }
    assert {module: sorted(names) for module, names in foreign.items() if names} == {
        module: sorted(names) for module, names in listed.items()
    }


def collect_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the private names that a module uses, imported ones included, and those that it defines."""
    used: set[str] = set()
    defined: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                used.add(name)
                if isinstance(node.ctx, ast.Store):
                    defined.add(name)
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                defined.add(name)
            case ast.ImportFrom(module=str(base), names=aliases) if not base.startswith("signalbook"):
                used |= {*base.split("."), *(alias.name for alias in aliases)}
    return {name for name in used if is_private(name)}, {name for name in defined if is_private(name)}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
