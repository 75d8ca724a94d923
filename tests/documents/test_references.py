"""A value that YAML aliases share is read once, even if it occurs often."""

from pathlib import Path

from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.references import DocumentReader, find_other_files
from signalbook.values import JSON, JSONObject


def test_a_file_with_aliases_shares_its_values(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("a: &shared {x: [{$ref: '#/b'}]}\nb: *shared\nproperties: *shared\n")
    files = LocalFiles(document=tmp_path / "api.yaml", root=tmp_path, bytes_left=1000)
    reader = DocumentReader({}, "AS", files)
    assert reader.value_at("m.yaml#/a", "") == {"x": [{"$ref": "m.yaml#/b"}]}
    assert reader.value_at("m.yaml#/a", "") is reader.value_at("m.yaml#/b", "")
    assert reader.value_at("m.yaml#/a/x", "") is reader.value_at("m.yaml#/properties/x", "")


def test_shared_values_are_searched_once() -> None:
    value: JSON = [{"$ref": "other.yaml#/x"}, {"$ref": "#/x"}, {"$ref": "own.yaml"}]
    for _ in range(60):
        shared: JSONObject = {"a": value, "b": value}
        value = shared
    assert find_other_files(value, "own.yaml") == {"other.yaml"}
