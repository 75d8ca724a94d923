import pytest
import yaml

from signalbook.engine.read.nodes import ALL, EXPORT, NOTHING, Inline, parse_inline
from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.xid import Xid

MODEL = compile_model(
    yaml.safe_load("""
    groups: {dirs: {singular: dir, resources: {files: {singular: file}, notes: {singular: note, hasdocument: false}}}}
    """)
)


def parsed(target: str, *values: str) -> Inline:
    return parse_inline(values, Xid.parse(target), MODEL, subject=target)


@pytest.mark.parametrize(
    ("target", "value", "inside"),
    [
        ("/", "dirs", ("dirs",)),
        ("/", "model", ("model",)),
        ("/", "dirs.files.versions.file", ("dirs", "files", "versions", "file")),
        ("/", "dirs.files.meta", ("dirs", "files", "meta")),
        ("/dirs", "files", ("files",)),
        ("/dirs/d1", "files.file", ("files", "file")),
        ("/dirs/d1/files", "meta", ("meta",)),
        ("/dirs/d1/files/f1", "versions.file", ("versions", "file")),
        ("/dirs/d1/files/f1/versions", "file", ("file",)),
        ("/dirs/d1/files/f1/versions/v1", "file", ("file",)),
        ("/dirs/d1/notes/n1", "versions", ("versions",)),
    ],
)
def test_a_path_inlines_each_step_and_no_more(target: str, value: str, inside: tuple[str, ...]) -> None:
    """Parents are implied, children are not (R197, R198, R200)."""
    level = parsed(target, value)
    for name in inside:
        assert name in level
        assert list(level.names) == [name]
        level = level.select(name)
    assert level == NOTHING


@pytest.mark.parametrize("value", ["*", ""])
def test_inlining_everything_omits_configuration(value: str) -> None:
    """Everything is inlined by ``*``, or by the flag without a value (R199)."""
    assert parsed("/", value) == ALL
    assert "dirs" in ALL
    assert "file" in ALL.select("dirs").select("files")
    assert not [name for name in ("model", "modelsource", "capabilities") if name in ALL]


def test_a_wildcard_below_a_name() -> None:
    """A wildcard after a name inlines everything below it (R199)."""
    level = parsed("/", "dirs.*")
    assert level.names["dirs"] == ALL
    assert not level.everything


def test_values_add_up() -> None:
    """Values can be a comma-separated list, and the parameter can be repeated (R198)."""
    level = parsed("/", "dirs.files.meta,model", "dirs.notes")
    assert set(level.names) == {"dirs", "model"}
    assert set(level.select("dirs").names) == {"files", "notes"}
    assert set(parsed("/", "*", "model").names) == {"model"}
    assert parsed("/", "*", "model").everything


def test_export_names_two_parts_of_the_configuration() -> None:
    """R274."""
    assert "modelsource" in EXPORT
    assert "capabilities" in EXPORT
    assert "model" not in EXPORT
    assert "dirs" in EXPORT


@pytest.mark.parametrize("value", ["dirs*", "*.files", "dirs..files", ".", ",", "dirs.*.meta"])
def test_bad_syntax(value: str) -> None:
    """R199, R202."""
    with pytest.raises(RegistryError) as caught:
        parsed("/", value)
    assert caught.value.code == "bad_inline"
    assert caught.value.arguments["value"] == value


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("/", "nope"),
        ("/", "Dirs"),
        ("/", "name"),
        ("/", "files"),
        ("/", "dirs.d1"),
        ("/", "model.groups"),
        ("/dirs/d1", "model"),
        ("/dirs/d1", "files.filebase64"),
        ("/dirs/d1/notes", "note"),
        ("/dirs/d1/files/f1", "meta.labels"),
        ("/dirs/d1/files/f1/meta", "meta"),
        ("/dirs/d1/files/f1/versions", "versions"),
    ],
)
def test_non_inlineable_names_are_rejected(target: str, value: str) -> None:
    """R201, R202; paths are relative to the request, in exact case."""
    with pytest.raises(RegistryError) as caught:
        parsed(target, value)
    assert caught.value.code == "inline_noninlineable"
    assert caught.value.subject == target
