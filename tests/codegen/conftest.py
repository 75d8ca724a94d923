"""Definitions of every kind, some of them hard to name in any language, and what is generated of them."""

import fcntl
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import pytest
from tests.shared_servers import SERVERS

from signalbook.codegen.base import Generated, GeneratorInput, generate, read_input
from signalbook.codegen.standalone.patterns import portable
from signalbook.values import dump_json

GROUP = "/messagegroups/shop.orders/messages/"
PROTO = 'syntax = "proto3"; message Parcel { string id = 1; repeated Item items = 2; } message Item { int32 n = 1; }'
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="n" type="xs:int"/></xs:schema>'
AVRO: dict[str, Any] = {
    "type": "record", "name": "Ride", "namespace": "acme", "fields": [
        {"name": "n", "type": ["null", "int"], "default": None, "doc": "a 'quoted' {{ thing }} -- \\ x"},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "tags", "type": {"type": "map", "values": {
            "type": "array", "items": {"type": "array", "items": "long"}}}},
    ],
}  # fmt: skip
PLACED: dict[str, Any] = {
    "type": "object", "required": ["kind", "total"], "additionalProperties": False, "properties": {
        "kind": {"enum": ["new", "again"]},
        "total": {"type": "number", "minimum": 0, "description": "Euros | cents"},
        "buyer": {"$ref": "#/$defs/buyer"},
    }, "$defs": {"buyer": {"type": "object", "properties": {"e-mail": {"type": "string"}}}},
}  # fmt: skip
EVENT: dict[str, Any] = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "placed"}, "source": {"type": "uritemplate", "value": "/shops/{shop}"}},
}
MESSAGES: dict[str, Any] = {
    "order.placed": {**EVENT, "description": "It's <b>placed</b>\n'; DROP TABLE x; --",
                     "dataschemaformat": "JsonSchema/draft/2020-12", "dataschema": PLACED},
    "class": {"protocol": "KAFKA", "protocoloptions": {"topic": "rides.{city}"}, "dataschemaformat": "Avro/1.11",
              "dataschema": AVRO},
    "order-placed": {"protocol": "HTTP", "protocoloptions": {"path": "/x"}, "dataschemaformat": "JsonSchema/draft-07",
                     "dataschema": {"type": "object", "properties": {"a.b": {"type": "string"}}}},
    "parcel": {"protocol": "NATS", "protocoloptions": {"subject": "parcels"}, "dataschemaformat": "Protobuf/3",
               "dataschemauri": "/schemagroups/shop/schemas/parcel:Parcel"},
    "xml": {"protocol": "NATS", "protocoloptions": {"subject": "xml"}, "dataschemaformat": "XSD/1.1",
            "dataschema": XSD},
    "image": {"protocol": "NATS", "protocoloptions": {"subject": "image"}, "datacontenttype": "image/png"},
    "broken": {"protocol": "KAFKA", "protocoloptions": {"topic": 5}},
}  # fmt: skip
ENDPOINTS: dict[str, Any] = {
    "in": {"usage": ["producer"], "protocol": "HTTP", "messagegroups": ["/messagegroups/shop.orders"],
           "protocoloptions": {"endpoints": [{"uri": "https://me:secret@in.example:8443/{tenant}/orders"}]}},
    "out": {"usage": ["consumer", "subscriber"], "protocol": "KAFKA", "messagegroups": ["#/messagegroups/shop.orders"],
            "protocoloptions": {"topic": "orders", "endpoints": [{"uri": "kafka.example:9092"}, {"uri": "b:1"}]}},
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "name": "The shop",
    "messagegroups": {"shop.orders": {"description": "To the door.", "messages": MESSAGES}},
    "schemagroups": {"shop": {"schemas": {"parcel": {"versions": {"1": {
        "format": "Protobuf/3", "schema": PROTO}}}}}},
    "endpoints": ENDPOINTS,
}  # fmt: skip

_COMPILED = tuple(f"tests/codegen/{language}/" for language in ("go", "java", "rust"))

Make = Callable[..., Generated]
T = TypeVar("T")
BuildOnce = Callable[[str, Callable[[Path], T]], tuple[Path, T]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the compilers of most languages to ``make merge``: ``make test`` has TypeScript's."""
    for item in items:
        if item.nodeid.startswith(_COMPILED) and {"project", "run"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("merge")


@pytest.fixture(scope="session")
def build_once(request: pytest.FixtureRequest) -> BuildOnce[Any]:
    """Build a project once for all processes of this run: the first that asks for its name calls ``build``.

    Returns the folder of the project, and what ``build`` returned for it.
    """
    root = request.config.stash[SERVERS].folder

    def build_once(name: str, build: Callable[[Path], Any]) -> tuple[Path, Any]:
        result = root / f"{name}.built"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not result.exists():
                folder = Path(mkdtemp(prefix=name, dir=root))
                result.write_bytes(pickle.dumps((folder, build(folder))))
        folder, built = pickle.loads(result.read_bytes())
        return folder, built

    return build_once


@pytest.fixture(scope="module")
def pattern() -> Callable[[str], str]:
    """What translates patterns for the engine of a language."""
    return portable


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., GeneratorInput]:
    """The input of a target: of ``DOCUMENT``, or another one."""

    def make(target: str, document: dict[str, Any] | None = None, **options: str) -> GeneratorInput:
        path = tmp_path / "definitions.json"
        path.write_bytes(dump_json(DOCUMENT if document is None else document))
        return read_input(target, str(path), (), options)

    return make


@pytest.fixture
def make(read: Callable[..., GeneratorInput]) -> Make:
    """Return a function that generates files from definitions."""
    return lambda *arguments, **options: generate(read(*arguments, **options))
