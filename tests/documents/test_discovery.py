import json
from typing import Any

import pytest

from signalbook.documents import DocumentError, parse_source

SERVICE: dict[str, Any] = {
    "id": "3db60532-f6b2-42e1-8b7e-7f1c7c3d4e11",
    "epoch": 5,
    "name": "parcel store",
    "url": "https://discovery.example/services/3db60532-f6b2-42e1-8b7e-7f1c7c3d4e11",
    "description": "Parcels.",
    "docsurl": "https://docs.example/parcels",
    "specversions": ["1.0", "0.3"],
    "subscriptionurl": "https://events.example/subscribe",
    "subscriptionconfig": {"maxsize": "Integer"},
    "authscope": "parcels.read",
    "protocols": ["HTTP", "KAFKA"],
    "events": [
        {
            "type": "example.parcel.sent",
            "description": "It was sent.",
            "datacontenttype": "application/json",
            "dataschematype": "application/json",
            "dataschemacontent": '{"type": "object", "required": ["id"]}',
            "sourcetemplate": "https://parcels.example/{depot}",
            "extensions": [
                {"name": "sequence", "type": "Integer", "specurl": "https://docs.example/sequence"},
                {"name": "region", "type": "URI-Reference"},
            ],
        },
        {"type": "example/parcel lost", "dataschema": "https://schemas.example/lost"},
    ],
}


def read(document: Any) -> tuple[dict[str, Any], list[str]]:
    source = parse_source(json.dumps(document).encode(), name="services.json")
    return source.document, [str(document_) for document_ in source.repairs]


def test_a_service() -> None:
    imported, losses = read(SERVICE)
    group = imported["messagegroups"]["parcel-store"]
    assert {name: value for name, value in group.items() if name != "messages"} == {
        "name": "parcel store",
        "description": "Parcels.",
        "documentation": "https://docs.example/parcels",
        "labels": {
            "discovery.id": SERVICE["id"], "discovery.authscope": "parcels.read",
            "discovery.protocols": "HTTP, KAFKA", "import.source": "services.json",
            "import.repairs": "DS-1 DS-2 DS-5",
        },
        "envelope": "CloudEvents/1.0",
    }  # fmt: skip
    assert group["messages"]["example.parcel.sent"] == {
        "envelope": "CloudEvents/1.0",
        "description": "It was sent.",
        "datacontenttype": "application/json",
        "envelopemetadata": {
            "type": {"value": "example.parcel.sent"},
            "source": {"type": "uritemplate", "value": "https://parcels.example/{depot}"},
            "sequence": {"type": "integer", "specurl": "https://docs.example/sequence"},
            "region": {"type": "urireference"},
        },
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschema": {"type": "object", "required": ["id"]},
    }
    expected = {"value": "https://schemas.example/lost"}
    assert group["messages"]["example-parcel-lost"]["envelopemetadata"]["dataschema"] == expected
    actual = imported["endpoints"]["parcel-store"]["protocoloptions"]
    assert actual == {"endpoints": [{"uri": "https://events.example/subscribe"}]}
    assert losses == [
        ": its id is parcel-store, for parcel store [DS-5]".removeprefix(": "),
        "/events/1: its id is example-parcel-lost, for example/parcel lost [DS-5]",
        "left out subscriptionconfig [DS-2]",
        "/events/1/dataschema: the schema is elsewhere, and was not fetched [DS-1]",
    ]


@pytest.mark.parametrize("around", [lambda document_: [document_], lambda document_: {"services": [document_]}])
def test_lists_of_services(around: Any) -> None:
    assert list(read(around(SERVICE))[0]["messagegroups"]) == ["parcel-store"]


def test_the_names_of_the_first_texts_and_other_schemas() -> None:
    kinds = {"avro/binary": '{"type": "string"}', "application/protobuf": "message A {}", "application/yang": "x"}
    contents = enumerate(kinds.items())
    types = [{"type": f"t{n}", "dataschematype": kind, "dataschemacontent": text} for n, (kind, text) in contents]
    document = {key: value for key, value in SERVICE.items() if key != "events"} | {"types": types, "name": "s"}
    imported, losses = read(document)
    messages = imported["messagegroups"]["s"]["messages"]
    assert (messages["t0"]["dataschemaformat"], messages["t0"]["dataschema"]) == ("Avro/1.11", {"type": "string"})
    assert (messages["t1"]["dataschemaformat"], messages["t1"]["dataschema"]) == ("Protobuf", "message A {}")
    assert "dataschema" not in messages["t2"]
    loss = "/types/2/dataschemacontent: left out its schema: schemas in application/yang"
    assert any(loss in document_ for document_ in losses)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"events": []}, "have no events"),
        ({"events": {}}, "/events: must be a list"),
        ({"events": [{}]}, "/events/0: it has no name"),
        ({"name": "", "id": ""}, "it has no name"),
        ({"events": [{"type": "a", "dataschematype": "application/json", "dataschemacontent": "{"}]}, "is JSON"),
        ({"events": [{"type": "a", "extensions": [{}]}]}, "/events/0/extensions/0: it has no name"),
    ],
)
def test_errors_have_their_place(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read(SERVICE | change)
