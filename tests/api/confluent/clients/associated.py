"""An application whose topic has its subjects by association: printed is what the client for Python has found."""

import json
import sys
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    Schema,
)
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = {"resource_name": "orders", "resource_namespace": "lkc-1", "resource_id": "topic-1", "resource_type": "topic"}
TEXT = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
CONFIG = {
    "auto.register.schemas": False,
    "subject.name.strategy.conf": {"subject.name.strategy.kafka.cluster.id": "lkc-1"},
}
client = SchemaRegistryClient({"url": sys.argv[1]})


def associate(**stated: Any) -> Any:
    """The kind of the association that is made, or the code of what fails."""
    association_info = AssociationCreateOrUpdateInfo(association_type="value", **stated)
    try:
        created = client.create_association(AssociationCreateOrUpdateRequest(**TOPIC, associations=[association_info]))
    except SchemaRegistryError as error:
        return error.error_code
    return [[association.subject, association.lifecycle] for association in created.associations or ()]


def id_written() -> int:
    """The id before a value of the topic, of the schema in the subject that its serializer has found."""
    write = AvroSerializer(client, TEXT, conf=CONFIG)
    value = write({"id": 1}, SerializationContext("orders", MessageField.VALUE))
    return int.from_bytes(value[1:5], "big")


def subjects(namespace: str) -> list[str | None]:
    """Return the subjects associated with the topic."""
    return [association.subject for association in client.get_associations_by_resource_name("orders", namespace)]


client.register_schema("unused", Schema('"string"', "AVRO"))
found: dict[str, Any] = {"without a version": associate(subject="shop")}
number = client.register_schema("shop", Schema(TEXT, "AVRO"))
found |= {"weak": associate(subject="shop"), "weakly written": id_written() == number, "listed": subjects("-")}
client.delete_associations("topic-1", "topic", ["value"])
found |= {"deleted": subjects("lkc-1"), "strong": associate(schema=Schema(TEXT, "AVRO")), "again": subjects("lkc-1")}
sys.stdout.write(json.dumps(found))
