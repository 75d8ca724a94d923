import base64
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect

from signalbook.cncf.ids import compute_uri_digest
from signalbook.confluent.schemas import compute_content_key
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import ConfigCommand, Method
from signalbook.events.subscription import Credential, Subscription
from signalbook.events.subscriptions.store import Keyring, SubscriptionStore
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.base import Row, StorageError
from signalbook.storage.entity_writing import GroupUsage
from signalbook.storage.schema import REVISION, TABLES
from signalbook.storage.store import MIGRATIONS, Store, WriteTransaction, _migrate, find_dialect
from signalbook.storage.subscriptions import RETRYING, DeliveryState, StoredConsent
from signalbook.storage.words import CURRENT, Condition, Phrase, WordQuery
from signalbook.values import JSON
from signalbook.xid import ROOT, Xid

OLD_ROWS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter)
SELECT k, p, x, t, f, 1, 0, 0, '{}', FALSE, 0
FROM (SELECT 1 k, 0 p, '/' x, '' t, '' f UNION ALL SELECT 2, 1, '/gs/a', 'gs', 'a' UNION ALL
      SELECT 3, 1, '/gs/b', 'gs', 'b' UNION ALL SELECT 4, 2, '/gs/a/rs/r', 'rs', 'r') old
"""
OPEN = """
import sys
from signalbook.storage import open_store
open_store(sys.argv[1], timeout=600).close()
print("opened")
"""


@pytest.fixture
def database(store_url: str) -> Iterator[Connection]:
    """A connection past the store, to a database it has migrated."""
    open_store(store_url).close()
    engine = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_revision_is_the_newest_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [REVISION]


def test_migrations_end_at_the_tables(database: Connection) -> None:
    # The words are no table of one kind on both databases.
    options = {"include_object": lambda _, name, *more: not str(name).startswith("index_words")}
    assert compare_metadata(MigrationContext.configure(database, opts=options), TABLES) == []


def test_text_is_compared_by_code_point(database: Connection) -> None:
    database.exec_driver_sql("INSERT INTO config VALUES ('_', 1, ''), ('a', 1, ''), ('B', 1, ''), ('é', 1, '')")
    names = database.exec_driver_sql("SELECT name FROM config ORDER BY name").scalars().all()
    assert names == ["B", "_", "a", "é"]


def test_opening_again_keeps_everything(store_url: str) -> None:
    for expected in (1, 2, 3):
        store = open_store(store_url)
        with store.write() as writer:
            writer.settings.put_config("modelsource", {})
            assert writer.settings.config_epoch("modelsource") == expected
        store.close()


def test_migration_writes_in_its_transaction(store_url: str) -> None:
    """The function runs in the transaction of the migration; creating the tables is not a migration."""
    met: list[str] = []

    def migrated(transaction: WriteTransaction, before: str) -> None:
        met.append(before)
        transaction.settings.put("migrated", {"from": before})
        if len(met) == 1:
            raise StorageError("no more room")

    at_revision("0005", store_url)
    with pytest.raises(StorageError, match="no more room"):
        open_store(store_url, migrated=migrated)
    for _ in range(2):
        with closing(open_store(store_url, migrated=migrated)) as store, store.read() as reader:
            assert reader.settings.get("migrated") == {"from": "0005"}
    assert met == ["0005", "0005"], "the first one left the database as it was"


def test_a_new_database_was_not_migrated(store_url: str) -> None:
    def migrated(*_: object) -> None:
        raise AssertionError

    open_store(store_url, migrated=migrated).close()


def test_children_stored_before_they_were_counted_are_counted(store_url: str) -> None:
    at_revision("0001", store_url, OLD_ROWS)
    with closing(open_store(store_url)) as store, store.read() as reader:
        assert reader.entities.counts([0, 1, 2, 3]) == {(0, ""): 1, (1, "gs"): 2, (2, "rs"): 1}
        assert [(row.rank, row.settled) for row in reader.entities.children([1], "gs")] == [(None, None)] * 2


def test_notes_that_were_configuration_are_notes(store_url: str) -> None:
    values = """('note.catalogue', 3, '{"mark": 1}'), ('note.gone', 2, NULL), ('notes', 1, '1')"""
    at_revision("0002", store_url, f"INSERT INTO config VALUES {values}")
    with closing(open_store(store_url)) as store, store.read() as reader:
        assert (reader.settings.get("catalogue"), reader.settings.get("gone")) == ({"mark": 1}, None)
        assert (reader.settings.config("note.catalogue"), reader.settings.config("notes")) == (None, 1)


OLD_VERSIONS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter)
SELECT k, p, x, t, f, 1, 0, 0, a, FALSE, c
FROM (SELECT 1 k, 0 p, '/gs/a/rs/r' x, 'rs' t, 'r' f, '{}' a, 2 c UNION ALL
      SELECT 2, 1, '/gs/a/rs/r/versions/7', 'versions', '7', '{"globaluri": "/342", "authority": "urn:x"}', 0 UNION ALL
      SELECT 3, 1, '/gs/a/rs/r/versions/v8', 'versions', 'v8', '{"globaluri": "342"}', 0 UNION ALL
      SELECT 4, 1, '/gs/a/rs/r/versions/9x', 'versions', '9x', '{"globaluri": "a b"}', 0 UNION ALL
      SELECT 5, 1, '/gs/a/rs/r/versions/2', 'versions', '2', '{"globaluri": 1, "authority": "https://a.example/"}', 0
     ) old
"""


