import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from signalbook.storage import open_store
from signalbook.values import digest
from signalbook.xid import Xid

WRITE = """
import sys, time
from signalbook.storage import open_store
from signalbook.storage.base import Row
from signalbook.values import digest, now
from signalbook.xid import Xid

def write(writer, n):
    content = str(n).encode()
    (key,) = writer.entities.reserve(1)
    writer.entities.put_documents({digest(content): content})
    xid = Xid(("things", str(n)))
    writer.entities.insert([Row(key=key, parent=1, xid=xid, epoch=1, createdat=now(), modifiedat=now(),
                                document=digest(content))])
    writer.outbox.append([{"n": n}], time=now(), correlationid="c")

store = open_store(sys.argv[1])
"""
COMMITTING = """
for n in range(1_000_000):
    with store.write() as writer:
        write(writer, n)
    print(n, flush=True)
"""
IN_THE_MIDST = """
with store.write() as writer:
    for n in range(500):
        write(writer, n)
    print("uncommitted", flush=True)
    time.sleep(600)
"""


@contextmanager
def running(program: str, url: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", WRITE + program, url], stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def lines(child: subprocess.Popen[str]) -> Iterator[str]:
    assert child.stdout is not None
    return iter(child.stdout)


def test_a_commit_outlives_a_killed_program(store_url: str) -> None:
    with running(COMMITTING, store_url) as child:
        lines_read = [next(lines(child)) for _ in range(40)]
        child.kill()
        lines_read += lines(child)
    with closing(open_store(store_url)) as store, store.read() as reader:
        changes = [record.change["n"] for record in reader.outbox.records()]
        contents = [str(n).encode() for n in changes]
        assert len(lines_read) <= len(changes) <= len(lines_read) + 1
        assert changes == list(range(len(changes)))
        assert len(reader.entities.get_many([Xid(("things", str(n))) for n in changes])) == len(changes)
        assert sorted(reader.entities.documents([digest(content) for content in contents]).values()) == sorted(contents)


def test_killed_write_leaves_no_trace(store_url: str) -> None:
    with running(IN_THE_MIDST, store_url) as child:
        assert next(lines(child)) == "uncommitted\n"
    with closing(open_store(store_url)) as store, store.write() as writer:
        assert writer.outbox.records() == []
        assert list(writer.entities.children([1])) == []
        assert writer.entities.documents([digest(b"0")]) == {}
        assert list(writer.entities.reserve(1)) == [1]
