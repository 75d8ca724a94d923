from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import model_of

from signalbook.access.base import Action
from signalbook.engine.engine import PRUNED_AT_ONCE, Engine, HistoryPruned
from signalbook.engine.write.commands import Command, ConfigCommand, DocumentBody, Flags, Method
from signalbook.errors import RegistryError, SignalbookError
from signalbook.settings import SettingError, Settings
from signalbook.storage.store import KeyValueStore, ReadTransaction, Store, WriteTransaction
from signalbook.values import JSONObject, parse_json
from signalbook.xid import ROOT, Xid

FILES = model_of()
EMPTY = Settings(model="empty", registry_id="test")
V1 = Xid.parse("/dirs/d1/files/f1/versions/v1")


def put(path: str, body: JSONObject) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(path), body=body)


def do(engine: Engine, command: Command | ConfigCommand) -> None:
    with engine.writing() as session:
        session.execute(command)


@pytest.fixture
def engine(store: Store) -> Engine:
    engine = Engine(store, settings=EMPTY)
    do(engine, ConfigCommand(name="modelsource", method=Method.PUT, body=FILES))
    return engine


@pytest.mark.parametrize("registryid", ["", "a b", "-a", "a/b", "a" * 129])
def test_a_registry_has_an_id_like_all_others(store: Store, registryid: str) -> None:
    """R25; nothing is written."""
    with pytest.raises(SettingError, match="registry_id"):
        Engine(store, settings=Settings(model="empty", registry_id=registryid))
    with store.read() as reader:
        assert reader.entities.get(ROOT) is None


def test_the_operator_switches_capabilities(engine: Engine, store: Store, tmp_path: Path) -> None:
    """The operator may do so when clients may not any more; a value already in force is no change (R116, R125)."""
    do(engine, ConfigCommand(name="capabilities", method=Method.PUT, body={}))
    with pytest.raises(RegistryError, match="not available"):
        do(engine, ConfigCommand(name="capabilities", method=Method.PUT, body={}))
    event_count = len(engine.read_changes(0, 100))
    for expected in (event_count + 2, event_count + 2):
        again = Engine(store, settings=Settings(capabilities="all"))
        with again.reading() as view:
            assert view.capabilities["available"]["capabilities"] == {"mutable": True}
        assert len(again.read_changes(0, 100)) == expected
    file = tmp_path / "capabilities.json"
    file.write_text('{"flags": ["nope"]}', encoding="utf-8")
    for name in (str(file), "missing.json"):
        with pytest.raises((RegistryError, SettingError), match=r"nope|cannot read capabilities file"):
            Engine(store, settings=Settings(capabilities=name))