def test_versions_stored_before_they_had_uris_are_found(store_url: str) -> None:
    """A-19, A-54"""
    at_revision("0003", store_url, OLD_VERSIONS)
    with closing(open_store(store_url)) as store, store.read() as reader:
        (resource,) = reader.entities.by_key([1])
        assert resource.versioncounter == 7
        rows = list(reader.entities.children([1]))
        assert [row.uri for row in rows] == [compute_uri_digest("gs", row.attributes) for row in rows]
        assert [row.xid.id for row in rows if row.uri] == ["7", "9x", "v8"]


USED_GROUPS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter, document)
SELECT k, p, x, t, f, 1, 0, 0, '{}', FALSE, 0, d
FROM (SELECT 1 k, 0 p, '/' x, '' t, '' f, NULL d UNION ALL SELECT 2, 1, '/gs/a', 'gs', 'a', NULL UNION ALL
      SELECT 3, 2, '/gs/a/rs/r', 'rs', 'r', NULL UNION ALL
      SELECT 4, 3, '/gs/a/rs/r/versions/1', 'versions', '1', 'd' UNION ALL
      SELECT 5, 3, '/gs/a/rs/r/versions/2', 'versions', '2', 'd' UNION ALL
      SELECT 6, 3, '/gs/a/rs/r/versions/3', 'versions', '3', NULL) old
"""


def test_group_usage_is_counted_again(store_url: str) -> None:
    content = "'\\x0102'" if store_url.startswith("postgresql") else "X'0102'"
    at_revision("0011", store_url, f"INSERT INTO documents VALUES ('d', {content})", USED_GROUPS)
    with closing(open_store(store_url)) as store:
        assert used(store) == GroupUsage(versions=3, bytes=4)
    # As a server of the version before leaves it, which counts none.
    run(store_url, "DELETE FROM entities WHERE key = 4")
    with closing(open_store(store_url)) as store:
        assert used(store) == GroupUsage(versions=3, bytes=4)
        with store.write() as writer:
            writer.entities.recount()
        assert used(store) == GroupUsage(versions=2, bytes=2)


def used(store: Store) -> GroupUsage:
    """Return the stored usage of the only Group: one Version less than it has with one more."""
    xid, stamp = Xid.parse("/gs/a/rs/r/versions/9"), datetime(2030, 1, 1, tzinfo=UTC)
    with store.write() as writer:
        writer.entities.insert([Row(key=9, parent=3, xid=xid, epoch=1, createdat=stamp, modifiedat=stamp)])
        ((_, total),) = writer.entities.growth().values()
        writer.entities.delete([9])
    return GroupUsage(versions=total.versions - 1, bytes=total.bytes)


OLD_URIS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter, uri)
SELECT k, 1, '/schemagroups/g/schemas/s/versions/' || k, 'versions', k, 1, 0, 0, a, FALSE, 0, u
FROM (SELECT 2 k, '{"globaluri": "HTTP://X.example:80/./a"}' a, 'old' u UNION ALL
      SELECT 3, '{"globaluri": "http://x.example/a"}', 'same' UNION ALL
      SELECT 4, '{"globaluri": "/b", "authority": "https://x.example/a/"}', 'old' UNION ALL
      SELECT 5, '{"globaluri": "a/../b"}', 'old' UNION ALL
      SELECT 6, '{"authority": "https://x.example"}', NULL) old
"""


