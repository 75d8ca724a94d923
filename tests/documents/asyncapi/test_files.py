"""AsyncAPI documents of several files: what they refer to is read from their folder, and from nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest

from signalbook.documents import DocumentError, read_folder, read_source
from signalbook.pipeline.job.documents import read_documents

KAFKA = {"host": "kafka.example:9092", "protocol": "kafka"}
OBJECT = {"type": "object"}
ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}}


def write(folder: Path, **files: Any) -> None:
    """Write ``files``; in their names a double underscore stands for a slash, and a single one for a dot."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def api(message: Any, **more: Any) -> dict[str, Any]:
    channels = {"placed": {"address": "orders.placed", "messages": {"m": message}}}
    return {
        "asyncapi": "3.0.0", "info": {"title": "Orders"}, "servers": {"b": KAFKA}, "channels": channels, **more,
    }  # fmt: skip


def reference(target: str) -> dict[str, str]:
    return {"$ref": target}


@pytest.mark.parametrize(
    ("message", "files", "definition", "schemas"),
    [
        (reference("messages.yaml#/placed"), {"messages_yaml": {"placed": {"payload": OBJECT}}},
         {"placed": {"dataschema": OBJECT}}, {}),
        (reference("./messages/placed.yaml"), {"messages__placed_yaml": "payload: {$ref: ../types.json#/address}",
                                               "types_json": {"address": ADDRESS}},
         {"placed": {"dataschemauri": "/schemagroups/Orders/schemas/address"}}, {"address": ADDRESS}),
        ({"payload": reference("types.yaml#/components/schemas/Order")},
         {"types_yaml": {"components": {"schemas": {"Order": {"items": reference("#/components/schemas/Address")},
                                                    "Address": ADDRESS}}}},
         {"m": {"dataschemauri": "/schemagroups/Orders/schemas/Order"}},
         {"Order": {"items": reference("#/definitions/Address"), "definitions": {"Address": ADDRESS}}}),
        ({"payload": reference("order.yaml")},
         {"order_yaml": {"properties": {"to": reference("parts/address.json"), "up": reference("#")}},
          "parts__address_json": ADDRESS},
         {"m": {"dataschemauri": "/schemagroups/Orders/schemas/order"}},
         {"order": {"properties": {"to": reference("#/definitions/address"), "up": reference("#")},
                    "definitions": {"address": ADDRESS}}}),
        ({"payload": {"properties": {"to": reference("types.yaml#/address")}}},
         {"types_yaml": {"address": {"const": reference("not a reference")}}},
         {"m": {"dataschema": {"properties": {"to": reference("#/definitions/address")},
                               "definitions": {"address": {"const": reference("not a reference")}}}}}, {}),
        ({"payload": reference("payloads.yaml#/order")},
         {"payloads_yaml": {"order": {"schemaFormat": "application/vnd.apache.avro", "schema": "string"}}},
         {"m": {"dataschemauri": "/schemagroups/Orders/schemas/order"}}, {"order": "string"}),
    ],
)  # fmt: skip
def test_references_to_files_are_resolved(
    tmp_path: Path, message: Any, files: dict[str, Any], definition: dict[str, Any], schemas: dict[str, Any]
) -> None:
    write(tmp_path, api_json=api(message), **files)
    source = read_source(tmp_path / "api.json")
    messages = source.document["messagegroups"]["Orders"]["messages"]
    assert messages.keys() == definition.keys()
    for name, expected in definition.items():
        assert messages[name].items() >= expected.items()
        assert messages[name]["protocoloptions"]["topic"] == "orders.placed"
    schemas_found = source.document.get("schemagroups", {}).get("Orders", {}).get("schemas", {})
    assert {name: schema["schema"] for name, schema in schemas_found.items()} == schemas
    assert len(source.files) == len(files)
    # The folder is the same document, and the files are none; so it is for the pipeline.
    (of_folder,) = read_folder(tmp_path)
    assert of_folder.document == source.document
    assert read_documents(str(tmp_path)) == read_documents(str(tmp_path / "api.json"))


