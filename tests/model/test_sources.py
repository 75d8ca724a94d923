"""Model sources that ship with the package, and those in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from signalbook.errors import RegistryError
from signalbook.model import BUILTIN, builtin, compile_model, read_source


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_models_compile_without_includes(name: str) -> None:
    """What /modelsource shows can be read by any registry."""
    source = builtin(name)
    assert "$include" not in json.dumps(source)
    compile_model(source)


def test_the_caller_may_change_what_it_gets() -> None:
    builtin("default").clear()
    assert builtin("default")


def test_other_names() -> None:
    with pytest.raises(KeyError, match="there are: default, empty"):
        builtin("../default")


def test_a_file_may_include_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (tmp_path / "shared.json").write_text('{"dirs": {"singular": "dir"}}')
    (folder / "model.json").write_text('{"groups": {"$include": "../shared.json"}}')
    assert read_source(folder / "model.json") == {"groups": {"dirs": {"singular": "dir"}}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"groups": {"$include": "none.json"}}', "No such file"),
        ('{"groups": {"$include": "https://example.com/model.json"}}', "includes other files only"),
    ],
)
def test_includes_that_cannot_be_resolved(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(RegistryError, match=message):
        read_source(path)


@pytest.mark.parametrize("text", ["[]", "{"])
def test_files_that_hold_no_model(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ValueError):
        read_source(path)
