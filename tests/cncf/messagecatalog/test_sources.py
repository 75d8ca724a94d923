"""Documents of catalogs in folders."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.cncf.messagecatalog.documents import adopt_catalog_documents
from signalbook.documents import DocumentError, SourceDocument, merge

GROUP = {"id": "g", "format": "NATS"}
PUB = {"pub": {"subject": {"value": "a"}}}


def sources(**documents: Any) -> list[SourceDocument]:
    """Documents by path, with ``__`` for a slash."""
    return [SourceDocument(name=name.replace("__", "/"), document=document) for name, document in documents.items()]


def groups(*read: SourceDocument) -> Any:
    return merge(adopt_catalog_documents(read), name="folder").document["messagegroups"]


def test_groups_and_what_lies_beside_them() -> None:
    """C-14: a definition belongs to the group of its folder, or of one above."""
    found = groups(
        *sources(
            f__group=GROUP,
            f__d={"id": "d", "versions": [{"version": 2, "definition": PUB}]},
            f__deep__e={"id": "e", "relatedto": "d", "pub": {"subject": "b"}},
        )
    )
    messages = found["g"]["messages"]
    assert messages["d"]["versions"]["2"]["protocoloptions"] == {"subject": "a"}
    assert messages["e"]["versions"]["1"]["relatedto"] == "d"


def test_a_definition_without_a_group_is_of_one_named_like_its_folder() -> None:
    found = groups(*sources(shop__d={"id": "d", "format": "NATS", "definition": PUB}))
    assert found["shop"]["protocol"] == "NATS"
    with pytest.raises(DocumentError, match="belongs to a group"):
        adopt_catalog_documents(sources(d={"id": "d", "format": "NATS", "definition": PUB}))


def test_versions_in_several_files() -> None:
    one, two = ({"id": "d", "version": number, "definition": PUB, "tags": str(number)} for number in (1, 2))
    found = groups(*sources(f__b=two, f__a=one, f__group=GROUP))
    assert list(found["g"]["messages"]["d"]["versions"]) == ["1", "2"]
    with pytest.raises(DocumentError, match="another version 1 of d"):
        adopt_catalog_documents(sources(f__a=one, f__b=one, f__group=GROUP))


def test_a_root_document_beside_one_of_the_registry() -> None:
    """C-12: what is a registry's stays as it is."""
    registry: Any = {"schemagroups": {"s": {}}}
    found = adopt_catalog_documents(sources(a={"specversion": "0.1", "groups": {"g": GROUP}}, b=registry))
    assert [source.document for source in found] == [registry, {"messagegroups": {"g": {"protocol": "NATS"}}}]
    assert adopt_catalog_documents(sources(b=registry, c={"name": "left-pad"})) == sources(
        b=registry, c={"name": "left-pad"}
    )


def test_duplicates_are_errors() -> None:
    """C-14."""
    with pytest.raises(DocumentError, match="a and b both have the group g"):
        adopt_catalog_documents(sources(a=GROUP, b={"groups": [GROUP]}))
    with pytest.raises(DocumentError, match="any of the groups beside it: g, h"):
        adopt_catalog_documents(sources(f__a=GROUP, f__b={**GROUP, "id": "h"}, f__d={"id": "d", "definition": PUB}))


def test_every_fault_is_told_with_its_file() -> None:
    wrong = {**GROUP, "definitions": [{"id": "d", "definition": {"pub": {"queue": {}}}}, {"id": "e e"}]}
    with pytest.raises(DocumentError) as caught:
        adopt_catalog_documents(sources(f=wrong))
    assert "f: definitions[0].definition.pub.queue: pub has no field 'queue'" in str(caught.value)
    assert "f: definitions[1].id" in str(caught.value)


def test_what_is_taken_though_it_is_not_right_is_told() -> None:
    """B-3, C-14, C-21, L-19, L-38."""
    group = {"id": "g", "format": "CloudsEvents", "labels": 1}
    attributes = {"type": {"value": "a"}, "subject": {"value": "{group-id}"}}
    event = {"id": "a", "authority": "cloudevents.io", "definition": {"attributes": attributes}}
    found = adopt_catalog_documents(sources(f__group=group, f__event=event, f__package={"name": "left-pad"}))
    assert [repair.rule for repair in found[0].repairs] == ["B-3", "L-19", "C-21", "C-14"]
    body = found[0].document["messagegroups"]["g"]
    assert body["labels"] == {"import.source": "group", "import.repairs": "B-3,C-21,L-19"}
    assert body["messages"]["a"]["versions"]["1"]["authority"] == "cloudevents.io"
