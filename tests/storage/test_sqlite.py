import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from signalbook.storage import open_store
from signalbook.storage.base import StorageBusy, StorageError, StorageFull
from signalbook.storage.dialect import DriverConnection
from signalbook.storage.sqlite import SQLite
from signalbook.storage.store import Store, ensure_current

ONE_MIB = b"x" * 1024 * 1024


class SmallDisk(SQLite):
    """A database whose disk ends after 100 pages of 4 KiB."""

    def connect(self) -> DriverConnection:
        connection = super().connect()
        connection.execute("PRAGMA max_page_count=100")
        return connection


def put(store: Store, content: bytes) -> None:
    with store.write() as writer:
        writer.settings.put_config("before", {})
        writer.settings.put_config("modelsource", content.decode())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///{0}/none/x.db", "none/x.db: it cannot be opened; check that its directory exists"),
        ("sqlite:///{0}", "cannot be opened"),
        ("sqlite:///{0}/junk", "junk: the file is damaged or no SQLite database"),
        ("sqlite:///{0}/x.db?mode=memory", "may only say synchronous=full|normal|off"),
        ("sqlite:///{0}/x.db?synchronous=maybe", "may only say synchronous=full|normal|off"),
        ("sqlite://x.db", "a file takes three: sqlite:///x.db"),
    ],
)
def test_unopenable_file_is_an_error(tmp_path: Path, url: str, message: str) -> None:
    (tmp_path / "junk").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError) as caught:
        open_store(url.format(tmp_path))
    assert message in str(caught.value)


def test_error_of_a_damaged_file_advises_a_restore(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = open_store(f"sqlite:///{path}")
    put(store, ONE_MIB)
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))

    def use() -> None:
        with closing(open_store(f"sqlite:///{path}")) as store:
            put(store, b"")

    with pytest.raises(StorageError, match=re.escape("s.db: the file is damaged; restore it from a backup")):
        use()


def test_a_full_disk_keeps_nothing_of_the_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = SmallDisk(tmp_path / "s.db", timeout=1)
    ensure_current(disk)
    store = Store(disk, timeout=1)
    put(store, b"small")
    for _ in range(2):
        with pytest.raises(StorageFull, match=re.escape("s.db: the disk is full; free some space")):
            put(store, ONE_MIB)
    assert [record.getMessage() for record in caplog.records if "disk is full" in record.getMessage()][1:] == []
    with store.read() as reader:
        assert (reader.settings.config("modelsource"), reader.settings.config_epoch("before")) == ("small", 1)
    put(store, b"small again")
    store.close()


def test_a_disk_full_from_the_start_leaves_no_table(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "s.db", timeout=1)
    connection = disk.connect()
    connection.execute("CREATE TABLE other (content BLOB)")
    connection.execute("INSERT INTO other VALUES (zeroblob(390000))")
    with pytest.raises(StorageError, match="the disk is full"):
        ensure_current(disk)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)]
    connection.close()


# A limit on the size of files stands in for a disk that fails; it holds for a whole process, so for one of its own.
LIMITED = """
import resource, sys
from signalbook.storage import open_store
from signalbook.storage.base import StorageError
store = open_store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    with store.write() as writer:
        writer.settings.put_config("modelsource", "x" * 1_000_000)
except StorageError as error:
    print(error)
with store.read() as reader:
    print(reader.settings.config_epoch("modelsource"))
"""


def test_a_write_the_disk_refuses_is_reported_and_not_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, f"sqlite:///{tmp_path / 's.db'}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    message, epoch = result.stdout.splitlines()
    assert "s.db: reading or writing failed; check the disk" in message
    assert epoch == "0"


READ_ONLY = """
import os, sys
from signalbook.storage import open_store
from signalbook.storage.base import StorageError
if os.geteuid() == 0:
    os.setuid(65534)  # permissions do not stop root
store = open_store(sys.argv[1])
with store.read() as reader:
    print(reader.settings.config("modelsource"))
try:
    with store.write() as writer:
        writer.settings.put_config("modelsource", 2)
except StorageError as error:
    print(error)
"""


def test_read_only_file_can_be_read_and_write_error_is_explained() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "s.db")
        keep = open_store(f"sqlite:///{path}")
        put(keep, b"1")
        for file, mode in [(Path(folder), 0o555), *((file, 0o444) for file in Path(folder).iterdir())]:
            file.chmod(mode)
        command = [sys.executable, "-c", READ_ONLY, f"sqlite:///{path}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert result.stdout.splitlines()[0] == "1", result.stderr
        assert "s.db: it cannot be written; check the permissions" in result.stdout
        keep.close()
        Path(folder).chmod(0o755)


def test_a_commit_survives_power_loss_unless_asked_otherwise(tmp_path: Path) -> None:
    for option, expected in (("", 2), ("?synchronous=full", 2), ("?synchronous=normal", 1), ("?synchronous=off", 0)):
        store = open_store(f"sqlite:///{tmp_path / 's.db'}{option}")
        assert isinstance(store, Store)
        connection = store._dialect.connect()
        assert connection.execute("PRAGMA synchronous").fetchall() == [(expected,)]
        connection.close()
        store.close()


def test_another_programs_write_lock_makes_it_busy(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = open_store(f"sqlite:///{path}", timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy, match=re.escape("s.db: another writer held the database for 0.05 s")):
        put(store, b"")
    other.rollback()
    put(store, b"")
    other.close()
    store.close()


def test_temporary_store_is_deleted_when_closed() -> None:
    store = open_store("sqlite://")
    folder = Path(str(store).removeprefix("Store(").removesuffix(")")).parent
    assert list(folder.iterdir())
    store.close()
    assert not folder.exists()


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """The files contain the whole registry; the mode of an existing file is not changed."""
    file = tmp_path / "r.db"
    with closing(open_store(f"sqlite:///{file}")) as store:
        put(store, b"{}")
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("r.db", "r.db-wal", "r.db-shm"), "0o600")
    file.chmod(0o640)
    open_store(f"sqlite:///{file}").close()
    assert file.stat().st_mode & 0o777 == 0o640
