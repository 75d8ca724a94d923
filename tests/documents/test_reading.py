from pathlib import Path

import pytest

from signalbook.documents import DocumentError, find_documents, parse_document, read_document, write_document


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", b'{"a": 1}'),
        ("a.json", b'\xef\xbb\xbf{"a": 1}'),
        ("a.yaml", b"a: 1"),
        ("a.YML", b"a: 1"),
        ("a.cereg", b'{"a": 1}'),  # I-2
        ("a.cereg", b"a: 1"),
        ("http://x/a.yaml?v=2", b"a: 1"),
        ("-", b"a: 1"),
        ("-", b' {"a": 1}'),
    ],
)
def test_json_or_yaml_by_name_and_look(name: str, data: bytes) -> None:
    assert parse_document(data, name=name) == ({"a": 1}, ())


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("application/cloudevents-registry+yaml; charset=utf-8", b"a: 1"),
        ("application/yaml", b"a: 1"),
        ("application/cloudevents-registry+json", b'{"a": 1}'),
        ("text/plain", b"a: 1"),
    ],
)
def test_json_or_yaml_by_media_type(media_type: str, data: bytes) -> None:
    assert parse_document(data, name="http://x/registry", media_type=media_type) == ({"a": 1}, ())  # I-2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b'{"a": 1,\n  "b": }', "a.json: line 2, column 8: .*invalid character"),
        ("a.json", b'{"a": 1,\n"b": [\n\n', "a.json: line 2: the document ends before it is complete"),
        ("a.json", b"\xff", r"a.json: not UTF-8 text \(byte 0\)"),
        ("a.yaml", b"a: [", "a.yaml: line ., column "),
        ("a.json", b"[" * 100 + b"]" * 100, "a.json: nested deeper than 64 levels"),
    ],
)
def test_faults_name_document_and_place(name: str, data: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        parse_document(data, name=name)


def test_repairs_only_when_asked() -> None:
    with pytest.raises(DocumentError, match="trailing comma"):
        parse_document(b"[1,]", name="x.json")
    value, repairs = parse_document(b"[1,]", name="x.json", lenient=True)
    assert value == [1]
    assert [repair.line for repair in repairs] == [1]


def test_names_of_old_only_when_asked() -> None:  # I-6
    data = b'{"definitionGroups": {},}'
    with pytest.raises(DocumentError):
        parse_document(data, name="x.cereg")
    value, repairs = parse_document(data, name="in/x.cereg", lenient=True)
    assert value == {"messagegroups": {}}
    assert [repair.rule for repair in repairs] == ["L-1", "I-6"]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"gone.json: cannot be read: No such file"):
        read_document(tmp_path / "gone.json")


def test_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(b'"' + b"x" * 100 + b'"')
    assert read_document(path, max_bytes=102) == ("x" * 100, ())
    with pytest.raises(DocumentError, match="larger than the 101 bytes"):
        read_document(path, max_bytes=101)


def test_files_of_a_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    folder = tmp_path / "in"
    for name in ("b.yaml", "a/z.json", "c.yml", "notes.txt", ".hidden.json", ".git/x.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "link.json").symlink_to(outside)
    names = [str(path.relative_to(folder)) for path in find_documents(folder)]
    assert names == ["a/z.json", "b.yaml", "c.yml"]


def test_a_folder_without_documents(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="holds no registry document"):
        find_documents(tmp_path)


def test_written_json_is_indented() -> None:
    assert write_document({"a": [1]}, name="x.json") == b'{\n  "a": [\n    1\n  ]\n}\n'
    assert write_document({"a": [1]}, name="x.yml") == b"a:\n- 1\n"
    assert write_document({"a": "x:\n- y\n"}, name="x.yml") == b"a: |\n  x:\n  - y\n"
