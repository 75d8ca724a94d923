import time

import pytest
import yaml

from signalbook.formats import SchemaError, Struct
from signalbook.formats.protobuf import FORMAT
from signalbook.formats.protobuf.compiler import MAX_FILES, compile_set, gather, list_imports

MAIN = b'syntax = "proto3"; import "q/x.proto"; message A { q.B b = 1; }'


def test_imports_are_found_where_they_count() -> None:
    document = b"""
        import "a.proto"; import public 'b/c.proto'; /* import "no.proto"; */ // import "no.proto";
        import "google/protobuf/timestamp.proto"; message A { string s = 1 [default = "import x"]; }
    """
    assert list(list_imports(document)) == ["a.proto", "b/c.proto"]


def test_imports_go_through_the_resolver() -> None:
    imports = {
        "q/x.proto": b'syntax = "proto3"; package q; import "q/y.proto"; message B { C c = 1; }',
        "q/y.proto": b'syntax = "proto3"; package q; message C { int32 i = 1; }',
    }
    schema = FORMAT.parse(MAIN, "Protobuf/3", resolve=imports.get)
    assert schema.decode(b"\x0a\x04\x0a\x02\x08\x05") == {"b": {"c": {"i": 5}}}


@pytest.mark.parametrize(
    "path",
    [
        "../x.proto", "/x.proto", "a/../../x.proto", "a//b.proto", "x", ".h/x.proto", ".document.proto", ".proto",
        f"{'a' * 300}.proto", f"{'a/' * 300}b.proto", f"google/protobuf/{'a' * 300}.proto",
    ],
)  # fmt: skip
def test_imports_do_not_climb(path: str) -> None:
    requested: list[str] = []

    def resolve(import_path: str) -> bytes:
        requested.append(import_path)
        return b'syntax = "proto3";'

    with pytest.raises(SchemaError):
        FORMAT.parse(f'import "{path}"; message A {{}}'.encode(), "Protobuf/2", resolve=resolve)
    assert requested == []


@pytest.mark.parametrize("path", ["document.proto", "document.proto/x.proto", "y.proto/versions/2.proto"])
def test_any_other_name_can_be_imported(path: str) -> None:
    """The document itself has none that could be meant; Versions of a schema ``y.proto`` are below its path."""
    document = f'import "{path}"; message A {{ required B b = 1; }}'.encode()
    assert FORMAT.parse(document, "Protobuf/2", link="A", resolve={path: b"message B {}"}.get)


@pytest.mark.parametrize("below", ["y.proto/z.proto", "y.proto/a/z.proto"])
def test_no_file_is_a_folder_of_another(below: str) -> None:
    document = f'import "y.proto"; import "{below}"; message A {{}}'.encode()
    texts = {"y.proto": b"message B {}", below: b"message C {}"}
    with pytest.raises(SchemaError, match="cannot be imported"):
        FORMAT.parse(document, "Protobuf/2", resolve=texts.get)


def test_imports_are_limited() -> None:
    with pytest.raises(SchemaError, match="more than"):
        gather(b'import "f0.proto";', lambda path: f'import "f{int(path[1:-6]) + 1}.proto";'.encode())
    assert MAX_FILES <= 1000


def test_document_with_many_imports_is_gathered() -> None:
    count = MAX_FILES - 1
    document = "".join(f'import "f{n}.proto";' for n in range(count)).encode()
    assert len(gather(document, lambda path: f"// {path}".encode())) == MAX_FILES


def test_the_same_text_is_compiled_once() -> None:
    sources = gather(b'syntax = "proto3"; message Once {}', None)
    assert compile_set(sources) is compile_set(sources)


DOCUMENT = b"""
syntax = "proto3";
package shop;
// An order.
message Order {
  // What the customer
  // is to pay, in cents.
  int64 total = 1;
  string id = 2;  // Number on the slip
  message Line {
    /* Article */
    string sku = 1;
  }
  repeated Line lines = 3;
  oneof how {
    // Paid with it
    string card = 4;
  }
  int32 plain = 5;
}
"""


def test_fields_are_described_by_their_comments() -> None:
    shape = FORMAT.parse(DOCUMENT, "Protobuf/3", link="Order").shape()
    assert isinstance(shape, Struct)
    descriptions = {field.name: field.description for field in shape.fields}
    assert descriptions == yaml.safe_load(r"""
    {total: "What the customer\nis to pay, in cents.", id: Number on the slip, lines: "", card: Paid with it,
      plain: ""}
    """)
    lines = next(field.shape for field in shape.fields if field.name == "lines")
    assert lines.item.fields[0].description == "Article"  # type: ignore[union-attr]


@pytest.mark.parametrize("noise", ['"' + '\\"' * 200_000, "'" + "\\'" * 200_000, "/* " * 200_000, '"\\' * 200_001])
def test_unterminated_texts_are_scanned_once(noise: str) -> None:
    """The end of a text or comment was looked for from each place where one might begin, for hours."""
    document = f'import "a.proto";\n{noise}'.encode()
    began = time.process_time()
    assert list(list_imports(document)) == ["a.proto"]
    assert time.process_time() - began < 60  # some milliseconds
