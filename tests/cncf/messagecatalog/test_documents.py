from typing import Any

import pytest

from signalbook.cncf.messagecatalog import definitions, documents
from signalbook.cncf.messagecatalog.documents import adopt_catalog_documents, validate_group_document
from signalbook.documents import DocumentError, SourceDocument, merge

ONE = {"pub": {"subject": {"value": "a"}}}
TWO = {"pub": {"subject": {"value": "a"}, "replyto": {"value": "b"}}}
DATED = {"createdtimeutc": "2022-01-28T00:00:00Z"}
SPELT = [{"pub": {"subject": "a"}}, {"version": 2, **DATED, "pub": {"subject": "a", "replyto": "b"}}]
VERSIONS = [{"version": 1, "definition": ONE}, {"version": 2, "definition": TWO, **DATED}]
DEFINITION = {"id": "d", "description": "of both", "versions": VERSIONS}


def read(document: Any) -> Any:
    reading = documents.CatalogReader()
    group = reading.read_group({"id": "g", "format": "NATS", "definitions": document})
    return group, [fault.path for fault in reading.findings]


@pytest.mark.parametrize(
    "collection",
    [
        pytest.param([DEFINITION], id="a list"),
        pytest.param({"d": DEFINITION}, id="a map"),
        pytest.param({"d": {k: v for k, v in DEFINITION.items() if k != "id"}}, id="a map, ids as keys"),
        pytest.param(
            [{**DEFINITION, "versions": {"1": {"definition": ONE}, "2": {"definition": TWO, **DATED}}}],
            id="versions as a map",
        ),
        pytest.param([{**DEFINITION, "versions": SPELT}], id="B-5 as the first draft spells them"),
    ],
)
def test_every_shape_is_the_same_document(collection: Any) -> None:
    """The versions keep their numbers, in ascending order (C-9, C-12)."""
    group, faults = read(collection)
    assert faults == [] == list(validate_group_document(group, "NATS", ()))
    group_attributes = documents.build_registry_group(group)
    assert group_attributes["protocol"] == "NATS"
    versions = group_attributes["messages"]["d"]["versions"]
    expected = {"1": {"subject": "a"}, "2": {"subject": "a", "reply-to": "b"}}
    assert {number: version["protocoloptions"] for number, version in versions.items()} == expected
    assert [version["description"] for version in versions.values()] == ["of both", "of both"]
    assert (versions["2"]["ancestorid"], versions["2"]["createdat"]) == ("1", "2022-01-28T00:00:00Z")


@pytest.mark.parametrize(
    ("collection", "wrong"),
    [
        pytest.param({"x": DEFINITION}, ["definitions.x.id"], id="C-12 another key"),
        pytest.param([{**DEFINITION, "id": "a b"}], ["definitions[0].id"], id="L-4"),
        pytest.param([{**DEFINITION, "versions": []}], ["definitions[0].versions"], id="C-8"),
        pytest.param([{"id": "d"}], ["definitions[0].definition"], id="C-8 none"),
        pytest.param([{"id": "d", "definition": 5}], ["definitions[0].definition"], id="C-4"),
        pytest.param(
            [{**DEFINITION, "versions": [{"id": "e", "definition": ONE}]}], ["definitions[0].versions[0].id"], id="C-10"
        ),
        pytest.param([5], ["definitions"], id="C-9 objects"),
        pytest.param("text", ["definitions"], id="C-9 a list"),
    ],
)
def test_faults_have_paths(collection: Any, wrong: list[str]) -> None:
    assert read(collection)[1] == wrong


def test_a_whole_catalog() -> None:
    """A document can contain a whole catalog (C-12)."""
    reading = documents.CatalogReader()
    group = {"format": "NATS", "messagedefinitions": [DEFINITION]}
    groups = reading.read_root({"specversion": "0.2", "groups": {"g": group}})
    assert [(group.id, len(group.posted)) for group in groups] == [("g", 2)]
    assert [fault.path for fault in reading.findings] == ["specversion"]


@pytest.mark.parametrize(
    ("more_definitions", "wrong"),
    [
        pytest.param([{"id": "e", "relatedto": "d", "definition": ONE}], [], id="C-15"),
        pytest.param(
            [{"id": "e", "relatedto": "f", "definition": ONE}, {"id": "f", "definition": ONE}], [], id="C-15 forward"
        ),
        pytest.param(
            [{"id": "e", "relatedto": "f", "definition": ONE}], ["definitions[1].relatedto"], id="C-15 dangling"
        ),
        pytest.param([{"id": "e", "relatedto": "e", "definition": ONE}], [], id="C-18"),
    ],
)
def test_relations_are_checked_after_all_definitions(more_definitions: Any, wrong: list[str]) -> None:
    group, _ = read([DEFINITION, *more_definitions])
    assert [fault.path for fault in validate_group_document(group, "NATS", ())] == wrong


def test_duplicate_version_is_reported() -> None:
    group, _ = read([{**DEFINITION, "versions": [{"version": 1, "definition": ONE}] * 2}])
    assert [fault.path for fault in validate_group_document(group, "NATS", ())] == [
        "definitions[0].versions[1].version"
    ]


