import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.documents import DocumentError, avroidl, merge, parse_source, read_folder, read_source
from signalbook.formats.avro.format import FORMAT

PROTOCOL = """
/** Orders of a shop. */
@namespace("acme.shop")
protocol Shop {
  import idl "common.avdl";

  /** How it
   *  stands. */
  enum State { NEW, /* not yet */ @old("x") SENT } = NEW;

  @aliases(["acme.Bought"]) @owner({"team": ["a", 'b']})
  record Placed {
    // a comment
    string id;
    acme.common.Money? total = null;
    int? pieces = 1;
    /** Both. */ @order("ignore") long /** The left. */ left = 0x10, right = -5L;
    array<map<union { null, Placed }>> parts = [];
    @logicalType("timestamp-micros") long at;
    timestamp_ms seen; decimal(9, 2) `record`; State state = "NEW"; Hash hash = "\\u0000\\7";
    double odd = NaN; float half = .5f;
  }

  fixed Hash(2);
  error Failed { string why; }
  Placed place(Placed order, int times = 1) throws Failed;
  void ping() oneway;
}
"""
COMMON = 'namespace acme.common; record Money { long units; string currency = "EUR"; }'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.avdl").write_text(PROTOCOL)
    (tmp_path / "common.avdl").write_text(COMMON)
    return tmp_path


def schemas(text: str, group: str = "t") -> dict[str, Any]:
    document = parse_source(text.encode(), name="t.avdl").document
    return {name: schema["schema"] for name, schema in document["schemagroups"][group]["schemas"].items()}


def test_a_protocol(folder: Path) -> None:
    source = read_source(folder / "shop.avdl")
    assert source.files == (folder / "common.avdl",)
    groups = source.document["schemagroups"]
    assert groups.keys() == {"acme.shop", "acme.common"}
    schemas_by_name = {name: entry["schema"] for name, entry in groups["acme.shop"]["schemas"].items()}
    assert schemas_by_name.keys() == {"State", "Placed", "Hash", "Failed"}
    assert schemas_by_name["State"] == {
        "type": "enum", "name": "State", "namespace": "acme.shop", "doc": "How it\n stands.",
        "symbols": ["NEW", "SENT"], "default": "NEW",
    }  # fmt: skip
    placed = schemas_by_name["Placed"]
    assert (placed["aliases"], placed["owner"]) == (["acme.Bought"], {"team": ["a", "b"]})
    fields = {entry["name"]: {key: entry[key] for key in entry.keys() - {"name"}} for entry in placed["fields"]}
    money = groups["acme.common"]["schemas"]["Money"]["schema"]
    assert fields == {
        "id": {"type": "string"},
        "total": {"type": ["null", money], "default": None},
        "pieces": {"type": ["int", "null"], "default": 1},
        "left": {"type": {"type": "long", "order": "ignore"}, "doc": "The left.", "default": 16},
        "right": {"type": {"type": "long", "order": "ignore"}, "doc": "Both.", "default": -5},
        "parts": {
            "type": {"type": "array", "items": {"type": "map", "values": ["null", "acme.shop.Placed"]}}, "default": [],
        },
        "at": {"type": {"type": "long", "logicalType": "timestamp-micros"}},
        "seen": {"type": {"type": "long", "logicalType": "timestamp-millis"}},
        "record": {"type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        "state": {"type": schemas_by_name["State"], "default": "NEW"},
        "hash": {"type": schemas_by_name["Hash"], "default": "\x00\x07"},
        "odd": {"type": "double"},
        "half": {"type": "float", "default": 0.5},
    }  # fmt: skip
    losses = [str(entry) for entry in source.repairs]
    assert losses == [
        "line 3: left out its description of the protocol Shop: there are schemas only [AV-2]",
        "line 9: left out old of the symbol SENT: it is but a name [AV-2]",
        "line 21: left out the default of odd: JSON has no such number [AV-2]",
        "line 3: left out the messages place, ping of the protocol Shop: they are calls [AV-2]",
    ]
    for name in schemas_by_name:
        text = json.dumps(groups["acme.shop"]["schemas"][name]["schema"]).encode()
        assert FORMAT.check(text, "Avro/1.11") == [], name


def test_the_schema_syntax() -> None:
    text = 'schema array<Row>; record Row { Row? next; other.Kind kind; } @namespace("other") enum Kind { A }'
    groups = parse_source(text.encode(), name="rows.avdl").document["schemagroups"]
    assert groups.keys() == {"rows", "other"}
    row = {
        "type": "record", "name": "Row", "fields": [
            {"name": "next", "type": ["null", "Row"]},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "namespace": "other", "symbols": ["A"]}},
        ],
    }  # fmt: skip
    assert groups["rows"]["schemas"]["Row"]["schema"] == row
    assert groups["rows"]["schemas"]["rows"]["schema"] == {"type": "array", "items": row}