class Counting(Store):
    """A store that counts the calls to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        with self._store.read() as reader:
            yield reader

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        with self._store.write() as writer:
            yield _CountedTransaction(writer, self.calls)

    def generation(self) -> Hashable:
        return self._store.generation()

    def close(self) -> None:
        self._store.close()


class _CountedTransaction(WriteTransaction):
    def __init__(self, transaction: WriteTransaction, calls: Counter[str]) -> None:
        names = ("entities", "outbox", "settings", "reports", "subscriptions", "tokens", "audit", "confluent")
        for name in names:
            setattr(self, name, _Counted(getattr(transaction, name), calls))
        # What is put is kept until the commit.
        self.index: Any = transaction.index
        self._transaction: Any = transaction


class _Counted:
    def __init__(self, writer: object, calls: Counter[str]) -> None:
        self._writer = writer
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._writer, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._calls[name] += 1
            return method(*args, **kwargs)

        return counted


def test_a_new_store_gets_a_registry(store: Store, tmp_path: Path) -> None:
    """The id and the model come from the settings, and are kept (R53, R63)."""
    file = tmp_path / "model.json"
    file.write_text('{"groups":{"shelves":{"singular":"shelf"}}}')
    Engine(store, settings=Settings(model=str(file), registry_id="mine"))
    engine = Engine(store, settings=EMPTY)
    with engine.reading() as view, store.read() as reader:
        root = reader.entities.get(ROOT)
        assert root is not None
        assert (root.attributes, root.epoch) == ({"registryid": "mine"}, 1)
        assert list(view.model.groups) == ["shelves"]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"groups": 5}'])
def test_unusable_model_is_an_error(store: Store, tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "model.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SignalbookError):
        Engine(store, settings=Settings(model=str(file)))
    with store.read() as reader:
        assert reader.entities.get(ROOT) is None


def test_sessions_see_their_own_writes(engine: Engine, store: Store) -> None:
    """Other sessions see nothing until the block ends (R22)."""
    with engine.writing() as session:
        session.execute(put("/dirs/d1", {"name": "a"}))
        session.execute(put("/dirs/d1", {"name": "b"}))
    with store.read() as reader:
        row = reader.entities.get(Xid.parse("/dirs/d1"))
    assert row is not None
    assert row.attributes == {"name": "b"}


def test_failure_after_the_write_undoes_the_write(engine: Engine, store: Store) -> None:
    """A response that cannot be rendered leaves no trace (R22, R309)."""
    with store.read() as reader:
        event_count = len(reader.outbox.records())
    with pytest.raises(RuntimeError), engine.writing() as session:  # noqa: PT012
        session.execute(put("/dirs/d1", {}))
        raise RuntimeError
    with store.read() as reader:
        assert reader.entities.get(Xid.parse("/dirs/d1")) is None
        assert len(reader.outbox.records()) == event_count


def test_configuration_of_a_failed_session_is_forgotten(engine: Engine) -> None:
    with pytest.raises(RegistryError), engine.writing() as session:  # noqa: PT012
        session.execute(ConfigCommand(name="modelsource", method=Method.PUT, body={}))
        session.execute(put("/dirs/d1", {}))
    do(engine, put("/dirs/d1", {}))


def test_another_engine_sees_a_new_model(engine: Engine, store: Store) -> None:
    other = Engine(store, settings=EMPTY)
    do(other, put("/dirs/d1", {}))
    groups = {**FILES["groups"], "x": {"singular": "y"}}
    do(engine, ConfigCommand(name="modelsource", method=Method.PUT, body={"groups": groups}))
    do(other, put("/x/x1", {}))
    with other.reading() as view:
        assert set(view.model.groups) == {"dirs", "x"}


def test_one_correlation_id_per_session(engine: Engine, store: Store) -> None:
    """Changes of a session have one correlation id (R296)."""
    with engine.writing() as session:
        session.execute(put("/dirs/d1", {}))
        session.execute(put("/dirs/d2", {}))
    with store.read() as reader:
        records = [record for record in reader.outbox.records() if record.correlationid == session.correlationid]
    assert [record.change["xid"] for record in records] == ["/", "/dirs/d1", "/dirs/d2"]
    assert {record.time for record in records} == {session.now}


@pytest.fixture
def counting(store: Store) -> tuple[Engine, Counter[str]]:
    counted = Counting(store)
    engine = Engine(counted, settings=EMPTY)
    do(engine, ConfigCommand(name="modelsource", method=Method.PUT, body=FILES))
    do(engine, Command(method=Method.PUT, target=V1, document=DocumentBody(content=b"1")))
    counted.calls.clear()
    return engine, counted.calls


def test_a_new_version_takes_few_queries(counting: tuple[Engine, Counter[str]]) -> None:
    engine, calls = counting
    do(engine, Command(method=Method.PUT, target=V1.parent / "v2", document=DocumentBody(content=b"2")))
    once = ("get_many", "counts", "children", "referrers", "put_documents", "reserve", "insert", "update", "append")
    # The program itself is recorded where there is a policy: that is asked at the end.
    assert calls == Counter(dict.fromkeys(once, 1) | {"config_epoch": 3, "get": 1})


def test_an_import_takes_as_few(counting: tuple[Engine, Counter[str]]) -> None:
    engine, calls = counting
    files = {f"f{n}": {"versions": {f"v{v}": {"file": n} for v in range(3)}} for n in range(300)}
    body = {"dirs": {f"d{n}": {"files": files} for n in range(3)}}
    for flags in (Flags(), Flags(ignore=frozenset({"epoch"}))):
        calls.clear()
        do(engine, Command(method=Method.PUT, target=ROOT, body=body, flags=flags))
        assert sum(calls.values()) <= 13


def test_references_are_loaded_together(store: Store) -> None:
    counted = Counting(store)
    engine = Engine(counted, settings=Settings())

    def calls(body: JSONObject) -> int:
        counted.calls.clear()
        do(engine, Command(method=Method.PATCH, target=ROOT, body=body))
        return sum(counted.calls.values())

    calls(EVENTS)
    few, many = ([calls(body) for body in referring(number)] for number in (3, 30))
    assert few == many


def test_replaced_documents_are_loaded_together(store: Store) -> None:
    """However many Resources of a request get other documents: those they replace are compared with them."""
    counted = Counting(store)
    engine = Engine(counted, settings=Settings())

    def schema(name: str, field: str) -> JSONObject:
        # Pairs that were compared once, on whichever store, are known.
        fields = [{"name": f"{field}{id(store)}", "type": "int", "default": 0}]
        document = {"type": "record", "name": name, "fields": fields}
        return {"versions": {"1": {"format": "Avro/1.12.0", "contenttype": "application/json", "schema": document}}}

    def send(number: int, field: str) -> int:
        counted.calls.clear()
        rule = {"meta": {"compatibility": "backward"}}
        schemas = {f"s{i}": {**schema(f"s{i}", field), **rule} for i in range(number)}
        do(engine, Command(method=Method.PATCH, target=ROOT, body={"schemagroups": {"g": {"schemas": schemas}}}))
        return counted.calls["documents"]

    send(20, "a")
    assert send(3, "b") == send(20, "c") == 1


EVENTS: JSONObject = {"messagegroups": {"events": {"envelope": "CloudEvents/1.0"}}}
DRAFT7 = "JsonSchema/draft-07"
CLOSED: JSONObject = {"type": "object", "additionalProperties": False}


def referring(number: int) -> Iterator[JSONObject]:
    """Requests about so many entities each, in Groups of their own, that refer to as many others."""
    plain, compared, base, derived = (f"{name}{number}" for name in ("plain", "compared", "base", "derived"))
    schemas, bases = f"/schemagroups/{plain}/schemas/s", f"/messagegroups/{base}/messages/m"

    def versions(name: str, **refs: int) -> JSONObject:
        """Return Versions of all schemas; each refers to the schemas at the given distances."""
        bodies: JSONObject = {}
        for n in range(number):
            members = {member: {"$ref": f"{schemas}{(n + step) % number}"} for member, step in refs.items()}
            body = {"format": DRAFT7, "schema": {**CLOSED, "title": str(n), "properties": members}}
            bodies[f"s{n}"] = {"meta": {"compatibility": "backward"}, "versions": {name: body}}
        return {"schemas": bodies}

    yield {"schemagroups": {plain: versions("1"), compared: versions("1")}}
    yield {"schemagroups": {compared: versions("2", a=0, b=1)}}
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": {}, "dataschemaformat": DRAFT7}
    messages = {f"m{n}": {**event, "dataschemauri": f"{schemas}{n}"} for n in range(number)}
    yield {"messagegroups": {base: {"messages": messages}}}
    messages = {f"m{n}": {"basemessageuri": f"{bases}{n}"} for n in range(number)}
    yield {"messagegroups": {derived: {"messages": messages}}}
    endpoint = {"usage": ["producer"], "envelope": "CloudEvents/1.0", "protocol": "HTTP"}
    endpoint["messagegroups"] = [f"/messagegroups/{base}", f"/messagegroups/{derived}"]
    yield {"endpoints": {f"e{number}n{n}": endpoint for n in range(number)}}


@pytest.mark.parametrize("first", ["workshop", "lightbulb-avro"])
def test_real_documents_import(store: Store, sample_file: Callable[[str], Path], first: str) -> None:
    """Our own documents, and the scenario documents of xRegistry's samples, in the shipped model, twice."""
    engine = Engine(store, settings=Settings(model="default"))
    documents = sorted(sample_file(f"{first}.xreg.json").parent.glob("*.xreg.json"))
    scenarios = [path for path in documents if not path.name.startswith(("schemastore", "workshop-links"))]
    assert len(scenarios) == (3 if first == "workshop" else 9)
    for path in scenarios * 2:
        do(engine, Command(method=Method.PUT, target=ROOT, body=parse_json(path.read_bytes())))


