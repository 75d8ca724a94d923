from pathlib import Path

import pytest

from signalbook.documents import DocumentError, proto_format, read_folder

MONEY = 'syntax = "proto3";\nmessage Money {}\n'


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / "protos" / f"{name.replace('__', '/')}.proto"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "protos"


def test_a_group_of_files(tmp_path: Path) -> None:
    protos = folder(tmp_path, shop__v1__money=MONEY, top="message Old {}", **{".git__x": "not proto"})
    (source,) = read_folder(protos)
    assert source.name == str(protos)
    assert source.document["xid"] == "/schemagroups/protos"
    schemas = source.document["schemas"]
    assert schemas.keys() == {"shop.v1.money", "top"}
    expected = {"name": "shop/v1/money.proto", "format": "Protobuf/3", "contenttype": "text/plain", "schema": MONEY}
    assert schemas["shop.v1.money"] == expected
    assert schemas["top"]["format"] == "Protobuf/2"


def test_registry_documents_come_first(tmp_path: Path) -> None:
    protos = folder(tmp_path, money=MONEY)
    (protos / "shop.xreg.json").write_text('{"schemagroups": {}}')
    assert [Path(source.name).name for source in read_folder(protos)] == ["shop.xreg.json"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a__b": MONEY, "a.b": MONEY}, "would both be the schema a.b"),
        ({"ä": MONEY, "ö": MONEY}, "makes no id"),
        ({"x" * 130: MONEY}, "at most 128"),
    ],
)
def test_conflicting_files_are_rejected(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_folder(folder(tmp_path, **files))


def test_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path, a=MONEY) / "a.proto"
    path.write_bytes(b"// caf\xe9\n")
    with pytest.raises(DocumentError, match=r"a\.proto: not UTF-8 text \(byte 6\)"):
        read_folder(path.parent)


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("// a licence\nsyntax = 'proto2';", "Protobuf/2"),
        ('syntax="proto3";', "Protobuf/3"),
        ('edition = "2023";', "Protobuf"),
        ('package a; // syntax = "proto3"', "Protobuf/2"),
        ('/* once:\nsyntax = "proto2";\n*/ // and then\nsyntax = "proto3";', "Protobuf/3"),
        ("\n" * 100_000 + "package a;", "Protobuf/2"),  # took minutes
        ("/\n" * 100_000 + "/*" * 100_000, "Protobuf/2"),
        ("\ufeffsyntax /* as */ = // it is\n 'proto3';", "Protobuf/3"),
    ],
)
def test_the_format_a_file_states(text: str, format: str) -> None:
    assert proto_format(text.encode()) == format