def test_references_between_files_are_resolved(tmp_path: Path) -> None:
    """A reference is relative to the file that contains it, even if a trait copies it to another file."""
    messages = {"placed": reference("../api.json#/components/messages/placed")}
    channel = {"address": "orders.placed", "messages": messages, "servers": [reference("../servers.yaml#/prod")]}
    trait = {"headers": reference("headers.yaml")}
    document = api({}, components={"messages": {"placed": {"traits": [reference("traits/common.yaml#/trait")]}}})
    document |= {"channels": reference("channels/all.yaml"), "servers": {"b": reference("servers.yaml#/prod")}}
    write(
        tmp_path, api_json=document, servers_yaml={"prod": KAFKA}, channels__all_yaml={"placed": channel},
        traits__common_yaml={"trait": trait}, traits__headers_yaml={"properties": {"trace": {"type": "string"}}},
    )  # fmt: skip
    source = read_source(tmp_path / "api.json")
    assert source.document["messagegroups"]["Orders"]["messages"]["placed"]["protocoloptions"] == {
        "topic": "orders.placed", "headers": {"trace": {"name": "trace"}},
    }  # fmt: skip
    (endpoint,) = source.document["endpoints"].values()
    assert endpoint["protocoloptions"]["endpoints"] == [{"bootstrap.servers": ["kafka.example:9092"]}]
    assert not [repair for repair in source.repairs if repair.rule == "AS-1"]


def test_separate_schema_file_keeps_its_bytes(tmp_path: Path) -> None:
    text = '{ "type": "object",  "properties": {"gone": {"$ref": "gone.json"}} }'
    write(tmp_path, api_json=api({"payload": reference("order.json")}), order_json=text)
    schema = read_source(tmp_path / "api.json").document["schemagroups"]["Orders"]["schemas"]["order"]
    assert schema.keys() == {"format", "schemabase64", "contenttype"}


@pytest.mark.parametrize(
    "target",
    [
        *("../secret.yaml#/m", "%2e%2e/secret.yaml#/m", "link.yaml#/m", "gone.yaml#/m", ".", "a\0b"),
        *("a" * 300 + ".yaml", "/etc/passwd", "file:///etc/passwd", "//x.example/m.yaml", "http://["),
    ],
)
def test_references_outside_the_folder_are_omitted(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "spec"
    write(tmp_path, secret_yaml={"m": {"title": "secret"}}, spec__api_json=api(reference(target)))
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    source = read_source(folder / "api.json")
    assert "messagegroups" not in source.document
    assert source.files == ()
    assert [repair.path for repair in source.repairs if repair.rule == "AS-1"] == ["/channels/placed/messages/m"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"m_yaml": {"placed": {}}}, r"/channels/placed/messages/m: there is no m.yaml#/m"),
        ({"m_yaml": "m: ["}, r"api.json: m.yaml: "),
        ({"m_yaml": {"m": 5}}, r"m.yaml#/m: must be an object"),
        ({"m_yaml": {"m": reference("n.yaml#/m")}, "n_yaml": {"m": reference("m.yaml#/m")}}, "in a circle"),
        ({"m_yaml": {"m": reference("#anchor")}}, "there is no m.yaml#anchor"),
    ],
)
def test_errors_have_their_place(tmp_path: Path, files: dict[str, Any], reason: str) -> None:
    write(tmp_path, api_json=api(reference("m.yaml#/m")), **files)
    with pytest.raises(DocumentError, match=reason):
        read_source(tmp_path / "api.json")


def test_files_above_the_document_are_read_within_the_folder_that_is_imported(tmp_path: Path) -> None:
    message = {"payload": reference("../common/order.json")}
    write(tmp_path, apis__api_json=api(message), common__order_json={"items": reference("./address.json")},
          common__address_json=ADDRESS)  # fmt: skip
    (source,) = read_folder(tmp_path)
    expected = {"address": ADDRESS}
    assert source.document["schemagroups"]["Orders"]["schemas"]["order"]["schema"]["definitions"] == expected
    with pytest.raises(DocumentError, match=r"outside .* give a folder that holds both"):
        read_source(tmp_path / "apis" / "api.json")


def test_document_without_channels_is_only_a_part(tmp_path: Path) -> None:
    """A document without channels is only a part of others: by itself, its messages would match every topic."""
    common = {"asyncapi": "3.0.0", "info": {"title": "Common"}, "components": {"messages": {"paid": {}}}}
    other = api({"title": "Other"}) | {"info": {"title": "Other"}}
    paid = api(reference("common.json#/components/messages/paid"))
    more = api(reference("other.json#/channels/placed/messages/m")) | {"info": {"title": "More"}}
    write(tmp_path, api_json=paid, more_json=more, common_json=common, other_json=other)
    sources = read_folder(tmp_path)
    assert [Path(source.name).name for source in sources] == ["api.json", "more.json", "other.json"]
    assert list(sources[0].document["messagegroups"]["Orders"]["messages"]) == ["paid"]