def test_uris_stored_as_they_were_written_are_found_in_any_form(store_url: str) -> None:
    """Two URIs that are now equal are kept, because they may be corrected but not guessed (A-21)."""
    at_revision("0006", store_url, OLD_URIS)
    with closing(open_store(store_url)) as store, store.read() as reader:
        rows = list(reader.entities.children([1]))
        assert [row.uri for row in rows] == [compute_uri_digest("schemagroups", row.attributes) for row in rows]
        assert [row.key for row in reader.entities.named([rows[0].uri or ""], 9)] == [2, 3]


# What the program of revision 0005 wrote: a subscription with a secret and what its deliveries came to, one that writes
# a file, what was left of one that is deleted, and a lease.
OLD_SUBSCRIPTIONS = Path(__file__).parent.parent / "data" / "storage" / "subscriptions-0005.sql"
FIRST, SECOND = "000000000001da5c98e574bfc2ed", "000000000005d5725d0dd8b5c965"
KEY = b"k" * 32


def test_subscriptions_stored_as_values_get_their_tables(store_url: str, tmp_path: Path) -> None:
    """Secrets, states and consents are preserved; other settings stay where they were."""
    at_revision("0005", store_url, OLD_SUBSCRIPTIONS.read_text(encoding="utf-8"))
    store = open_store(store_url)
    key_file = tmp_path / "keys"
    key_file.write_bytes(base64.b64encode(KEY) + b"\n")
    engine = Engine(store, settings=Settings(model="empty"))
    subscriptions = SubscriptionStore(engine, Keyring(key_file, makes=False), most=9)
    assert (subscriptions.revision(), subscriptions.count()) == (5, 2)
    assert subscriptions.all() == {
        FIRST: Subscription(
            id=FIRST,
            protocol="HTTP",
            sink="https://a.example/hook",
            source="https://r.example/",
            types=("io.xregistry.group.created",),
            filters=({"prefix": {"subject": "/é"}},),
            config={"after": 0},
            protocolsettings={"method": "POST"},
            credential=Credential(
                credentialtype="PLAIN", members={"identifier": "me"}, secrets={"secret": "correct horse"}
            ),
            root="https://r.example",
            revision=4,
        ),
        SECOND: Subscription(id=SECOND, protocol="FILE", sink="file:a.jsonl", revision=5),
    }
    state = DeliveryState(
        position=17,
        state=RETRYING,
        delivered=12,
        rejected=1,
        failures=3,
        failing="2026-01-01T00:00:00Z",
        lasterror="the sink answered 503\ufffd",
        lastattempt="2026-01-01T00:00:07Z",
        lastdelivery="2025-12-31T00:00:00Z",
        next="2026-01-01T00:00:11Z",
    )
    assert [entry.state for entry in subscriptions.page("", 9)] == [state, DeliveryState(position=3)]
    with store.read() as reader:
        assert reader.subscriptions.consent(FIRST) == StoredConsent(sink="https://a.example/hook", rate=120)
        assert reader.subscriptions.consent(SECOND) is None
        assert reader.subscriptions.deliveries("", "g").keys() == {FIRST, SECOND}
        assert reader.settings.get("delivery/lease") == {"holder": "me", "beat": 41}
        assert reader.settings.get("delivery/consents") == "ab"
        assert reader.settings.get("subscriptions") is None
        assert reader.settings.get(f"deliveries/{FIRST}") is None
    with engine.writing() as session:
        created = subscriptions.create(session, Subscription(id="", protocol="FILE", sink="file:b.jsonl"))
    assert (created.subscription.revision, subscriptions.count()) == (6, 3)
    store.close()


