"""Names of files that are made from ids, and the check of paths below a folder."""

from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.filenames import FileNameError, OutputPaths, check_path, file_name

HOSTILE = [
    "..", ".", "", "/", "a/b", "../../etc/passwd", "/etc/passwd", "C:\\x", "c:x", "\\\\host\\share",
    "a\x00b", "\x1b[2J", "con", "NUL.txt", "com1", "COM\u00b9", "aux .x", "end.", "end ", " ", "a*?", "\u202ea",
    "\ud800", "%2E%2E", "x" * 400, "ü" * 200, ".git", "a\nb",
]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=300), st.text("./\\:%=~ \0conaux", max_size=12))


@given(TEXTS, st.sampled_from("%="), st.sampled_from([".", "._", ".-"]))
def test_any_text_is_the_name_of_one_file_in_its_folder(text: str, mark: str, not_first: str) -> None:
    name = file_name(text, mark=mark, not_first=not_first)
    assert check_path(name).parts == (name,)
    assert name.isascii()
    assert name[0] not in not_first
    assert name.partition(".")[0].lower() not in ("con", "nul", "aux", "com1")
    assert len(name) <= 200


@given(TEXTS, TEXTS)
def test_different_texts_have_different_names(first: str, other: str) -> None:
    assert (file_name(first) == file_name(other)) == (first == other)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_a_name_can_be_read_back(text: str) -> None:
    assert unquote(file_name(text)) == text


@pytest.mark.parametrize("text", ["order.placed", "com.example.order@v1", "_x", "a~b-c"])
def test_ordinary_ids_are_unchanged(text: str) -> None:
    assert file_name(text) == text


def test_reserved_names_are_escaped() -> None:
    assert file_name("Index.html", mark="=", reserved={"index.html"}) == "=49ndex.html"


@pytest.mark.parametrize(
    "path", ["", "/etc/x", "../x", "a/../../x", "a//b", "a/.", "a\\b", "C:/x", "a\x00", "a\x9bb", "a\u202eb",
             "a/b.", "a /b", "x" * 256, "a?"],
)  # fmt: skip
def test_paths_that_are_rejected(path: str) -> None:
    with pytest.raises(FileNameError, match="is not a path for a file in a folder"):
        check_path(path)


@pytest.mark.parametrize(
    "paths", [("a/B", "a/b"), ("A/x", "a/y"), ("a", "a/b"), ("a/b", "A"), ("ü", "u\u0308"), ("a", "a")]
)
def test_two_paths_of_one_file(paths: tuple[str, str], tmp_path: Path) -> None:
    output = OutputPaths(tmp_path)
    output.add(PurePosixPath(paths[0]))
    with pytest.raises(FileNameError, match="one file on some file systems"):
        output.add(PurePosixPath(paths[1]))


def test_links_on_the_way_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/link").symlink_to(tmp_path / "outside")
    output = OutputPaths(tmp_path / "out")
    for path in ("link/x", "link/a/x"):
        with pytest.raises(FileNameError, match="link is a link, which is not followed"):
            output.add(PurePosixPath(path))
    output.check_removal(PurePosixPath("link"))


@given(st.lists(TEXTS, max_size=4))
def test_paths_made_from_names_are_accepted(texts: list[str]) -> None:
    path = PurePosixPath("top", *map(file_name, texts))
    OutputPaths(Path("/nowhere")).add(path)
    assert len(path.parts) == len(texts) + 1