def test_folder_is_read_as_one_document(folder: Path) -> None:
    """Equal definitions of two files are merged; an imported file has no group of its own."""
    (folder / "more.avdl").write_text('import idl "common.avdl"; record More { acme.common.Money m; }')
    groups = merge(read_folder(folder), name="x").document["schemagroups"]
    assert {group: list(group_content["schemas"]) for group, group_content in groups.items()} == {
        "more": ["More"], "acme.common": ["Money"], "acme.shop": ["Failed", "Hash", "Placed", "State"],
    }  # fmt: skip


def test_imports_in_json(tmp_path: Path) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["X"]}
    fields = [{"name": "e", "type": enum}, {"name": "again", "type": ["null", "E"]}]
    inner = {"type": "record", "name": "In", "namespace": "a", "fields": fields}
    (tmp_path / "in.avsc").write_text(json.dumps(inner))
    types = [{"type": "error", "name": "Bad", "fields": [{"name": "in", "type": "a.In"}]}]
    (tmp_path / "p.avpr").write_text(json.dumps({"protocol": "P", "namespace": "p", "types": types, "messages": {}}))
    (tmp_path / "t.avdl").write_text('import schema "in.avsc"; import protocol "p.avpr"; record T { p.Bad b; a.E e; }')
    (source,) = read_folder(tmp_path)
    record = source.document["schemagroups"]["t"]["schemas"]["T"]["schema"]
    assert record["fields"][0]["type"]["fields"][0]["type"]["fields"][1]["type"] == ["null", "a.E"]
    assert record["fields"][1]["type"] == "a.E"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no types"),
        ("protocol P {}", "it has no types"),
        ("protocol P {", "line 1: a type is expected"),
        ("record A { int }", "line 1: a name is expected, not '}'"),
        ("record A {\n int a }", "line 2: ; is expected, not '}'"),
        ("record A { B b; }", "line 1: there is no type B"),
        ("schema B;", "it has no types|there is no type B"),
        ("record A {} record A { int a; }", "two types called A"),
        ("enum E { A B }", ", is expected, not 'B'"),
        ("fixed F(x);", "a whole number is expected, not 'x'"),
        ("record A { @x(1) A a; }", "has no annotations"),
        ("record A { int a = $; }", "is nothing of Avro IDL"),
        ("/* no end", "is nothing of Avro IDL"),
        ('record A { string s = "\\q"; }', "a string with a fault"),
        ("protocol P { record A {} } x", "ends here"),
        ('import idl "x.avdl"; record A {}', "by its path"),
        ('schema int; record A { @doc("\\ud800") int a; }', "half a character"),
        ("record A { " + "array<" * 60 + "int" + ">" * 60 + " a; }", "nested deeper"),
        ("record A { int a = " + "[" * 90 + "]" * 90 + "; }", "nested deeper"),
    ],
)
def test_errors_have_their_line(text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse_source(text.encode(), name="t.avdl")


@pytest.mark.parametrize(
    "name", ["../secret.avdl", "/etc/passwd", "https://x.example/a.avdl", "no.avdl", "common.avsc"]
)
def test_imports_outside_the_folder_are_rejected(folder: Path, name: str) -> None:
    (folder / "in").mkdir()
    (folder / "secret.avdl").write_text("record S {}")
    (folder / "in" / "a.avdl").write_text(f'import idl "{name}"; record A {{}}')
    (folder / "in" / "common.avsc").write_text('"int"')
    with pytest.raises(DocumentError, match=r"a.avdl: line 1") as caught:
        read_source(folder / "in" / "a.avdl")
    assert str(caught.value).count("a.avdl: ") == 1


def test_imports_in_a_circle_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.avdl").write_text('import idl "b.avdl"; record A { B? b; }')
    (tmp_path / "b.avdl").write_text('import idl "./a.avdl"; record B { A? a; }')
    schemas_ = read_source(tmp_path / "a.avdl").document["schemagroups"]["a"]["schemas"]
    assert schemas_.keys() == {"A", "B"}
    assert schemas_["A"]["schema"]["fields"][0]["type"][1]["fields"][0]["type"] == ["null", "A"]


def test_excessive_expansion_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avroidl, "_MAX_VALUES", 10_000)
    text = f"record Big {{ {' '.join(f'int f{n};' for n in range(100))} }}"
    text += "".join(f"record R{n} {{ Big b; }}\n" for n in range(50))
    with pytest.raises(DocumentError, match="split it"):
        parse_source(text.encode(), name="t.avdl")


