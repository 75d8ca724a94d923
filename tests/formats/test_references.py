"""The schema that a reference names (docs/references.md)."""

from itertools import product

import pytest

from signalbook.formats import SchemaError, references
from signalbook.formats.imports import is_built_in, is_well_known
from signalbook.formats.protobuf import FORMAT
from signalbook.formats.references import ReferableSchema, SchemaNames

G = "/schemagroups/g"
H = "/schemagroups/h"


def proto(xid: str, name: str = "", root: str = "") -> ReferableSchema:
    return ReferableSchema(xid, "Protobuf/3", name, root)


def test_the_paths_of_a_schema() -> None:
    """The paths consist of the id and the name, alone and below the root of the group, which is its id by default."""
    assert proto(f"{G}/schemas/status").list_names() == {"status.proto", "g/status.proto"}
    stated = proto(f"{G}/schemas/status.proto", root="google/rpc/")
    assert stated.list_names() == {"status.proto", "google/rpc/status.proto"}
    assert "google/rpc/status.proto" in proto(f"{G}/schemas/google.rpc.status").list_names()
    assert "google/rpc/status.proto" in proto("/schemagroups/google.rpc/schemas/status").list_names()
    assert (
        "a/b.proto" in proto(f"{G}/schemas/x", "a/b.proto").list_names() & proto(f"{G}/schemas/x", "a/b").list_names()
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("money.proto", f"{G}/schemas/money"),  # its own group before others
        ("units.proto", f"{H}/schemas/units"),  # one of another group
        ("order.proto", None),  # two of other groups
        ("nothing.proto", None),
        ("google/rpc/status.proto", None),  # built in, whatever other groups have
        ("google/rpc/code.proto", f"{G}/schemas/google.rpc.code"),  # its own group has another
    ],
)
def test_nearest_schema_is_found(path: str, expected: str | None) -> None:
    schemas = [f"{G}/schemas/money", f"{H}/schemas/money", f"{H}/schemas/units", f"{H}/schemas/order"]
    schemas += ["/schemagroups/i/schemas/order", f"{H}/schemas/google.rpc.status", f"{G}/schemas/google.rpc.code"]
    assert SchemaNames(map(proto, schemas)).find(path, G) == expected


def test_keys_of_an_index_hold_two_parts_of_a_path() -> None:
    """Every name that a document can use has a key of the schema."""
    names = product(("c", "b.c", "a.b.c"), ("", "y/c"), ("", "r/s"))
    schemas = [proto(f"{G}/schemas/{schema_id}", name, root) for schema_id, name, root in names]
    for schema in schemas:
        assert all(references.lookup_keys(name) & references.index_keys(schema) for name in schema.list_names())
    assert references.index_keys(proto(f"{G}/schemas/a.b.c")) == {"file:a.b.c", "file:b/c"}
    assert references.lookup_keys("../a/./b/c.proto") == {"id:../a/./b/c.proto", "file:b/c", "file:c"}


def test_built_in_files_are_recognised() -> None:
    assert is_well_known("google/protobuf/any.proto")
    assert not is_well_known("google/protobuf/nothing.proto")
    assert not is_built_in(f"google/protobuf/{'a' * 300}.proto")
    assert all(is_built_in(f"google/{path}.proto") for path in ("api/http", "rpc/status", "type/money", "protobuf/any"))
    # Other packages have files there as well, on some machines.
    assert not is_built_in("google/events/cloud/audit/v1/data.proto")


def test_common_protos_need_no_resolver() -> None:
    """Nor does what goes by another name in their package."""
    document = b"""
        syntax = "proto3";
        import "google/rpc/status.proto"; import "google/type/money.proto";
        import "google/longrunning/operations.proto";
        message A { google.rpc.Status s = 1; google.longrunning.Operation o = 2; google.type.Money m = 3; }
    """
    assert FORMAT.check(document, "Protobuf/3") == []
    assert FORMAT.parse(document, "Protobuf/3").decode(b"\x0a\x02\x08\x05")["s"]["code"] == 5


def test_missing_imports_are_reported_with_their_files() -> None:
    imports = {"a.proto": b'syntax = "proto3"; import "b/c.proto";'}
    with pytest.raises(SchemaError) as caught:
        FORMAT.parse(b'import "a.proto"; import "d.proto"; message A {}', "Protobuf", resolve=imports.get)
    messages = sorted(finding.message for finding in caught.value.findings)
    expected = ["a.proto imports 'b/c.proto'", "it imports 'd.proto'"]
    assert [message.partition(", which")[0] for message in messages] == expected
    assert all("protobuf.root" in message for message in messages)


def test_one_file_by_two_paths() -> None:
    """The types of the file are defined once."""
    money = b'syntax = "proto3"; package m; message Money { int32 units = 1; }'
    imports = {
        "money.proto": money,
        "common/money.proto": money,
        "price.proto": b'syntax = "proto3"; import "common/money.proto"; message Price { m.Money of = 1; }',
    }
    document = (
        b'syntax = "proto3"; import "money.proto"; import "price.proto"; message A { m.Money m = 1; Price p = 2; }'
    )
    actual = FORMAT.parse(document, "Protobuf/3", link="A", resolve=imports.get).decode(b"\x12\x04\x0a\x02\x08\x07")
    assert actual == {"p": {"of": {"units": 7}}}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("shop.Address", "shop.Address"),
        ("address.json", "address.json"),
        ("/address.json", "address.json"),
        ("https://example.com/shop/address.json", "address.json"),
        ("https://example.com/shop/unaddress.json", None),
        ("https://example.com/whole.json", "https://example.com/whole.json"),
        ("parts/address.proto", "parts/address.proto"),
        ("other/address.proto", None),
    ],
)
def test_a_reference_matches_a_stated_name_or_its_end(uri: str, expected: str | None) -> None:
    names = ["shop.Address", "address.json", "https://example.com/whole.json", "address.proto", "parts/address.proto"]
    assert references.match_reference({name: name for name in names}, uri) == expected


@pytest.mark.parametrize("format", ["Avro/1.12.0", "JsonSchema/draft-07", "Protobuf/3", "XSD/1.1"])
@pytest.mark.parametrize(
    "document",
    [
        b"", b"\xff", b'"\xed\xa0\x80"', b'{"$id": "\xff"}', b"[" * 100_000, b'{"$id": 3}',
        b'{"type": ["record"], "name": "A"}',
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_read_has_no_names(format: str, document: bytes) -> None:
    assert references.list_identities(document, format) == ()
