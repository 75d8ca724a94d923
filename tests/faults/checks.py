"""What has to hold at the end."""

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from http import HTTPStatus
from itertools import groupby, pairwise

import psycopg
from tests.faults.cluster import Cluster
from tests.faults.listening import Told
from tests.faults.load import SHARED, Client, Ledger, Writer
from tests.serving import BIN

from signalbook.storage import open_store


def outbox(cluster: Cluster) -> list[tuple[int, str, str]]:
    """Return all committed changes: position, correlation id and subject."""
    with closing(open_store(cluster.postgres.registry)) as store, store.read() as reader:
        records = reader.outbox.records(limit=100_000_000)
        return [(record.position, record.correlationid, record.change["xid"]) for record in records]


def check_state(cluster: Cluster, writers: Sequence[Writer], ledger: Ledger) -> None:
    """Every server shows what the writers know to be there, and nothing else."""
    for server in cluster.servers:
        client = Client(server.url, ledger)
        for writer in writers:
            schemas_answer = client.insist("GET", f"{writer.group}/schemas?inline=versions.schema")
            counted = client.insist("GET", writer.group)
            if (schemas_answer.status, counted.status) != (HTTPStatus.OK, HTTPStatus.OK):
                ledger.violation(
                    f"server {server.number}, {writer.group} at the end: {schemas_answer.status} {schemas_answer.body}"
                )
                continue
            actual = {
                name: {key: (v["schema"]["title"], v["epoch"], v.get("name")) for key, v in schema["versions"].items()}
                for name, schema in schemas_answer.body.items()
            }
            expected = {
                name: {key: (v.title, v.epoch, v.name) for key, v in versions.items()}
                for name, versions in writer.schemas.items()
            }
            for name in sorted({*actual, *expected}):
                if actual.get(name) != expected.get(name):
                    ledger.violation(
                        f"server {server.number}, {writer.group}/schemas/{name} at the end: "
                        f"{actual.get(name)}, not {expected.get(name)}"
                    )
            if counted.body["schemascount"] != len(expected):
                ledger.violation(f"{writer.group} at the end: {counted.body}, not {len(expected)} schemas")
        epoch = client.insist("GET", SHARED).body["epoch"]
        missing = len(set(range(2, epoch + 1)) - ledger.shared)
        if missing > ledger.shared_unknown or (ledger.shared and epoch < max(ledger.shared)):
            ledger.violation(f"{SHARED} at the end: epoch {epoch}; {missing} updates were nobody's")
        client.close()


_USED = """
SELECT r.parent, count(*), sum(length(d.content)) FROM entities v JOIN entities r ON r.key = v.parent
JOIN documents d ON d.digest = v.document WHERE v.type = 'versions' GROUP BY r.parent
"""


def check_counts(cluster: Cluster, ledger: Ledger) -> int:
    """Kept counts are those of the rows; the number of rows."""
    if cluster.upgraded:
        # As operators are told to, once no older server is left.
        command = [str(BIN / "signalbook"), "migrate", "--recount", "--db", cluster.postgres.registry]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with cluster.postgres.connect() as connection:
        counted = connection.execute(
            "SELECT parent, type, count(*) FROM entities WHERE parent IS NOT NULL GROUP BY parent, type"
        ).fetchall()
        stored = connection.execute("SELECT parent, type, count FROM members WHERE count <> 0").fetchall()
        used = connection.execute(_USED.encode()).fetchall()
        kept_used = connection.execute("SELECT parent, versions, bytes FROM group_usage WHERE versions > 0").fetchall()
        orphans = connection.execute(
            "SELECT count(*) FROM entities e WHERE document IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.digest = e.document)"
        ).fetchall()[0][0]
    wrong = {tuple(row) for row in stored} ^ {tuple(row) for row in counted}
    if wrong:
        ledger.violation(f"kept counts are not those of the rows: {sorted(map(str, wrong))[:10]}")
    if {tuple(row) for row in used} != {tuple(row) for row in kept_used}:
        ledger.violation(f"what Groups have is not what was counted: {kept_used[:5]}, not {used[:5]}")
    if orphans:
        ledger.violation(f"{orphans} Versions without their document")
    return sum(row[2] for row in counted)


def check_history(history: list[tuple[int, str, str]], ledger: Ledger, before: int) -> None:
    """Check that the events of each acknowledged write are contiguous, and that there are no events of unknown
    writes.

    ``before`` is the number of writes by others than the writers.
    """
    runs = [correlation for correlation, _ in groupby(history, key=lambda line: line[1])]
    for correlation, times in Counter(runs).items():
        if times > 1:
            ledger.violation(f"the events of write {correlation} are not together")
    lost = ledger.correlations - set(runs)
    if lost:
        ledger.violation(f"{len(lost)} acknowledged writes have no events: {sorted(lost)[:5]}")
    extra = len(set(runs) - ledger.correlations)
    if extra > ledger.unknown + before:
        ledger.violation(f"{extra} writes are in the history that nobody made")


def check_told(name: str, events: Iterable[Told], history: list[tuple[int, str, str]], ledger: Ledger) -> None:
    """Check that a reader by position receives every event once and in order."""
    received = [(event.id, event.correlation, event.subject) for event in events]
    if received != history:
        missing, extra = set(history) - set(received), set(received) - set(history)
        ledger.violation(
            f"{name}: {len(received)} events of {len(history)}, {len(missing)} missing {sorted(missing)[:3]}, "
            f"{len(extra)} never committed {sorted(extra)[:3]}, in order: {received == sorted(received)}"
        )


def check_delivered(name: str, events: Sequence[Told], history: list[tuple[int, str, str]], ledger: Ledger) -> int:
    """A sink gets everything at least once, of each subject in order; the number of repetitions.

    Who repeats goes on in order from there: no event comes before one of its subject that is older and new to the sink.
    """
    committed = {(position, correlation, subject) for position, correlation, subject in history}
    seen: set[int] = set()
    newest: dict[str, int] = defaultdict(int)
    last: dict[str, int] = defaultdict(int)
    order: dict[str, list[int]] = defaultdict(list)
    for position, _, subject in history:
        order[subject].append(position)
    following = {subject: dict(pairwise(places)) for subject, places in order.items()}
    for event in events:
        if (event.id, event.correlation, event.subject) not in committed:
            ledger.violation(f"{name}: event {event} was never committed")
        subject = event.subject
        if event.id not in seen and event.id < newest[subject]:
            ledger.violation(f"{name}: event {event.id} of {subject} came after {newest[subject]}")
        # Behind a repetition come those that followed it, too.
        if event.id > last[subject] > 0 and following[subject].get(last[subject]) != event.id:
            ledger.violation(f"{name}: event {event.id} of {subject} came right after {last[subject]}")
        seen.add(event.id)
        newest[subject] = max(newest[subject], event.id)
        last[subject] = event.id
    missing = {position for position, _, _ in history} - seen
    if missing:
        ledger.violation(f"{name}: {len(missing)} events were not delivered: {sorted(missing)[:10]}")
    return len(events) - len(seen)


def last_position(cluster: Cluster) -> int:
    """Return the position of the newest event."""
    with psycopg.connect(cluster.postgres.registry) as connection:
        return int(connection.execute("SELECT max(position) FROM outbox").fetchall()[0][0])