def test_types_nested_too_deeply_are_left_out() -> None:
    text = "".join(f"record R{n} {{ R{n + 1} r; }}\n" for n in range(40)) + "record R40 {}"
    source = parse_source(text.encode(), name="t.avdl")
    schemas_ = source.document["schemagroups"]["t"]["schemas"]
    assert "R40" in schemas_
    assert "R0" not in schemas_
    assert any("left out R0: its types are nested deeper" in str(repair) for repair in source.repairs)
    assert len(schemas_) + len(source.repairs) == 41


def test_ten_thousand_types() -> None:
    assert len(schemas("".join(f"record R{n} {{ int a; }}\n" for n in range(10_000)))) == 10_000


_words = st.sampled_from(["a", "b2", "record", "int", "_x", "union", "error"])
_defaults: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5) | st.just([]) | st.just({})
)
_types = st.recursive(
    st.sampled_from(["int", "long", "string", "bytes", "boolean", "double"]),
    lambda inner: (
        inner.map(lambda each: {"type": "array", "items": each})
        | inner.map(lambda each: {"type": "map", "values": each})
        | inner.filter(lambda each: not isinstance(each, list)).map(lambda each: ["null", each])
    ),
    max_leaves=4,
)
_parts = st.tuples(_words, _types, _defaults, st.text(max_size=8))
_fields = st.lists(_parts, max_size=4, unique_by=lambda each: each[0])


def written(kind: Any) -> str:
    if isinstance(kind, list):
        return "union { " + ", ".join(written(branch) for branch in kind) + " }"
    if isinstance(kind, dict):
        return f"{kind['type']}<{written(kind.get('items', kind.get('values')))}>"
    return str(kind)


@given(_fields)
def test_fields_survive_a_round_trip(fields: list[tuple[str, Any, Any, str]]) -> None:
    lines = [
        f"@note({json.dumps(note)}) {written(kind)} @note({json.dumps(note)}) `{name}` = {json.dumps(default)};"
        if not isinstance(kind, list)
        else f"{written(kind)} @note({json.dumps(note)}) `{name}` = {json.dumps(default)};"
        for name, kind, default, note in fields
    ]
    fields_read = schemas("record R {\n" + "\n".join(lines) + "\n}")["R"]["fields"]
    assert fields_read == [
        {
            "name": name,
            "type": kind
            if isinstance(kind, list)
            else {**(kind if isinstance(kind, dict) else {"type": kind}), "note": note},
            "default": default,
            "note": note,
        }
        for name, kind, default, note in fields
    ]


def test_avro_idl_is_read_next_to_other_documents(folder: Path) -> None:
    """Avro IDL is read next to Protobuf and YAML, but not next to files named as registry documents."""
    (folder / "a.proto").write_text('syntax = "proto3"; message A {}')
    groups = merge(read_folder(folder), name="x").document["schemagroups"]
    assert {"acme.shop", "acme.common"} < groups.keys()
    assert len(groups) == 3
    (folder / "b.yaml").write_text("schemagroups: {g: {schemas: {}}}")
    assert "g" in merge(read_folder(folder), name="x").document["schemagroups"]
    assert "acme.shop" in merge(read_folder(folder), name="x").document["schemagroups"]
    (folder / "c.xreg.json").write_text('{"schemagroups": {"h": {}}}')
    assert merge(read_folder(folder), name="x").document["schemagroups"].keys() == {"h"}


@pytest.mark.parametrize("name", ["a\\u0000b.avdl", "round.avdl"])
def test_unreadable_import_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "round.avdl").symlink_to(tmp_path / "round.avdl")
    (tmp_path / "a.avdl").write_text(f'import idl "{name}"; schema int;')
    with pytest.raises(DocumentError, match=r"a\.avdl: line 1: .* cannot be read"):
        read_source(tmp_path / "a.avdl")


def test_very_many_files_in_a_row(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"{number}.avdl").write_text(f'import idl "{number + 1}.avdl"; record A {{}}')
    with pytest.raises(DocumentError, match="more than 50 files import one another"):
        read_source(tmp_path / "0.avdl")
