"""An application in Python: python client.py sync|async|community|guarded WHERE, where these clients are installed.

WHERE is JSON: ``registry``, ``brokers``, what the names of ``topics`` begin with, a folder of ``schemas`` and one of
``descriptors``. The application writes an order of each version to Kafka, reads them as both versions, and prints what
it read, by topic and reader, and what other calls of its client answered.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, schema_registry
from confluent_kafka.schema_registry import Schema, SchemaReference, avro, json_schema, protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from schema_registry import client as community
from schema_registry import serializers as by_hand

ORDERS: dict[int, dict[str, Any]] = {
    1: {"id": 1, "to": {"street": "Canal St", "city": "Ghent"}},
    2: {"id": 2, "to": {"street": "Rue Haute", "city": "Mons"}, "note": "ring twice"},
}
PATIENCE = 120
WHERE = json.loads(sys.argv[2])
SCHEMAS = Path(WHERE["schemas"])
Codec = Callable[..., Any]


async def settled(value: Any) -> Any:
    """Return the result of a synchronous or asynchronous call."""
    return await value if inspect.isawaitable(value) else value


def topic(name: str) -> str:
    return f"{WHERE['topics']}-{name}"


def context(name: str) -> SerializationContext:
    return SerializationContext(topic(name), MessageField.VALUE, [])


def address(kind: str, ending: str) -> tuple[str, Schema]:
    """The subject of an address, and its schema."""
    return f"address.{ending}", Schema((SCHEMAS / f"address.{ending}").read_text(), kind)


def order(version: int, kind: str, ending: str) -> Schema:
    """The schema of an order, which refers to that of an address."""
    reference = SchemaReference("shop.Address" if kind == "AVRO" else "address.json", f"address.{ending}", 1)
    return Schema((SCHEMAS / str(version) / f"order.{ending}").read_text(), kind, [reference])


def message(version: int) -> Any:
    """The class of an order in Protobuf, from a pool of its own, since both versions have the same name."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString((Path(WHERE["descriptors"]) / f"{version}.binpb").read_bytes()).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def calls() -> list[tuple[Any, ...]]:
    """Return further calls of Confluent's client with their arguments."""
    first, subject, scratch = order(1, "AVRO", "avsc"), topic("avro-value"), topic("scratch")
    broken = Schema((first.schema_str or "").replace('"int"', '"string"'), "AVRO", first.references)
    return [
        ("get_versions", subject),
        ("test_compatibility", subject, first),
        ("test_compatibility", subject, broken),
        ("test_compatibility_all_versions", subject, broken),
        ("register_schema", subject, broken),
        ("lookup_schema", subject, broken),
        ("get_version", subject, 9),
        ("get_latest_version", "nothing"),
        ("get_schema", 1_000_000),
        ("get_schema_by_guid", "00000000-0000-0000-0000-000000000000"),
        ("get_schema_types",),
        ("set_compatibility", scratch, "NONE"),
        ("get_compatibility", scratch),
        ("get_compatibility", subject),
        ("register_schema", scratch, Schema('"shop.Nothing"', "AVRO")),
        ("update_mode", scratch, "READONLY"),
        ("get_mode", scratch),
        ("register_schema", scratch, Schema('"string"', "AVRO")),
        ("delete_mode", scratch),
        ("get_mode", scratch),
        ("delete_subject", "address.avsc"),
    ]


async def administer(client: Any) -> list[Any]:
    """Return the responses of the calls, or the error codes of those that fail."""
    answers: list[Any] = []
    for name, *arguments in calls():
        try:
            answers.append([name, await settled(getattr(client, name)(*arguments))])
        except schema_registry.error.SchemaRegistryError as error:
            answers.append([name, {"code": error.error_code}])
    return answers


async def confluent(prefix: str) -> dict[str, Any]:
    """Use Confluent's client whose class names begin with ``prefix``, and return the responses."""

    async def made(module: Any, name: str, *arguments: Any, **settings: Any) -> Any:
        return await settled(getattr(module, prefix + name)(*arguments, **settings))

    client = await made(schema_registry, "SchemaRegistryClient", {"url": WHERE["registry"]})
    for kind, ending in (("AVRO", "avsc"), ("JSON", "json")):
        await settled(client.register_schema(*address(kind, ending)))
    sent = []
    for version, record in ORDERS.items():
        avro_schema, kind = order(version, "AVRO", "avsc"), message(version)
        await settled(client.register_schema(topic("latest-value"), avro_schema))
        await settled(client.clear_latest_caches())
        latest = {"auto.register.schemas": False, "use.latest.version": True}
        normal = {"normalize.schemas": True}
        guid = {"schema.id.serializer": schema_registry.header_schema_id_serializer}
        for name, encode, value in (
            ("avro", await made(avro, "AvroSerializer", client, avro_schema), record),
            ("json", await made(json_schema, "JSONSerializer", order(version, "JSON", "json"), client), record),
            ("protobuf", await made(protobuf, "ProtobufSerializer", kind, client, normal), ParseDict(record, kind())),
            ("latest", await made(avro, "AvroSerializer", client, None, conf=latest), record),
            ("header", await made(avro, "AvroSerializer", client, avro_schema, conf=guid), record),
        ):
            to = context(name)
            sent.append((to.topic, await settled(encode(value, to)), to.headers))
    readers = {
        ("avro", "as 1"): await made(avro, "AvroDeserializer", client, order(1, "AVRO", "avsc")),
        ("avro", "as 2"): await made(avro, "AvroDeserializer", client, order(2, "AVRO", "avsc")),
        ("json", "as written"): await made(json_schema, "JSONDeserializer", None, schema_registry_client=client),
        ("protobuf", "as 1"): await made(protobuf, "ProtobufDeserializer", message(1), None, client),
        ("protobuf", "as 2"): await made(protobuf, "ProtobufDeserializer", message(2), None, client),
        ("latest", "as written"): await made(avro, "AvroDeserializer", client),
        ("header", "as written"): await made(avro, "AvroDeserializer", client),
    }
    return {"read": await carried(sent, readers), "answers": await administer(client)}


