"""What a place can do: the same in a folder, on two S3 servers that differ, and by the API of Google."""

import io
import os
import pickle
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.brokers.program import Broker
from tests.brokers.servers import BUCKET, PASSWORD
from tests.pipeline.s3 import KINDS, S3, SERVERS, place, storage_of
from tests.pipeline.storeway import at_first, cut, now_and_then, store_way

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace, Place, Storage, StorePlace, place_of, run_in_parallel, stores
from signalbook.pipeline.places.base import TOGETHER, Ranges


@pytest.fixture(params=KINDS)
def somewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place."""
    return place(request.param, tmp_path / "here", request)


@pytest.fixture(params=SERVERS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place of a store, or in HDFS."""
    return place(request.param, tmp_path, request)


def test_written_content_can_be_read(somewhere: Place) -> None:
    file = somewhere / "a" / "b.json"
    file.parent.make()
    assert not file.exists()
    with pytest.raises(FileNotFoundError):
        file.read()
    with pytest.raises(FileNotFoundError):
        file.find_size()
    for write in (file.write, file.replace):
        write(b"first")
        write(b"and second")
        assert (file.read(), file.find_size(), file.exists()) == (b"and second", 10, True)
    assert (file.name, str(file.parent / "b.json")) == ("b.json", str(file))
    file.delete()
    file.delete()
    assert not file.exists()


def test_special_characters_in_names_are_preserved(somewhere: Place) -> None:
    names = ["a%3Ab", "order@2", "ü ~", "a+b", "$x", "landed_on=2026-11-23"]
    somewhere.make()
    for name in names:
        (somewhere / name).write(b"x")
    assert sorted(entry.path for entry in somewhere.list_files()) == sorted(names)
    assert all((somewhere / name).read() == b"x" for name in names)


def test_only_one_creates(somewhere: Place) -> None:
    somewhere.make()
    file = somewhere / "one"
    assert file.create(b"mine")
    assert not file.create(b"another's")
    assert file.create(b"mine")  # repeated, as after an answer that was lost
    assert file.read() == b"mine"


