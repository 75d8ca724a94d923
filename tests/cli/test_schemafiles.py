"""Files that schemas in files refer to (docs/references.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from signalbook.cli.schemafiles import SchemaFile, forget_files

URI = "https://example.org/address"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    forget_files()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, id: str = "") -> bytes:  # noqa: A002  the keyword of JSON Schema
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


def test_paths_that_are_not_read() -> None:
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
