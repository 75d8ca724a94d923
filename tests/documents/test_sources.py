import json
import os
from pathlib import Path
from typing import Any

import pytest

from signalbook.documents import DocumentError, SourceDocument, merge, parse_source, read_folder, read_source
from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.sources import attach
from signalbook.values import JSON

NAMED = {"dirs": {"d": {"files": {"f": {"fileurl": "raw.json"}}}}}


def write(path: Path, text: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def test_a_file_and_the_files_it_names(tmp_path: Path) -> None:
    raw = write(tmp_path / "raw.json", "not JSON at all")
    source = read_source(write(tmp_path / "book.json", NAMED))
    assert source.files == (raw,)
    assert "filebase64" in source.document["dirs"]["d"]["files"]["f"]


def test_a_folder_without_the_files_that_are_named(tmp_path: Path) -> None:
    write(tmp_path / "raw.json", "not JSON at all")
    write(tmp_path / "z.json", NAMED)
    write(tmp_path / "deep" / "a.yaml", "name: x")
    assert [Path(source.name).name for source in read_folder(tmp_path)] == ["a.yaml", "z.json"]


def test_a_folder_where_documents_are_named_as_such(tmp_path: Path) -> None:
    for name in ("package.json", "a.xreg.json", "b.xreg.yaml", "c.cereg", "d.cereg.yml"):
        write(tmp_path / name, "{}")
    names = [Path(source.name).name for source in read_folder(tmp_path)]
    assert names == ["a.xreg.json", "b.xreg.yaml", "c.cereg", "d.cereg.yml"]


def test_a_folder_with_a_broken_document(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "{")
    write(tmp_path / "b.json", "{}")
    with pytest.raises(DocumentError, match=r"a.json: line 1"):
        read_folder(tmp_path)


def test_files_elsewhere_are_not_read(tmp_path: Path) -> None:
    document = {"dirs": {"d": {"files": {"f": {"fileurl": "../raw.json"}}}}}
    write(tmp_path / "raw.json", "{}")
    path = write(tmp_path / "in" / "book.json", document)
    with pytest.raises(DocumentError, match=r"book.json: /dirs/d/files/f#fileurl: .* lies outside"):
        read_source(path)
    assert read_source(path, root=tmp_path).files


@pytest.mark.parametrize(("data", "advice"), [(b"[1,]", "line 1: took away the comma before ]"), (b'{"a": }', "")])
def test_error_of_broken_text_advises_lenient_parsing(data: bytes, advice: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_source(data, name="x.json")
    assert ("--lenient would repair it" in str(caught.value)) == bool(advice)
    assert advice in str(caught.value)


def test_advice_for_a_document_of_old() -> None:
    endpoints = {f"e{number}": {"usage": "consumer"} for number in range(7)}
    data = json.dumps({"endpoints": endpoints}).encode()
    advice = parse_source(data, name="x.json").advice().splitlines()
    assert advice[1] == "  /endpoints/e0#usage: made an array of it [I-6]"
    assert advice[-1] == "  and 2 more"
    assert parse_source(data, name="x.json", lenient=True).advice() == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "s.json").write_bytes(b"{}")
    (tmp_path / "secret.json").write_text("secret")
    os.mkfifo(root / "pipe")
    (root / "link.json").symlink_to(tmp_path / "secret.json")
    return root


def attached(folder: Path, body: JSON, **limits: Any) -> JSON:
    document = {"gs": {"g": {"ss": {"s": body}}}}
    attach(document, LocalFiles(document=folder / "book.json", root=folder, **{"bytes_left": 100, **limits}))
    return document["gs"]["g"]["ss"]["s"]


@pytest.mark.parametrize("url", ["./deep/s.json", "deep/s.json", "deep/../deep/s%2Ejson"])
def test_a_file(folder: Path, url: str) -> None:
    assert attached(folder, {"schemaurl": url}) == {"schemabase64": "e30=", "contenttype": "application/json"}


def test_a_version_with_a_type_of_its_own(folder: Path) -> None:
    body = attached(folder, {"versions": {"1": {"fileurl": "deep/s.json", "contenttype": "a/b"}}})
    assert body == {"versions": {"1": {"filebase64": "e30=", "contenttype": "a/b"}}}


@pytest.mark.parametrize(
    "body",
    [
        {"schemaurl": "https://example.com/s.json"},
        {"schemaurl": "urn:example:s"},
        {"schemaurl": "/schemagroups/g/schemas/s"},
        {"schemaurl": "#/a"},
        {"schemaurl": ""},
        {"schemaurl": None},
        {"metaurl": "deep/s.json", "versionsurl": "deep/s.json"},
        {"documentation": "deep/s.json"},
    ],
)
def test_remote_urls_are_not_read(folder: Path, body: JSON) -> None:
    assert attached(folder, dict(body)) == body


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("../secret.json", "lies outside"),
        ("deep/../../secret.json", "lies outside"),
        ("link.json", "lies outside"),
        ("%2e%2e/secret.json", "lies outside"),
        ("gone.json", "/gs/g/ss/s#schemaurl: .*gone.json cannot be read: No such file"),
        (f"{'a' * 300}.json", "cannot be read: File name too long"),
        ("deep", "cannot be read: Is a directory"),
        ("pipe", "is no regular file"),
    ],
)
def test_unreadable_file_is_rejected(folder: Path, url: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        attached(folder, {"schemaurl": url})


def test_no_more_than_a_document_may_have(folder: Path) -> None:
    both = {"versions": {"1": {"schemaurl": "deep/s.json"}, "2": {"schemaurl": "deep/s.json"}}}
    with pytest.raises(DocumentError, match="too large"):
        attached(folder, both, bytes_left=3)


def merged(*documents: JSON) -> SourceDocument:
    sources = [SourceDocument(name=f"{number}.json", document=document) for number, document in enumerate(documents)]
    return merge(sources, name="books")


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"dirs": {"a": {}}}, {"dirs": {"b": {}}, "name": "n"}], {"dirs": {"a": {}, "b": {}}, "name": "n"}),
        ([{"xid": "/dirs/a", "icon": "i"}, {"xid": "/dirs/a/files/f", "meta": {}}],
            {"dirs": {"a": {"xid": "/dirs/a", "icon": "i", "files": {"f": {"xid": "/dirs/a/files/f", "meta": {}}}}}}),
        (
            [{"f": {"xid": "/dirs/a/files/f"}}, {"xid": "/dirs/a/files/f/versions/1"}],
            {"dirs": {"a": {"files": {"f": {"xid": "/dirs/a/files/f",
                                            "versions": {"1": {"xid": "/dirs/a/files/f/versions/1"}}}}}}},
        ),
        ([{"groups": {"a": {"singular": "x"}}}, {"groups": {"b": {"singular": "y"}}, "description": "d"}],
            {"modelsource": {"groups": {"a": {"singular": "x"}, "b": {"singular": "y"}}, "description": "d"}}),
        ([{"dirs": {"a": {"icon": "i"}}}, {"dirs": {"a": {"icon": "i"}}}], {"dirs": {"a": {"icon": "i"}}}),
        ([{"dirs": {"a": {}}}, {"dirs": {}}], {"dirs": {"a": {}}}),
    ],
)  # fmt: skip
def test_documents_are_merged(documents: list[JSON], expected: JSON) -> None:
    book = merged(*documents)
    assert book.document == expected
    assert (book.name, len(book.parts)) == (f"books ({len(documents)} documents)", len(documents))


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        ({"name": "a"}, {"name": "b"}, "0.json and 1.json do not agree on /#name"),
        ({"dirs": {"d": {"icon": "a"}}}, {"xid": "/dirs/d", "icon": "b"}, "do not agree on /dirs/d#icon"),
        ({"groups": {"a": {"singular": "x"}}}, {"groups": {"a": {"singular": "y"}}}, "on /modelsource/groups#a"),
        ({"dirs": {"d": {"labels": {"a": "1"}}}}, {"dirs": {"d": {"labels": {"b": "1"}}}}, "on /dirs/d#labels"),
        ({}, [], "1.json: a registry document is a JSON object"),
    ],
)
def test_contradicting_documents_are_rejected(first: JSON, other: JSON, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        merged(first, other)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("xid", "names"),
    [
        ("/dirs/a", ["0.json"]),
        ("/dirs/a/files/g#name", ["0.json"]),
        ("/dirs/a/files/f/versions/1", ["0.json", "1.json"]),
        ("/dirs/c", []),
        ("/", []),
    ],
)
def test_documents_of_an_entity_are_named(xid: str, names: list[str]) -> None:
    book = merged({"dirs": {"a": {}, "b": {}}}, {"xid": "/dirs/a/files/f"})
    assert book.find_parts_naming([xid]) == names


