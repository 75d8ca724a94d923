"""What HDFS has of its own: who may replace what, name services, users, and a NameNode that is away."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.brokers.program import Broker
from tests.pipeline.lake import ORDER, Lake
from tests.pipeline.s3 import place

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import HdfsPlace, Storage, place_of
from signalbook.pipeline.places import hdfs as module
from signalbook.pipeline.tables.reading import LandedTables
from signalbook.values import digest


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> HdfsPlace:
    """An empty one."""
    found = place("hdfs", tmp_path, request)
    assert isinstance(found, HdfsPlace)
    return found


@pytest.fixture
def fresh_clients() -> Iterator[None]:
    """Clients are made anew for the test, and after it."""
    module.connect.cache_clear()
    yield
    module.connect.cache_clear()


def following(file: HdfsPlace) -> HdfsPlace:
    """Where the next content is claimed for what ``file`` has."""
    return file.parent / f".{digest(f'{file.name} {file.tagged()[1]}'.encode())[:32]}.next"


def own(folder: HdfsPlace) -> list[str]:
    """Names that nobody is shown."""
    return [each.path for each in folder._listed(deep=True) if module._OWN.search(each.path)]


def test_of_many_at_once_one_replaces(folder: HdfsPlace) -> None:
    file = folder / "one"
    file.replace(b"0")
    for turn in range(3):
        seen, tag = file.tagged()
        contents = [f"{turn} {number}".encode() for number in range(6)]
        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(lambda content, tag=tag: file.swap(content, tag), contents))
        assert (seen == file.read(), won.count(True)) == (False, 1)
        assert file.read() == contents[won.index(True)]
    assert own(folder) == []


def test_who_was_killed_with_a_claim_is_followed(folder: HdfsPlace) -> None:
    """It had the right to replace the content: its own is put in place, and then somebody else's."""
    file = folder / "one"
    file.replace(b"0")
    _, tag = file.tagged()
    (following(file) / "x").replace(b"of the dead")
    assert not file.swap(b"1", tag)
    assert file.read() == b"of the dead"
    assert file.swap(b"1", file.tagged()[1])
    assert own(folder) == []


def test_who_was_held_up_replaces_nothing(folder: HdfsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its look and its claim another one's content came, and the right to replace the old one with it."""
    file = folder / "one"
    file.replace(b"0")
    _, tag = file.tagged()
    fresh = HdfsPlace._fresh

    def late(self: HdfsPlace, content: bytes, below: str = "") -> HdfsPlace:
        found = fresh(self, content, below)
        if content == b"late":
            assert file.swap(b"1", tag)
        return found

    monkeypatch.setattr(HdfsPlace, "_fresh", late)
    assert not file.swap(b"late", tag)
    assert file.read() == b"1"
    assert own(folder) == []


def test_what_is_being_written_is_not_listed(folder: HdfsPlace) -> None:
    (folder / "f").replace(b"x")
    fresh = (folder / "f")._fresh(b"y")
    (folder / "f")._fresh(b"y", "below")
    assert (fresh.read(), len(own(folder))) == (b"y", 3)
    assert [each.path for each in folder.files(deep=True)] == ["f"]
    assert folder.folders() == []


def test_a_file_has_no_files(folder: HdfsPlace) -> None:
    (folder / "f").replace(b"x")
    assert (list((folder / "f").files()), (folder / "f").folders(), folder.exists()) == ([], [], False)


def test_answers_that_are_lost(folder: HdfsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change was made, and is asked for again; what is only looked at hdfs-native asks again by itself."""
    client, left = module.connect(folder.root, folder.settings), 0

    class Losing:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return partial(self._ask, name)

        def _ask(self, name: str, *given: Any, **options: Any) -> Any:
            nonlocal left
            found = getattr(self._inner, name)(*given, **options)
            left -= name in ("create", "write", "close", "rename", "delete")
            if left == 0:
                left = -1
                raise OSError("RPC listener disconnected")
            return Losing(found) if name == "create" else found

        @property
        def inner(self) -> Any:
            return Losing(self._inner.inner)

    monkeypatch.setattr(module, "connect", lambda *_: Losing(client))
    for number in range(1, 12):
        left = number
        file = folder / f"{number}"
        assert file.create(b"0")
        left = number
        file.replace(b"1")
        left = number
        assert file.swap(b"2", digest(b"1"))
        assert file.read() == b"2"
    assert not [each for each in own(folder) if each.endswith(".next")]


def test_what_users_may_not_is_said_in_one_line(
    folder: HdfsPlace, monkeypatch: pytest.MonkeyPatch, fresh_clients: None
) -> None:
    folder.make()
    module.connect.cache_clear()
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    with pytest.raises(
        OSError, match="HDFS answers AccessControlException: Permission denied: user=mallory"
    ) as failure:
        (folder / "f").replace(b"x")
    assert "\n" not in str(failure.value)
    assert "\\n" not in str(failure.value)


def test_a_name_node_that_is_away(monkeypatch: pytest.MonkeyPatch, fresh_clients: None) -> None:
    monkeypatch.setattr(module, "_RETRIES", {"dfs.client.failover.max.attempts": "1"})
    with pytest.raises(OSError, match=r"^.Errno 5. HDFS does not answer: Connection refused"):
        place_of("hdfs://127.0.0.1:1/x").read()


def test_a_name_node_that_says_nothing(monkeypatch: pytest.MonkeyPatch, fresh_clients: None) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(OSError, match="HDFS does not answer"):
            place_of(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/x").exists()


def test_a_name_service_that_nobody_knows() -> None:
    with pytest.raises(PipelineError, match=r"^hdfs://lake has no port and is no name service .* by namenodes in"):
        place_of("hdfs://lake/x").exists()


@pytest.mark.parametrize("table_format", ["parquet", pytest.param("delta", marks=pytest.mark.merge)])
def test_name_nodes_of_a_service(hdfs: Broker, spark_session: SparkSession, tmp_path: Path, table_format: str) -> None:
    """The first is away; Spark finds the other one, too."""
    storage = Storage.of({"namenodes": f"127.0.0.1:1, 127.0.0.1:{hdfs.ports['plain']}"})
    output = place_of(f"hdfs://{table_format}{tmp_path}", storage)
    lake = Lake(tmp_path, table_format, stored=output)  # type: ignore[arg-type]
    with lake.journal.alone():
        lake.put([{"a": 1}], {"a": pa.int32()})
    assert lake.rows() == [{"a": 1}]
    assert [row.a for row in LandedTables.of(output).frame(spark_session, ORDER).collect()] == [1]
