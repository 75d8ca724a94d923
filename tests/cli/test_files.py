"""Folders that commands write: nothing outside of them."""

from pathlib import Path, PurePosixPath

import pytest

from signalbook.cli.files import NotWritten, write_folder
from signalbook.documents import FolderFile


def write(*paths: str, instead: tuple[str, ...] = ()) -> int:
    files = [FolderFile(path=PurePosixPath(path), content=b"new") for path in paths]
    return write_folder(Path("out"), files, instead=map(PurePosixPath, instead))


@pytest.mark.parametrize("path", ["../victim", "a/../../victim", "/victim", "a\\b", "a/b.", "a\x1bb"])
def test_paths_that_lead_out_are_not_written(path: str) -> None:
    Path("victim").write_text("old")
    with pytest.raises(NotWritten, match=r"nothing was written: .* is not a path for a file in a folder"):
        write("good", path)
    assert Path("victim").read_text() == "old"
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize("stale", ["../victim", "link/victim"])
def test_stale_files_outside_are_kept(stale: str) -> None:
    Path("elsewhere").mkdir()
    for victim in (Path("victim"), Path("elsewhere/victim")):
        victim.write_text("old")
    Path("out").mkdir()
    Path("out/link").symlink_to(Path("elsewhere").absolute())
    with pytest.raises(NotWritten, match="nothing was written"):
        write("good", instead=(stale,))
    assert Path("victim").exists()
    assert Path("elsewhere/victim").exists()
    assert not Path("out/good").exists()


def test_a_link_in_the_folder_is_not_followed() -> None:
    Path("elsewhere").mkdir()
    Path("out").mkdir()
    Path("out/link").symlink_to(Path("elsewhere").absolute())
    with pytest.raises(NotWritten, match="out/link is a link, which is not followed"):
        write("link/x")
    assert write("link", instead=("link",)) == 1, "a file may take the place of a link"
    assert (Path("out/link").read_text(), list(Path("elsewhere").iterdir())) == ("new", [])


def test_two_files_of_one_name() -> None:
    with pytest.raises(NotWritten, match="'a/x' and 'A/x' would be one file"):
        write("A/x", "a/x")
    assert list(Path("out").iterdir()) == []
