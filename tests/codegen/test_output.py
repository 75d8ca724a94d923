"""Files in a folder: others' are kept, edits are noticed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from signalbook.codegen.base import Generated, GeneratedFile, GeneratorError, GeneratorInput
from signalbook.codegen.output import OutputPlan, manifest_name, plan_output

Plan = Callable[..., OutputPlan]


@pytest.fixture
def plan(read: Callable[..., GeneratorInput], tmp_path: Path) -> Plan:
    """The plan for files of these names and texts, in the folder ``out``; ``write`` puts them there."""
    input_ = read("dbt")

    def make(*, write: bool = False, **files: str) -> OutputPlan:
        generated_files = tuple(
            GeneratedFile(path=name, content=text.encode(), xids=()) for name, text in files.items()
        )
        result = plan_output(tmp_path / "out", input_, Generated(files=generated_files))
        for path, content in result.writes.items() if write else ():
            (tmp_path / "out" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "out" / path).write_bytes(content)
        return result

    return make


def test_a_second_time_nothing_changes(plan: Plan) -> None:
    assert plan(write=True, a="1", b="2").created == ("a", "b")
    again = plan(a="1", b="2")
    assert (again.unchanged, again.writes, list(again.stale)) == (("a", "b"), {}, [])


def test_changed_and_obsolete_files_are_listed(plan: Plan) -> None:
    plan(write=True, a="1", b="2")
    result = plan(a="3", c="4")
    assert (result.updated, result.created, result.removed) == (("a",), ("c",), ("b",))
    assert dict(result.stale) == {"a": "is out of date", "b": "is no longer generated", "c": "is missing"}
    assert list(result.writes)[-1] == manifest_name("dbt")


def test_files_of_others(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("mine")
    result = plan(a="1", b="2")
    assert (result.foreign, result.created) == (("a",), ("b",))
    assert ("a", "is in the way and not generated") in list(result.stale)
    (tmp_path / "out" / "a").write_text("1")  # as after a crash before the list was written
    assert plan(a="1").foreign == ()


def test_edits_by_hand(plan: Plan, tmp_path: Path) -> None:
    plan(write=True, a="1", b="2")
    (tmp_path / "out" / "a").write_text("1 and more")
    (tmp_path / "out" / "b").write_text("2 and more")
    result = plan(a="1")
    assert (result.edited, result.updated, result.removed) == (("a", "b"), ("a",), ("b",))
    assert dict(result.stale) == {"a": "is edited by hand", "b": "is edited by hand"}


def test_links_and_folders_in_the_way(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GeneratorError, match="is a link, which is not followed"):
        plan(a="1")
    (tmp_path / "out" / "b").mkdir()
    with pytest.raises(GeneratorError, match="is in the way"):
        plan(b="1")


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "", ".signalbook-dbt.json", "a\\b", "a\0"])
def test_generators_stay_in_the_folder(path: str, plan: Plan) -> None:
    with pytest.raises(GeneratorError, match=r"not a path for a file in a folder|made a hidden file"):
        plan(**{path: "1"})


def test_two_files_of_one_name(plan: Plan) -> None:
    with pytest.raises(GeneratorError, match="'A/b' and 'a/B' would be one file"):
        plan(**{"a/B": "1", "A/b": "2"})


@pytest.mark.parametrize("text", ["{", "[]", '{"target": "x", "options": {}, "files": {"../x": {"sha256": "", '
                                  '"definitions": []}}, "left_out": {}}'])  # fmt: skip
def test_a_broken_list_of_files(text: str, plan: Plan, tmp_path: Path) -> None:
    """The list names files that may be removed, and it may come from anywhere."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / manifest_name("dbt")).write_text(text)
    with pytest.raises(GeneratorError, match=r"broken|not a path for a file in a folder"):
        plan(a="1")
