"""What a folder holds."""

from __future__ import annotations

import pytest

from signalbook.documents import DocumentError

from .conftest import Catalogue

GROUP = {"id": "shop", "specversion": "0.1", "format": "NATS", "definitions": {}}
PUB = {"pub": {"subject": {"value": "a"}}}


def test_documents_of_a_message_catalog_are_served(catalogue: Catalogue) -> None:
    """C-14: in JSON or YAML, whatever their shape; what is none of a catalog's is told."""
    catalogue.write("shop/group.json", GROUP)
    catalogue.write(
        "shop/placed.yaml", "{id: placed, versions: [{version: 3, definition: {pub: {subject: {value: a}}}}]}"
    )
    catalogue.write("package.json", {"name": "left-pad"})
    catalogue.watch.load()
    message = catalogue.get("/messagegroups/shop/messages/placed")
    assert (message["versionid"], message["protocoloptions"]) == ("3", {"subject": "a"})
    assert catalogue.watch.status["repairs"] == 1


def test_a_catalog_that_changes(catalogue: Catalogue) -> None:
    catalogue.write("shop/group.json", GROUP)
    catalogue.write("shop/placed.json", {"id": "placed", "definition": PUB})
    catalogue.watch.load()
    catalogue.write("shop/placed.json", {"id": "placed", "version": 2, "definition": PUB})
    catalogue.watch.load()
    assert list(catalogue.get("/messagegroups/shop/messages/placed")["versions"]) == ["2"]


def test_a_group_is_in_one_file(catalogue: Catalogue) -> None:
    """C-14."""
    catalogue.write("a.json", GROUP)
    catalogue.write("b.json", GROUP)
    with pytest.raises(DocumentError, match="both have the group shop"):
        catalogue.watch.load()
