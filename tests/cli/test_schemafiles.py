"""Files that schemas in files refer to (docs/references.md)."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import commit

from signalbook.cli.revisions import files_at
from signalbook.cli.schemafiles import SchemaFile, forget_files

URI = "https://example.org/address"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    forget_files()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, id: str = "") -> bytes:
    content = json.dumps({"$id": id} if id else {"title": path}).encode()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)
    return content


def resolve(name: str, path: str = "order.json", revision: str = "") -> bytes | None:
    return SchemaFile(name=path, content=b"{}", revision=revision).resolve(name)


def test_only_regular_files_are_read_for_identities() -> None:
    write("order.json")
    address = write("parts/address.json", URI)
    os.mkfifo("pipe.json")
    Path("link.json").symlink_to("parts/address.json")
    Path("lost.json").symlink_to("nowhere")
    assert resolve(URI) == address
    assert resolve("https://example.org/nothing") is None


def test_namespace_is_resolved_to_its_file() -> None:
    content = f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="{URI}"/>'
    Path("address.xsd").write_text(content)
    write("order.xsd")
    assert resolve(f"{{{URI}}}", "order.xsd") == content.encode()
    assert resolve(URI, "order.xsd") is None


def test_unreadable_paths_are_not_resolved() -> None:
    write("order.json")
    write(".git/config")
    write(".hidden/address.json")
    write("parts/.address.json")
    address = write("parts/address.json")
    assert resolve("./parts/../parts/address.json") == address
    for name in (".git/config", "parts/../.hidden/address", "parts/.address.json", "a" * 300, f"{'a' * 300}/b", "a\0b"):
        assert resolve(name) is None


def test_files_of_a_hidden_folder_find_each_other() -> None:
    write(".schemas/order.json")
    assert resolve("address.json", ".schemas/order.json") is None
    address = write(".schemas/address.json")
    assert resolve("address.json", ".schemas/order.json") == address


def test_a_revision_has_its_own_files() -> None:
    """Files that came, changed, or went since then change nothing."""
    write("a/order.json")
    changed, gone = write("a/changed.json"), write("a/gone.json")
    identified, moved = write("parts/address.json", URI), write("parts/moved.json", f"{URI}/moved")
    write("node_modules/x/other.json", f"{URI}/skipped")
    Path("a/link.json").symlink_to("gone.json")
    commit(".")
    Path("a/changed.json").write_text("{}")
    Path("a/gone.json").unlink()
    Path("parts/address.json").write_text("{}")
    Path("parts/moved.json").rename("parts/new.json")
    write("a/new.json", f"{URI}/new")

    def resolve_then(name: str) -> bytes | None:
        return resolve(name, "a/order.json", "HEAD")

    assert [resolve_then(name) for name in ("changed.json", "gone.json", "../a/gone")] == [changed, gone, gone]
    assert [resolve_then(name) for name in (URI, f"{URI}/moved")] == [identified, moved]
    for name in ("new.json", "link.json", "../parts/new.json", f"{URI}/new", f"{URI}/skipped"):
        assert resolve_then(name) is None
    assert resolve("new.json", "a/order.json") is not None
    assert resolve(URI, "a/order.json") is None


def test_large_files_of_a_revision_are_not_read_for_identities() -> None:
    small = write("small.json", URI)
    write("order.json")
    write("large.json", f"https://example.org/{'a' * len(small)}")
    commit(".")
    files = files_at(Path.cwd(), "HEAD")
    assert dict(files.read_small(files.list_paths(), len(small))) == {
        Path.cwd() / "order.json": Path("order.json").read_bytes(),
        Path.cwd() / "small.json": small,
    }
