"""What HDFS has of its own: who may replace what, name services, users, and a NameNode that is away."""

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
from signalbook.pipeline.tables.landed_tables import LandedTables
from signalbook.values import digest

pytestmark = pytest.mark.merge


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> HdfsPlace:
    """An empty one."""
    hdfs_folder = place("hdfs", tmp_path, request)
    assert isinstance(hdfs_folder, HdfsPlace)
    return hdfs_folder


@pytest.fixture
def fresh_clients() -> Iterator[None]:
    """Clients are made anew for the test, and after it."""
    module.connect.cache_clear()
    yield
    module.connect.cache_clear()


def following(file: HdfsPlace) -> HdfsPlace:
    """Return the folder in which the next content after that of ``file`` is claimed."""
    return file.parent / f".{digest(f'{file.name} {file.read_tagged()[1]}'.encode())[:32]}.next"


def own(folder: HdfsPlace) -> list[str]:
    """Names that nobody is shown."""
    return [entry.path for entry in folder._list(deep=True) if module._OWN.search(entry.path)]


def test_one_of_many_concurrent_swaps_succeeds(folder: HdfsPlace) -> None:
    file = folder / "one"
    file.replace(b"0")
    for turn in range(3):
        seen, tag = file.read_tagged()
        contents = [f"{turn} {number}".encode() for number in range(6)]
        with ThreadPoolExecutor(6) as pool:
            won = list(pool.map(lambda content, tag=tag: file.swap(content, tag), contents))
        assert (seen == file.read(), won.count(True)) == (False, 1)
        assert file.read() == contents[won.index(True)]
    assert own(folder) == []


def test_claim_of_a_killed_process_is_completed(folder: HdfsPlace) -> None:
    """The killed process had the right to replace the content: its content is put in place first."""
    file = folder / "one"
    file.replace(b"0")
    _, tag = file.read_tagged()
    (following(file) / "x").replace(b"of the dead")
    assert not file.swap(b"1", tag)
    assert file.read() == b"of the dead"
    assert file.swap(b"1", file.read_tagged()[1])
    assert own(folder) == []


def test_delayed_swap_replaces_nothing(folder: HdfsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another content was put in place between the look and the claim of the delayed process."""
    file = folder / "one"
    file.replace(b"0")
    _, tag = file.read_tagged()
    fresh = HdfsPlace._create_fresh

    def late(self: HdfsPlace, content: bytes, below: str = "") -> HdfsPlace:
        fresh_file = fresh(self, content, below)
        if content == b"late":
            assert file.swap(b"1", tag)
        return fresh_file

    monkeypatch.setattr(HdfsPlace, "_create_fresh", late)
    assert not file.swap(b"late", tag)
    assert file.read() == b"1"
    assert own(folder) == []


def test_unfinished_files_are_not_listed(folder: HdfsPlace) -> None:
    (folder / "f").replace(b"x")
    fresh = (folder / "f")._create_fresh(b"y")
    (folder / "f")._create_fresh(b"y", "below")
    assert (fresh.read(), len(own(folder))) == (b"y", 3)
    assert [entry.path for entry in folder.list_files(deep=True)] == ["f"]
    assert folder.list_folders() == []


def test_a_file_has_no_files(folder: HdfsPlace) -> None:
    (folder / "f").replace(b"x")
    assert (list((folder / "f").list_files()), (folder / "f").list_folders(), folder.exists()) == ([], [], False)


def test_lost_responses_are_handled(folder: HdfsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change was made, and is asked for again; what is only looked at hdfs-native asks again by itself."""
    client, countdown = module.connect(folder.root, folder.settings), 0

    class Losing:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return partial(self._ask, name)

        def _ask(self, name: str, *arguments: Any, **options: Any) -> Any:
            nonlocal countdown
            result = getattr(self._inner, name)(*arguments, **options)
            countdown -= name in ("create", "write", "close", "rename", "delete")
            if countdown == 0:
                countdown = -1
                raise OSError("RPC listener disconnected")
            return Losing(result) if name == "create" else result

        @property
        def inner(self) -> Any:
            return Losing(self._inner.inner)

    monkeypatch.setattr(module, "connect", lambda *_: Losing(client))
    for number in range(1, 12):
        countdown = number
        file = folder / f"{number}"
        assert file.create(b"0")
        countdown = number
        file.replace(b"1")
        countdown = number
        assert file.swap(b"2", digest(b"1"))
        assert file.read() == b"2"
    assert not [name_ for name_ in own(folder) if name_.endswith(".next")]


def test_permission_error_is_one_line(folder: HdfsPlace, monkeypatch: pytest.MonkeyPatch, fresh_clients: None) -> None:
    folder.make()
    module.connect.cache_clear()
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    with pytest.raises(
        OSError, match="HDFS answers AccessControlException: Permission denied: user=mallory"
    ) as failure:
        (folder / "f").replace(b"x")
    assert "\n" not in str(failure.value)
    assert "\\n" not in str(failure.value)


def test_unavailable_name_node_is_an_error(monkeypatch: pytest.MonkeyPatch, fresh_clients: None) -> None:
    monkeypatch.setattr(module, "_RETRIES", {"dfs.client.failover.max.attempts": "1"})
    with pytest.raises(OSError, match=r"^.Errno 5. HDFS does not answer: Connection refused"):
        place_of("hdfs://127.0.0.1:1/x").read()


def test_silent_name_node_is_an_error(monkeypatch: pytest.MonkeyPatch, fresh_clients: None) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(OSError, match="HDFS does not answer"):
            place_of(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/x").exists()


def test_unknown_name_service_is_an_error() -> None:
    with pytest.raises(PipelineError, match=r"^hdfs://lake has no port and is no name service .* by namenodes in"):
        place_of("hdfs://lake/x").exists()


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_name_nodes_of_a_service(hdfs: Broker, spark_session: SparkSession, tmp_path: Path, table_format: str) -> None:
    """The first is away; Spark finds the other one, too."""
    storage = Storage.of({"namenodes": f"127.0.0.1:1, 127.0.0.1:{hdfs.ports['plain']}"})
    output = place_of(f"hdfs://{table_format}{tmp_path}", storage)
    lake = Lake(tmp_path, table_format, stored=output)  # type: ignore[arg-type]
    with lake.journal.lock_output():
        lake.put([{"a": 1}], {"a": pa.int32()})
    assert lake.rows() == [{"a": 1}]
    assert [row.a for row in LandedTables.of(output).read_frame(spark_session, ORDER).collect()] == [1]