async def by_community() -> dict[str, Any]:
    """Use both clients of python-schema-registry-client, which do not support references."""
    parts = {ending: json.loads((SCHEMAS / f"address.{ending}").read_text()) for ending in ("avsc", "json")}

    def whole(version: int, ending: str) -> Any:
        schema_json = json.loads((SCHEMAS / str(version) / f"order.{ending}").read_text())
        if ending == "avsc":
            schema_json["fields"][1]["type"] = parts[ending]
        else:
            schema_json["properties"]["to"] = parts[ending]
        return schema_json

    client = community.SchemaRegistryClient(url=WHERE["registry"])
    later = community.AsyncSchemaRegistryClient(url=WHERE["registry"])
    avro_schemas = {version: community.schema.AvroSchema(whole(version, "avsc")) for version in ORDERS}
    by_json = by_hand.JsonMessageSerializer(client)
    writers = {
        "avro": by_hand.AvroMessageSerializer(client).encode_record_with_schema,
        "later": by_hand.AsyncAvroMessageSerializer(later).encode_record_with_schema,
        "json": by_json.encode_record_with_schema,
    }
    sent: list[Any] = []
    for version, record in ORDERS.items():
        for name, encode in writers.items():
            json_schema = community.schema.JsonSchema(whole(version, "json"))
            schema = json_schema if name == "json" else avro_schemas[version]
            sent.append((topic(name), await settled(encode(f"{topic(name)}-value", schema, record)), []))
    readers: dict[tuple[str, str], Codec] = {("json", "as written"): by_json.decode_message}
    for version, schema in avro_schemas.items():
        now, then = (
            kind(reader, reader_schema=schema.schema)
            for kind, reader in (
                (by_hand.AvroMessageSerializer, client),
                (by_hand.AsyncAvroMessageSerializer, later),
            )
        )
        readers |= {("avro", f"as {version}"): now.decode_message, ("later", f"as {version}"): then.decode_message}
    subject = topic("avro-value")
    broken = json.dumps(whole(1, "avsc")).replace('"int"', '"string"')
    answers = [
        client.get_versions(subject),
        client.test_compatibility(subject, avro_schemas[1]),
        client.test_compatibility(subject, broken),
        client.test_compatibility(subject, broken, verbose=True)["is_compatible"],
        client.check_version(subject, broken),
        client.get_schema("nothing"),
        client.get_by_id(1_000_000),
        client.update_compatibility("FULL", subject),
        client.get_compatibility(subject),
        [reader.version for reader in client.get_schema_subject_versions(client.get_schema(subject, 2).schema_id)],
        client.delete_version(subject, 1),
        client.delete_subject(subject),
    ]
    return {"read": await carried(sent, {key: one(decode) for key, decode in readers.items()}), "answers": answers}


async def guarded() -> list[Any]:
    """Return for each of WHERE's ``credentials`` if registering a schema and reading it are allowed."""
    allowed: list[Any] = []
    for settings in WHERE["credentials"]:
        client = schema_registry.SchemaRegistryClient({"url": WHERE["registry"], **settings})
        calls: tuple[Codec, ...] = (
            lambda of: of.register_schema(*address("AVRO", "avsc")),
            lambda of: of.get_schema(1),
        )
        for call in calls:
            try:
                allowed.append(bool(call(client)))
            except schema_registry.error.SchemaRegistryError as error:
                allowed.append(error.error_code)
    return allowed


def one(decode: Codec) -> Codec:
    """A reader that looks at nothing but the value."""
    return lambda value, _: decode(value)


async def carried(sent: list[Any], readers: dict[tuple[str, str], Codec]) -> dict[str, Any]:
    """Send records, and receive them by Kafka; what each reader reads, the records by their ids."""
    brokers = {"bootstrap.servers": WHERE["brokers"]}
    producer = Producer(brokers)
    for name, value, headers in sent:
        producer.produce(name, value, headers=headers)
    assert producer.flush(PATIENCE) == 0
    consumer = Consumer({**brokers, "group.id": WHERE["topics"], "auto.offset.reset": "earliest"})
    consumer.subscribe(sorted({name for name, *_ in sent}))
    read: dict[str, list[Any]] = {" ".join(key): [] for key in readers}
    for _ in sent:
        received = consumer.poll(PATIENCE)
        assert received is not None
        assert received.error() is None, received.error()
        for (name, how), decode in readers.items():
            if topic(name) == received.topic():
                to = SerializationContext(topic(name), MessageField.VALUE, received.headers())
                read[f"{name} {how}"].append(shown(await settled(decode(received.value(), to))))
    consumer.close()
    return {name: sorted(records, key=lambda record: record["id"]) for name, records in read.items()}


def shown(record: Any) -> Any:
    """A record as JSON."""
    return record if isinstance(record, dict) else MessageToDict(record, always_print_fields_with_no_presence=True)


PROGRAMS = {
    "sync": lambda: confluent(""),
    "async": lambda: confluent("Async"),
    "community": by_community,
    "guarded": guarded,
}
json.dump(asyncio.run(PROGRAMS[sys.argv[1]]()), sys.stdout, default=vars)