def test_a_database_without_subscriptions_gets_empty_tables(store_url: str) -> None:
    at_revision("0005", store_url, "INSERT INTO notes (name, value) VALUES ('replications/a', '1')")
    with closing(open_store(store_url)) as store, store.read() as reader:
        actual = (reader.subscriptions.page(), reader.subscriptions.revision(), reader.subscriptions.count())
        assert actual == ([], 0, 0)
        assert reader.settings.get("replications/a") == 1


# What the program of revision 0006 stored for PATCH /capabilities {"ignores": ["epoch", "id"]}, but for its formats.
OLD_CAPABILITIES = """
INSERT INTO config VALUES ('capabilities', 1, '{"available":{"capabilities":{"mutable":true},"capabilitiesoffered":
{"mutable":false},"entities":{"mutable":true},"export":{"mutable":false},"model":{"mutable":false},"modelsource":
{"mutable":true}},"compatibilities":{},"flags":["doc","filter"],"formats":[],"ignores":["epoch","id"],"pagination":true,
"shortself":false,"specversions":["1.0-rc4"],"versionmodes":["manual","createdat","modifiedat","semver"]}')
"""


def test_discovery_stays_available(store_url: str) -> None:
    """The path is listed once; it stays unavailable after it is switched off (R117, R140)."""
    at_revision("0006", store_url, OLD_CAPABILITIES)
    with closing(open_store(store_url)) as store:
        engine = Engine(store, settings=Settings(model="empty"))
        with engine.reading() as view:
            capabilities = view.capabilities
        assert list(capabilities["available"])[:2] == [".xregistry", "capabilities"]
        assert capabilities["available"][".xregistry"] == {"mutable": False}
        assert capabilities["ignores"] == ["epoch", "id"]
        with engine.writing() as session:
            body: JSON = {"available": {name: {} for name in ("capabilities", "entities", "model")}}
            session.execute(ConfigCommand(name="capabilities", method=Method.PATCH, body=body))
    with closing(open_store(store_url)) as store, Engine(store, settings=Settings()).reading() as view:
        assert ".xregistry" not in view.capabilities["available"]


def test_unstored_capabilities_stay_unset(store_url: str) -> None:
    at_revision("0006", store_url, "INSERT INTO config VALUES ('modelsource', 1, '{}')")
    with closing(open_store(store_url)) as store, store.read() as reader:
        assert reader.settings.config("capabilities") is None