def test_stored_values_do_not_change_the_registry(engine: Engine) -> None:
    before = engine.position()
    values = KeyValueStore(engine.store)
    values.put({"things/a": 1, "things/b": 2})
    values.put({"things/a": None})
    with engine.writing() as session:
        session.transaction.settings.put("things/c", session.transaction.settings.get("things/b"))
    assert [values.get(f"things/{name}") for name in "abc"] == [None, 2, 2]
    assert engine.position() == before


def test_listeners_are_notified_of_commits(engine: Engine) -> None:
    heard: list[int] = []
    engine.listen(lambda: heard.append(engine.position()))
    before = engine.position()
    do(engine, put("/dirs/d1", {}))
    with engine.batch() as batch, batch.writing() as session:
        session.execute(put("/dirs/d2", {}))
    with engine.trying() as trial, trial.writing() as session:
        session.execute(put("/dirs/d3", {}))
    with pytest.raises(RegistryError):
        do(engine, put("/none/d4", {}))
    assert before < heard[0] < heard[1] == engine.position()
    assert len(heard) == 2


LAST = 2**63 - 1
START = datetime(2030, 1, 1, tzinfo=UTC)


def test_access_listeners_are_notified_of_policy_changes_only(engine: Engine) -> None:
    heard: list[int] = []
    engine.listen_to_access(lambda: heard.append(engine.position()))
    do(engine, put("/dirs/d1", {}))
    for number in (2, 3):
        with engine.batch() as batch, batch.writing() as session:
            session.execute(put(f"/dirs/d{number}", {}))
            session.record(Action.ADMINISTER, "/access")
    with engine.trying() as trial, trial.writing() as session:
        session.record(Action.ADMINISTER, "/access")
    assert len(heard) == 2
    assert heard[0] < heard[1] == engine.position()