@pytest.mark.parametrize("server", ["s3proxy", "hdfs"])
def test_one_of_many_concurrent_creations_succeeds(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Stores promise this, and s3proxy keeps the promise; S3Mock checks and writes separately."""
    stored = place(server, tmp_path, request)
    with ThreadPoolExecutor(8) as pool:
        contents = [f"from {number}".encode() for number in range(8)]
        won = list(pool.map((stored / "one").create, contents))
    assert won.count(True) == 1
    assert (stored / "one").read() == contents[won.index(True)]


def test_swap_requires_the_current_tag(somewhere: Place) -> None:
    somewhere.make()
    file = somewhere / "one"
    (somewhere / "another").replace(b"0")
    assert not file.swap(b"1", (somewhere / "another").read_tagged()[1])
    file.replace(b"1")
    content, tag = file.read_tagged()
    assert (content, file.swap(b"2", tag)) == (b"1", True)
    assert not file.swap(b"3", tag)
    assert file.swap(b"2", tag)  # repeated
    assert file.read() == b"2"


def test_files_and_folders_are_listed(somewhere: Place) -> None:
    assert (list(somewhere.list_files()), list(somewhere.list_files(deep=True)), somewhere.list_folders()) == (
        [],
        [],
        [],
    )
    for path in ("x.json", "b/y", "b/c/z", "bb/w"):
        (somewhere / path).parent.make()
        (somewhere / path).write(b"1234")
    before = time.time_ns() - 60_000_000_000
    entries = list(somewhere.list_files(deep=True))
    assert sorted(entry.path for entry in entries) == ["b/c/z", "b/y", "bb/w", "x.json"]
    assert all(entry.size == 4 and entry.modified > before for entry in entries)
    assert [entry.path for entry in somewhere.list_files()] == ["x.json"]
    assert somewhere.list_folders() == ["b", "bb"]
    (somewhere / "b").clear()
    assert sorted(entry.path for entry in somewhere.list_files(deep=True)) == ["bb/w", "x.json"]
    (somewhere / "b").clear()


def test_pipe_is_not_listed_as_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "x").touch()
    assert [entry.path for entry in place_of(tmp_path).list_files(deep=True)] == ["x"]


def test_listings_of_several_pages_are_complete(
    s3proxy: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored = place("s3proxy", tmp_path, request)
    assert isinstance(stored, StorePlace)
    folder = s3proxy.folder / "data" / BUCKET / stored.path / "d"
    folder.mkdir(parents=True)
    for number in range(1010):
        (folder / f"{number:04}").touch()
    assert len(list((stored / "d").list_files())) == len(list(stored.list_files(deep=True))) == 1010
    (stored / "d").clear()
    assert list(stored.list_files(deep=True)) == []


def test_move_replaces_the_target(somewhere: Place) -> None:
    somewhere.make()
    source, target = somewhere / "from", somewhere / "to"
    source.write(b"moved")
    target.write(b"old")
    source.move(target)
    somewhere.settle()
    assert (source.exists(), target.read()) == (False, b"moved")
    with pytest.raises(FileNotFoundError):
        source.move(target)


def test_reading_is_seekable(somewhere: Place) -> None:
    somewhere.make()
    content = os.urandom(100_000)
    (somewhere / "f").write(content)
    with (somewhere / "f").open() as file:
        assert file.seekable()
        assert file.seek(50_000) == 50_000
        assert file.read(10) == content[50_000:50_010]
        assert file.tell() == 50_010
        file.seek(-5, io.SEEK_END)
        assert (file.read(), file.read(1)) == (content[-5:], b"")
        file.seek(0)
        with io.BufferedReader(file, 1000) as lines:  # type: ignore[type-var]
            assert lines.read() == content


def test_a_file_that_becomes_shorter_is_an_error() -> None:
    with Ranges(lambda start, end: b"x" * (min(end, 7) - start), 10, "the file") as file:
        assert file.read(7) == b"x" * 7
        with pytest.raises(OSError, match="the file became shorter while it was read"):
            file.read()


@pytest.mark.parametrize("rows", [10, 3_000_000])
def test_large_files_come_whole(somewhere: Place, rows: int) -> None:
    """The larger one in several parts."""
    somewhere.make()
    table = pa.table({"n": pa.array(range(rows))})
    output = (somewhere / "f.parquet").open_output()
    pq.write_table(table, output.sink, compression="none")
    assert output.finish() == (somewhere / "f.parquet").find_size()
    assert pq.read_table((somewhere / "f.parquet").open_for_arrow()).equals(table)


def test_abandoned_output_does_not_exist(stored: Place) -> None:
    output = (stored / "f").open_output()
    output.sink.write(b"half of it")
    output.abandon()
    assert not (stored / "f").exists()


def test_failed_output_is_abandoned(stored: Place) -> None:
    with suppress(ZeroDivisionError), (stored / "f").open_output() as output:
        output.sink.write(b"half of it")
        raise ZeroDivisionError
    assert output.sink.closed
    assert not (stored / "f").exists()


def test_places_reach_other_processes(somewhere: Place) -> None:
    somewhere.make()
    (somewhere / "f").write(b"x")
    assert (pickle.loads(pickle.dumps(somewhere)) / "f").read() == b"x"


def test_texts_and_urls_are_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of("lake") == place_of(Path("lake")) == LocalPlace(tmp_path / "lake")
    for text in ("/lake", "file:///lake", "file:/lake", "FILE:///lake", "file://localhost/lake"):
        assert place_of(text) == LocalPlace(Path("/lake"))
    for url in (
        "s3://b/lake",
        "s3a://b",
        "gs://b/x/y",
        "az://c/x",
        "hdfs://h:8020/x",
        "hdfs://lake",
        "abfss://c@a.dfs.core.windows.net/x",
    ):
        store_place = place_of(url)
        assert (str(store_place), str(store_place / "t"), store_place.folder) == (url, f"{url}/t", None)
        assert place_of(store_place) is store_place
    assert str(place_of("s3://b/lake/")) == "s3://b/lake"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("webhdfs://h:9/x", "webhdfs is not supported: write hdfs://HOST:PORT"),
        ("dbfs:/x", "dbfs is not supported: on Databricks give the mounted path"),
        ("hdfs:/h/x", "^hdfs:/h/x lacks a slash: write hdfs://h/x$"),
        ("hdfs:///x", "names no NameNode: write hdfs://HOST:PORT/FOLDER"),
        ("hdfs://h:9:9/x", "names no NameNode"),
        ("hdfs://h:port/x", "names no NameNode"),
        ("hdfs://a b/x", "names no NameNode"),
        ("hdfs://alice@h:9/x", "^an hdfs: URL with a user is not taken"),
        ("hdfs://h:9/a:b", "has an empty part, '.', '..' or a colon"),
        ("file://lake", "^file://lake: a file: URL is file:///PATH, on this machine"),
        ("file://lake/x", "a file: URL is file:///PATH"),
        ("file:lake", "a file: URL is file:///PATH"),
        ("s3:/b/lake", "^s3:/b/lake lacks a slash: write s3://b/lake$"),
        ("ftp://h/x", "ftp is not supported: give a path, .* a URL of: abfs, abfss"),
        ("s3:///x", "names no bucket"),
        ("s3://b/a//c", "has an empty part"),
        ("s3://b/../c", "has an empty part, '.' or '..'"),
        ("abfss://container/x", "write abfss://CONTAINER@ACCOUNT"),
    ],
)
def test_invalid_place_is_rejected(url: str, words: str) -> None:
    with pytest.raises(PipelineError, match=words) as failure:
        place_of(url)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://name:word-4711@bucket/x",
        "S3a://word-4711@bucket",
        "gs://word-4711@bucket/x",
        "abfss://c:word-4711@a.dfs.core.windows.net/x",
        "az://c/x?sv=1&sig=word-4711",
        "s3://bucket/x?X-Amz-Signature=word-4711",
    ],
)
def test_credentials_are_not_for_urls(url: str) -> None:
    with pytest.raises(PipelineError, match="URL with credentials is not taken") as failure:
        place_of(url)
    assert "4711" not in str(failure.value)


@pytest.mark.parametrize("url", ["s3://bucket/lake", "s3a://b", "hdfs://h:9/x", "dbfs:/x"])
def test_a_path_made_of_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A path made of a URL used to be a local folder."""
    monkeypatch.chdir(tmp_path)
    for path in (Path(url), Path(url).absolute()):
        with pytest.raises(PipelineError, match=rf"^{url.partition('/')[0]}//.+ is a URL and no path"):
            place_of(path)
    with pytest.raises(PipelineError, match=r"^file:///lake is a URL"):
        place_of(Path("file:///lake"))
    assert place_of(Path("volume:/lake")) == LocalPlace(tmp_path / "volume:/lake")


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("s3://lake/x", "wrong-4711", r"the store answers 403 Forbidden \(SignatureDoesNotMatch\)"),
        ("s3://nowhere/x", PASSWORD, r"there is no such bucket|the store answers 404 Not Found \(NoSuchBucket\)"),
    ],
)
def test_errors_are_one_line(s3proxy: Broker, url: str, key: str, words: str) -> None:
    somewhere = place_of(url, storage_of(s3proxy.ports["plain"], secret_access_key=key))
    for use in (somewhere.read, lambda: somewhere.write(b""), lambda: list(somewhere.list_files())):
        with pytest.raises(OSError, match=words) as failure:
            use()
        assert failure.value.filename == url
        assert not isinstance(failure.value, FileNotFoundError)
        assert "\n" not in str(failure.value)
        assert key not in str(failure.value)