def run(url: str, *statements: str) -> None:
    """Run statements past the store."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def at_revision(revision: str, url: str, *rows: str) -> None:
    """Make a database as an older program left it, with these rows in it."""
    dialect = find_dialect(url, 60)
    _migrate(dialect, revision, None)
    dialect.close()
    run(url, *rows)


def test_words_of_other_versions_are_migrated(store_url: str) -> None:
    words = "'nold'" if store_url.startswith("postgresql") else "'old', '', '', '', ''"
    rows = (f"({key}, '/{name}', '{name}', {key}, NULL, NULL, NULL, '[]')" for key, name in ((1, "a"), (2, "b")))
    entries = f"INSERT INTO index_entries VALUES {', '.join(rows)}"
    columns = "key, words" if store_url.startswith("postgresql") else "rowid, names, fields, members, prose, facets"
    at_revision("0014", store_url, entries, f"INSERT INTO index_words ({columns}) VALUES (1, {words}), (2, {words})")
    with closing(open_store(store_url)) as store, store.read() as reading:
        query = WordQuery((Condition((Phrase(("old",)),), ("names",)),))
        results = [reading.index.matching(query, flags=CURRENT, want=CURRENT), reading.index.matching(query)]
        assert [[hit.xid for hit in some] for some in results] == [["/a"], ["/a", "/b"]]


@pytest.mark.parametrize("revision", ["9999", "none of ours"])
def test_a_newer_schema_is_left_alone(store_url: str, database: Connection, revision: str) -> None:
    database.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    database.commit()
    with pytest.raises(StorageError, match=f"schema is {revision}.*update Signalbook"):
        open_store(store_url)


@pytest.mark.merge
def test_programs_can_open_a_new_database_concurrently(store_url: str) -> None:
    command = [sys.executable, "-c", OPEN, store_url]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [program.communicate(timeout=300)[0] for program in programs] == ["opened\n"] * 4
    with closing(open_store(store_url)) as store, store.read() as reader:
        assert reader.entities.get(ROOT) is None


def test_failed_migration_leaves_no_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE outbox (of TEXT)")
    with pytest.raises(StorageError, match="outbox already exists"):
        open_store(url)
    assert inspect(engine).get_table_names() == ["outbox"]
    engine.dispose()


OLD_SCHEMAS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter, document)
SELECT k, 1, x, 'versions', k, 1, 0, 0, a, FALSE, 0, d
FROM (SELECT 2 k, '/schemagroups/G/schemas/s/versions/2' x, '{"format": "Avro/1.11"}' a, 'one' d UNION ALL
      SELECT 3, '/schemagroups/G/schemas/s/versions/3', '{"format": "JsonSchema/draft-07"}', 'one' UNION ALL
      SELECT 4, '/schemagroups/G/schemas/t/versions/4', '{"format": "avro/1.12"}', 'one' UNION ALL
      SELECT 5, '/schemagroups/h/schemas/s/versions/5', '{"format": "Protobuf/3"}', 'two' UNION ALL
      SELECT 6, '/schemagroups/h/schemas/s/versions/6', '{"format": "XSD/1.0"}', 'two' UNION ALL
      SELECT 7, '/schemagroups/h/schemas/s/versions/7', '{}', 'two' UNION ALL
      SELECT 8, '/messagegroups/h/messages/s/versions/8', '{"format": "Avro/1.11"}', 'two') old
"""


def test_old_schemas_get_numbers(store_url: str) -> None:
    at_revision("0012", store_url, OLD_SCHEMAS)
    with closing(open_store(store_url)) as store, store.read() as reader:
        rows = {row.key: row for row in reader.entities.children([1])}
        assert [rows[key].schemaid for key in range(2, 9)] == [1, 2, 1, 1, None, None, None]
        for key in (2, 3, 5):
            content = compute_content_key(rows[key].attributes, rows[key].document)
            assert content is not None
            group = rows[key].xid.parts[1].lower()
            assert reader.confluent.ids(group, [content]) == {content: rows[key].schemaid}


MANY_SCHEMAS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter, document)
WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
SELECT i, 1, '/schemagroups/g' || (i - i / 2 * 2) || '/schemas/s/versions/' || i, 'versions', CAST(i AS TEXT), 1, 0, 0,
       '{"format": "Avro/1.11"}', FALSE, 0, CAST(i / 2 - i / 2 / 900 * 900 AS TEXT)
FROM n
"""


def test_repeated_contents_have_the_same_number(store_url: str) -> None:
    """Numbers are looked up page by page, for they need not all fit into memory."""
    at_revision("0012", store_url, MANY_SCHEMAS)
    with closing(open_store(store_url)) as store, store.read() as reader:
        rows = list(reader.entities.children([1]))
        numbers = {(row.xid.parts[1], row.document): row.schemaid for row in rows}
        assert all(numbers[row.xid.parts[1], row.document] == row.schemaid for row in rows)
        for group in ("g0", "g1"):
            assert {number for (name, _), number in numbers.items() if name == group} == set(range(1, 901))