def told(store: Store, count: int, *, day: int = 0) -> list[int]:
    """Add changes of one day to the outbox; their positions."""
    with store.write() as writer:
        changes: list[JSONObject] = [{"n": n} for n in range(count)]
        writer.outbox.append(changes, time=START + timedelta(days=day), correlationid=f"c{day}")
    with store.read() as reader:
        return [record.position for record in reader.outbox.records(limit=10_000)][-count:]


@pytest.fixture
def history_engine(store: Store) -> Engine:
    return Engine(store, settings=Settings(model="empty"))


def test_old_events_are_pruned(history_engine: Engine, store: Store) -> None:
    first, second = told(store, 2, day=0), told(store, 2, day=1)
    assert history_engine.prune(before=START, upto=LAST) == 0
    assert history_engine.prune(before=START + timedelta(days=1), upto=LAST) == 2
    assert [record.position for record in history_engine.read_changes(first[1], 10)] == second
    assert history_engine.prune(before=START + timedelta(days=1), upto=LAST) == 0


def test_the_last_change_stays(history_engine: Engine, store: Store) -> None:
    positions = told(store, 3)
    assert history_engine.prune(before=START + timedelta(days=9), upto=LAST) == 2
    expected = (positions[2], positions[2:])
    assert (history_engine.position(), [r.position for r in history_engine.read_changes(positions[1], 10)]) == expected


def test_undelivered_events_are_kept(history_engine: Engine, store: Store) -> None:
    positions = told(store, 5)
    assert history_engine.prune(before=START + timedelta(days=9), upto=positions[1]) == 2
    assert len(history_engine.read_changes(positions[1], 10)) == 3


def test_transaction_prunes_a_limited_number_of_events(history_engine: Engine, store: Store) -> None:
    told(store, PRUNED_AT_ONCE + 10)
    assert history_engine.prune(before=START + timedelta(days=9), upto=LAST) == PRUNED_AT_ONCE
    assert history_engine.prune(before=START + timedelta(days=9), upto=LAST) == 9


def test_reading_pruned_events_is_an_error(history_engine: Engine, store: Store) -> None:
    positions = told(store, 4)
    history_engine.prune(before=START + timedelta(days=9), upto=positions[1])
    for after in (0, positions[0]):
        with pytest.raises(HistoryPruned, match="read the registry as it is now") as caught:
            history_engine.read_changes(after, 10)
        assert caught.value.position == positions[1]


def test_gap_in_the_positions_is_not_a_loss(history_engine: Engine, store: Store) -> None:
    """Positions that were given out and rolled back with their transaction."""
    with suppress(RuntimeError), store.write() as writer:
        writer.outbox.append([{"n": 0}], time=START, correlationid="lost")
        raise RuntimeError
    positions = told(store, 1)
    assert [record.position for record in history_engine.read_changes(0, 10)] == positions


def test_another_process_can_continue_pruning(history_engine: Engine, store: Store) -> None:
    other = Engine(store, settings=Settings(model="empty"))
    positions = told(store, 6)
    assert history_engine.prune(before=START + timedelta(days=9), upto=positions[3]) == 4
    assert other.prune(before=START + timedelta(days=9), upto=positions[1]) == 0
    with pytest.raises(HistoryPruned):
        other.read_changes(positions[1], 10)