def test_repairs_name_their_file(tmp_path: Path) -> None:
    """Each file is named, also if files have the same name or repair the same entity (L-37, L-38)."""
    for name, content in (
        ("a/x.json", '{"schemagroups": {"g": {"createdat": "no", "labels": {"team": "t"}}}}'),
        ("b/x.json", '{"schemagroups": {"g": {"modifiedat": "no",\n// why\n"schemas": {}}}}'),
    ):
        (tmp_path / name).parent.mkdir()
        write(tmp_path / name, content)
    merged = merge(read_folder(tmp_path, lenient=True), name="all")
    assert [
        (Path(file).relative_to(tmp_path).as_posix(), str(repair)) for file, repair in merged.iterate_repairs()
    ] == [
        ("a/x.json", "/schemagroups/g#createdat: left out: no is no date [I-5]"),
        ("b/x.json", "line 2: took away a comment [L-26]"),
        ("b/x.json", "/schemagroups/g#modifiedat: left out: no is no date [I-5]"),
    ]
    labels = {"team": "t", "import.source": "a/x.json, b/x.json", "import.repairs": "I-5 L-26"}
    assert merged.document == {"schemagroups": {"g": {"labels": labels, "schemas": {}}}}
    write(tmp_path / "a" / "x.json", '{"endpoints": {"e": {"usage": "consumer"}}}')
    (tmp_path / "b" / "x.json").unlink()
    assert f"{tmp_path}/a/x.json, /endpoints/e#usage: made" in merge(read_folder(tmp_path), name="all").advice()


def test_labels_of_their_own_still_have_to_agree(tmp_path: Path) -> None:
    for name, team in (("a.json", "t"), ("b.json", "u")):
        write(tmp_path / name, {"schemagroups": {"g": {"createdat": "no", "labels": {"team": team}}}})
    with pytest.raises(DocumentError, match=r"a\.json and .*b\.json do not agree on /schemagroups/g#labels"):
        merge(read_folder(tmp_path, lenient=True), name="all")