@pytest.mark.parametrize("server", S3)
def test_truncated_responses_are_requested_again(
    server: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests are repeated, even if the operation was executed before its response was lost."""
    there = place(server, tmp_path, request)
    for name in ("a", "b", "c", "d/x", "d/y"):
        (there / name).write(b"x" * 1000)
    (there / "one").write(b"1")
    monkeypatch.setattr(stores, "_PART", 5 * 1024 * 1024)
    (tmp_path / "large").write_bytes(large := os.urandom(6 * 1024 * 1024))
    with store_way(request.getfixturevalue(server).ports["plain"]) as way, (tmp_path / "large").open("rb") as file:
        here = place_of(str(there), storage_of(way.own))
        uses: list[tuple[Callable[[], object], object]] = [
            ((here / "a").read, b"x" * 1000),
            ((here / "one").read, b"1"),
            (lambda: (here / "one").read_tagged()[0], b"1"),
            (lambda: (here / "one").open().read(), b"1"),
            (lambda: (here / "a").open().read(), b"x" * 1000),
            (lambda: sorted(entry.path for entry in here.list_files()), ["a", "b", "c", "one"]),
            (here.list_folders, ["d"]),
            ((here / "b").delete, None),
            (lambda: (here / "c").move(here / "m"), None),
            ((here / "d").clear, None),
            (lambda: (here / "n").create(b"1"), True),
            (lambda: (here / "n").swap(b"2", (here / "n").read_tagged()[1]), True),
            (lambda: cast("StorePlace", here / "l").upload(file), None),
            (lambda: sorted(entry.path for entry in here.list_files(deep=True)), ["a", "l", "m", "n", "one"]),
        ]
        for use, expected in uses:
            way.fate = at_first(cut)
            assert use() == expected
    assert sorted(entry.path for entry in there.list_files(deep=True)) == ["a", "l", "m", "n", "one"]
    assert ((there / "n").read(), (there / "l").read()) == (b"2", large)


def test_interrupted_listing_continues(s3proxy: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every name occurs once, however often the listing was interrupted."""
    there = place("s3proxy", tmp_path, request)
    names = [f"{number:04}" for number in range(2500)]
    for _ in run_in_parallel(there, lambda name: (there / name).write(b""), names):
        pass
    with store_way(s3proxy.ports["plain"]) as way:
        way.fate = now_and_then(cut, 2)
        assert [entry.path for entry in place_of(str(there), storage_of(way.own)).list_files(deep=True)] == names
        assert way.count == 5  # of which two ended early


def test_missing_store_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.pipeline.places.stores._RETRIES", {"max_retries": 1})
    with pytest.raises(OSError, match="the store does not answer"):
        place_of("s3://lake/x", storage_of(1)).read()


def test_secrets_are_not_shown() -> None:
    storage = Storage.of({"secret_access_key": "wrong-4711", "region": "x"})
    store_place = place_of("s3://lake/x", storage)
    assert "wrong-4711" not in f"{store_place!r} {storage!r} {store_place}"
    assert storage.mask("it is wrong-4711") == "it is ***"
    nested = Storage.of({"access_key_id": "wrong", "secret_access_key": "wrong-4711"})
    assert nested.mask("wrong has wrong-4711") == "*** has ***"


# One thread stops where obstore's classes are made and what these call is not, and goes on when another has ended.
_IMPORTS = """
import importlib.util, pickle, sys, threading

stored = pickle.load(sys.stdin.buffer)
package = importlib.util.find_spec("obstore").origin
halfway, went_on = threading.Event(), threading.Event()

def watch(frame, event, _):
    if frame.f_code.co_filename != package:
        return None
    if "store" in frame.f_globals and not halfway.is_set():
        halfway.set()
        went_on.wait(1)
    return watch

def first():
    sys.settrace(watch)
    stored.exists()

def second():
    halfway.wait()
    try:
        stored.exists()
        print("answered")
    finally:
        went_on.set()

threads = [threading.Thread(target=each) for each in (first, second)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert halfway.is_set()
"""


def test_concurrent_first_requests_succeed(s3proxy: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A thread gets a complete obstore even if another one is importing it."""
    stored = pickle.dumps(place("s3proxy", tmp_path, request))
    result = subprocess.run(
        [sys.executable, "-c", _IMPORTS], input=stored, capture_output=True, timeout=60, check=False
    )
    assert (result.stderr, result.stdout, result.returncode) == (b"", b"answered\n", 0)


@pytest.mark.parametrize(("url", "ahead"), [("lake", 0), ("s3://bucket/lake", TOGETHER)])
def test_requests_are_made_ahead_of_their_use(url: str, ahead: int) -> None:
    """A store gets several requests at once, without waiting for the previous one."""
    requested: list[int] = []

    def ask(number: int) -> int:
        requested.append(number)
        return -number

    results = run_in_parallel(place_of(url), ask, range(100))
    assert [next(results) for _ in range(3)] == [0, -1, -2]
    assert len(requested) <= 3 + ahead
    assert list(results) == [-number for number in range(3, 100)]
    assert sorted(requested) == list(range(100))


def test_failure_of_a_parallel_request_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_in_parallel(place_of("s3://bucket/lake"), lambda number: 1 // number, [1, 0, 1]))


@pytest.mark.merge
def test_a_condition_waits_for_a_connection(s3proxy: Broker) -> None:
    """obstore waits five seconds for one, and asks again for one unless the request has a condition."""
    with store_way(s3proxy.ports["plain"]) as way, socket.socket() as door, ExitStack() as opened:
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        # Nobody is let in, and there is room for two to wait.
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(door.getsockname())
        stored = place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}", storage_of(door.getsockname()[1]))

        def let_in() -> None:
            for sock in waiting:
                sock.close()
            while True:
                try:
                    client, _ = door.accept()
                except OSError:
                    return
                server = socket.create_connection(("127.0.0.1", way.own))
                opened.callback(client.close)
                opened.callback(server.close)
                for origin, other in ((client, server), (server, client)):
                    threading.Thread(target=passed_on, args=(origin, other), daemon=True).start()

        later = threading.Timer(7, let_in)
        later.start()
        assert stored.create(b"one")
        assert stored.read() == b"one"
        door.shutdown(socket.SHUT_RDWR)
        later.join()


def passed_on(origin: socket.socket, other: socket.socket) -> None:
    """Forward the data from one connection to the other."""
    with suppress(OSError):
        while content := origin.recv(1 << 16):
            other.sendall(content)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
