import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from signalbook.events.sinks.base import DeliveryError, SinkPolicy
from signalbook.events.sinks.file import FACTORY
from signalbook.events.subscription import Credential, Subscription, SubscriptionError
from signalbook.fetching import AllowList
from signalbook.values import JSONObject


def policy(folder: Path | None) -> SinkPolicy:
    return SinkPolicy(allow=AllowList([]), folder=str(folder or ""))


def subscription(sink: str = "file:a.jsonl", **settings: Any) -> Subscription:
    return Subscription(id="s", protocol="FILE", sink=sink, protocolsettings=settings)


def events(*ids: int) -> list[JSONObject]:
    return [{"id": str(number), "subject": "/é"} for number in ids]


def ids(path: Path) -> list[int]:
    return [int(json.loads(line)["id"]) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("sink", "name"),
    [("file:a.jsonl", "a.jsonl"), ("file:///a.jsonl", "a.jsonl"), ("file:shop/b/a.jsonl", "shop/b/a.jsonl")],
)
def test_a_line_for_each_event(tmp_path: Path, sink: str, name: str) -> None:
    for batch in (events(1, 2), events(3)):
        with closing(FACTORY.open(subscription(sink), policy(tmp_path))) as file:
            file.send(batch)
    assert ids(tmp_path / name) == [1, 2, 3]


@pytest.mark.parametrize(
    "sink",
    [
        "file:../a.jsonl",
        "file:a/../../b",
        "file:/etc/passwd",
        "file:////etc/passwd",
        "file://host/a",
        "file:.hidden",
        "file:a/.b",
        "file:%2e%2e/a",
        "file:a b",
        "file:a\nb",
        "file:a\\b",
        "file:",
        "file:" + "a" * 200,
        "a.jsonl",
        "https://example.com/",
    ],
)
def test_files_outside_of_the_folder_are_rejected(tmp_path: Path, sink: str) -> None:
    with pytest.raises(SubscriptionError, match="/sink: it takes file:NAME"):
        FACTORY.check(subscription(sink), policy(tmp_path))
    with pytest.raises(DeliveryError):
        FACTORY.open(subscription(sink), policy(tmp_path))


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    folder = tmp_path / "sinks"
    folder.mkdir()
    (folder / "a.jsonl").symlink_to(outside)
    with closing(FACTORY.open(subscription(), policy(folder))) as file, pytest.raises(DeliveryError, match="cannot be"):
        file.send(events(1))
    assert outside.read_text() == ""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"maxbyte": 1}, "/maxbyte: FILE has no"),
        ({"maxbytes": 10}, "/maxbytes: it is"),
        ({"maxbytes": "9"}, "/maxbytes"),
    ],
)
def test_invalid_settings_are_rejected(tmp_path: Path, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(SubscriptionError, match=f"/protocolsettings{expected}"):
        FACTORY.check(subscription(**settings), policy(tmp_path))


def test_file_sinks_require_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SubscriptionError, match="this server writes no files: signalbook serve --sink-folder"):
        FACTORY.check(subscription(), policy(None))
    secret = Subscription(id="s", protocol="FILE", sink="file:a", credential=Credential(credentialtype="PLAIN"))
    with pytest.raises(SubscriptionError, match="/sinkcredential: files take none"):
        FACTORY.check(secret, policy(tmp_path))


def test_a_new_file_when_one_is_full(tmp_path: Path) -> None:
    with closing(FACTORY.open(subscription(maxbytes=1024), policy(tmp_path))) as file:
        for number in range(200):
            file.send(events(number))
    *full, last = sorted(tmp_path.iterdir(), key=lambda path: (path.name == "a.jsonl", path.name))
    assert last.name == "a.jsonl"
    assert len(full) > 3
    assert [number for path in (*full, last) for number in ids(path)] == list(range(200))
    assert all(path.stat().st_size <= 1024 for path in full)


@pytest.mark.parametrize("torn", ["", '{"id": "2', "x" * 200_000])
def test_incomplete_line_after_a_crash_is_removed(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1"}\n' + torn)
    with closing(FACTORY.open(subscription(), policy(tmp_path))) as file:
        file.send(events(2))
    assert ids(path) == [1, 2]


def test_one_sink_for_each_file(tmp_path: Path) -> None:
    with closing(FACTORY.open(subscription(), policy(tmp_path))) as file_sink:
        file_sink.send(events(1))
        with closing(FACTORY.open(subscription(), policy(tmp_path))) as other:
            for _ in range(2):
                with pytest.raises(DeliveryError, match="another sink writes to"):
                    other.send(events(2))
    assert ids(tmp_path / "a.jsonl") == [1]


def test_full_disk_leaves_the_file_unchanged(tmp_path: Path) -> None:
    """The file keeps its earlier content, and nothing is half-written."""
    path = tmp_path / "a.jsonl"
    real = os.write
    with closing(FACTORY.open(subscription(), policy(tmp_path))) as file:
        file.send(events(1))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "write", lambda handle, data: _half(real, handle, bytes(data)))
            with pytest.raises(DeliveryError, match="No space left"):
                file.send(events(2))
        assert ids(path) == [1]
        file.send(events(2))
    assert ids(path) == [1, 2]


def _half(write: Any, handle: int, data: bytes) -> int:
    """A disk that takes a few bytes, then none."""
    if len(data) > 10:
        return int(write(handle, data[:10])) if data.startswith(b"{") else _full()
    return _full()


def _full() -> int:
    raise OSError(28, "No space left on device")
