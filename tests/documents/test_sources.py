"""Documents with their names, repairs and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from signalbook.documents import DocumentError, parse_source, read_folder, read_source

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
    found = [Path(source.name).name for source in read_folder(tmp_path)]
    assert found == ["a.xreg.json", "b.xreg.yaml", "c.cereg", "d.cereg.yml"]


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


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (b"[1,]", "line 1: took away the comma before ]"),
        (b'{"a": }', ""),
    ],
)
def test_advice_for_text_that_is_broken(data: bytes, advice: str) -> None:
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