def test_versions_with_different_criteria_are_a_finding() -> None:
    """The versions of a definition all have the same criteria (B-6)."""
    versions = [{"definition": {"attributes": {"type": {"value": value}}}} for value in ("a%20b", "a b")]
    group, _ = read([{"id": "a%20b", "versions": versions}])
    assert [fault.rule for fault in validate_group_document(group, "CloudEvents", ())] == ["criteria"]


def test_versions_among_each_other() -> None:
    """Attributes common to all versions are moved to the definition (C-9)."""
    common = {"id": "d", "specversion": "0.1", "format": "NATS"}
    versions = [{**common, "version": 1, "definition": ONE}, {**common, "version": 2, "definition": TWO}]
    expected = [{"version": 1, "definition": ONE}, {"version": 2, "definition": TWO}]
    assert definitions.build_embedded_definition(versions) == {"id": "d", "format": "NATS", "versions": expected}


GROUP = {"id": "g", "format": "NATS"}
PUB = {"pub": {"subject": {"value": "a"}}}


def sources(**documents: Any) -> list[SourceDocument]:
    """Documents by path, with ``__`` for a slash."""
    return [SourceDocument(name=name.replace("__", "/"), document=document) for name, document in documents.items()]


def groups(*read: SourceDocument) -> Any:
    return merge(adopt_catalog_documents(read), name="folder").document["messagegroups"]


def test_definition_belongs_to_the_nearest_group() -> None:
    """The group is that of the folder of the definition, or of one above (C-14)."""
    first = {"id": "d", "versions": [{"version": 2, "definition": PUB}]}
    second = {"id": "e", "relatedto": "d", "pub": {"subject": "b"}}
    catalog = groups(*sources(f__group=GROUP, f__d=first, f__deep__e=second))
    messages = catalog["g"]["messages"]
    assert messages["d"]["versions"]["2"]["protocoloptions"] == {"subject": "a"}
    assert messages["e"]["versions"]["1"]["relatedto"] == "d"


def test_a_definition_without_a_group_is_of_one_named_like_its_folder() -> None:
    catalog = groups(*sources(shop__d={"id": "d", "format": "NATS", "definition": PUB}))
    assert catalog["shop"]["protocol"] == "NATS"
    with pytest.raises(DocumentError, match="belongs to a group"):
        adopt_catalog_documents(sources(d={"id": "d", "format": "NATS", "definition": PUB}))


def test_versions_in_several_files() -> None:
    first, two = ({"id": "d", "version": number, "definition": PUB, "tags": str(number)} for number in (1, 2))
    catalog = groups(*sources(f__b=two, f__a=first, f__group=GROUP))
    assert list(catalog["g"]["messages"]["d"]["versions"]) == ["1", "2"]
    with pytest.raises(DocumentError, match="another version 1 of d"):
        adopt_catalog_documents(sources(f__a=first, f__b=first, f__group=GROUP))


def test_registry_document_is_kept_next_to_a_catalog_document() -> None:
    """The document of the registry is unchanged (C-12)."""
    registry: Any = {"schemagroups": {"s": {}}}
    adopted = adopt_catalog_documents(sources(a={"specversion": "0.1", "groups": {"g": GROUP}}, b=registry))
    assert [source.document for source in adopted] == [registry, {"messagegroups": {"g": {"protocol": "NATS"}}}]
    expected = sources(b=registry, c={"name": "left-pad"})
    assert adopt_catalog_documents(sources(b=registry, c={"name": "left-pad"})) == expected


def test_duplicates_are_errors() -> None:
    """Duplicate groups and definitions without a unique group are errors (C-14)."""
    with pytest.raises(DocumentError, match="a and b both have the group g"):
        adopt_catalog_documents(sources(a=GROUP, b={"groups": [GROUP]}))
    with pytest.raises(DocumentError, match="any of the groups beside it: g, h"):
        adopt_catalog_documents(sources(f__a=GROUP, f__b={**GROUP, "id": "h"}, f__d={"id": "d", "definition": PUB}))


def test_every_fault_is_reported_with_its_file() -> None:
    wrong = {**GROUP, "definitions": [{"id": "d", "definition": {"pub": {"queue": {}}}}, {"id": "e e"}]}
    with pytest.raises(DocumentError) as caught:
        adopt_catalog_documents(sources(f=wrong))
    assert "f: definitions[0].definition.pub.queue: pub has no field 'queue'" in str(caught.value)
    assert "f: definitions[1].id" in str(caught.value)


def test_accepted_errors_are_reported() -> None:
    """B-3, C-14, C-21, L-19, L-38."""
    group = {"id": "g", "format": "CloudsEvents", "labels": 1}
    attributes = {"type": {"value": "a"}, "subject": {"value": "{group-id}"}}
    event = {"id": "a", "authority": "cloudevents.io", "definition": {"attributes": attributes}}
    adopted = adopt_catalog_documents(sources(f__group=group, f__event=event, f__package={"name": "left-pad"}))
    expected = [("f/group", "B-3"), ("f/event", "L-19"), ("f/event", "C-21"), ("f/package", "C-14")]
    assert [(file, repair.rule) for file, repair in adopted[0].iterate_repairs()] == expected
    body = adopted[0].document["messagegroups"]["g"]
    assert body["labels"] == {"import.source": "group", "import.repairs": "B-3,C-21,L-19"}
    assert body["messages"]["a"]["versions"]["1"]["authority"] == "cloudevents.io"
