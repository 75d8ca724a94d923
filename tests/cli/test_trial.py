"""``signalbook try`` lands messages that nobody has defined, without Spark."""

import gzip
import io
import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import duckdb
import fastavro
import httpx
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from tests.brokers.program import Broker
from tests.brokers.servers import PASSWORD, USER
from tests.cli.conftest import Cli
from tests.events.sinks.test_kafka import make_topic
from tests.pipeline.sources.test_kafka_spool import LOGIN, PATIENCE, shop, url  # noqa: F401

from signalbook.cli.trial import choose_group

SHOP = (
    {"event": "signup", "user": 1, "email": "a@b.example"},
    {"event": "purchase", "user": 1, "amount": 1.5, "items": [{"sku": "s"}]},
)
FIELDS = [{"name": "id", "type": "long"}, {"name": "buyer", "type": "string"}]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}
# An interpreter in which these packages cannot be imported.
WITHOUT_SPARK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from signalbook.cli import main
main()
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "shop.jsonl"
    lines = [json.dumps(SHOP[number % 2]) for number in range(200)] + ['{"event": "signup"']
    path.write_text("\n".join(lines))
    return path


def run_without_spark(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_SPARK, "try", *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in ("PATH", "JAVA_HOME")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_events_land_without_spark_and_java(events: Path, tmp_path: Path) -> None:
    result = run_without_spark(tmp_path, str(events), "--folder", "first look")
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "first look"
    table = pyarrow.dataset.dataset(folder / "lake/tables/shop/purchase").to_table()
    assert table["amount"].to_pylist() == [1.5] * 100
    query = next(line for line in result.stdout.splitlines() if "dead_letters" in line)
    with duckdb.connect() as connection:
        connection.execute(shlex.split(query)[2].replace("first look", str(folder)))
        ((reason, violation, message),) = connection.fetchall()
    assert (reason, violation) == ("decode_error", "not JSON: Input data was truncated")
    assert message == '{"event": "signup"'
    for words in (
        "told apart by the member 'event'",
        "signup: 100 rows, 3 columns",
        "a@b.example",
        '[{"sku": "s"}]',
        "decode_error",
        "201 messages: 200 in 2 tables, 1 dead letter",
        "duckdb -c 'FROM \"first look/lake/tables/shop/",
        'FROM "first look/lake/dead_letters/*.parquet" LIMIT 5',
        "signalbook serve --from 'first look/definitions'",
        "--registry 'first look/definitions/shop.xreg.yaml' --folder 'first look-edited'",
        "signalbook pipeline run --registry 'first look/definitions/shop.xreg.yaml'",
    ):
        assert words in result.stdout + result.stderr


@pytest.mark.parametrize("name", ["captures.parquet", "captures.avro"])
def test_captured_messages_land_without_spark(name: str, tmp_path: Path) -> None:
    values = [json.dumps(SHOP[number % 2]).encode() for number in range(200)]
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"value": values, "topic": ["shop"] * 200}), tmp_path / name)
    else:
        schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": "bytes"} for n in ("value", "topic")]}
        with (tmp_path / name).open("wb") as file:
            fastavro.writer(file, schema, [{"value": value, "topic": b"shop"} for value in values])
    result = run_without_spark(tmp_path, name)
    assert result.returncode == 0, result.stderr
    assert "200 messages: 200 in 2 tables, 0 dead letters" in result.stdout
    assert ("--option format=avro" in result.stdout) == name.endswith(".avro")
    folder = tmp_path / "signalbook-try/lake/tables/captures/shop-purchase"
    assert set(pyarrow.dataset.dataset(folder).to_table()["_address"].to_pylist()) == {"shop"}


@pytest.fixture(scope="module")
def registered(served: str) -> dict[str, bytes]:
    """The prefixes of records by topic. Their schemas are in the registry at ``served``."""
    schemas = {
        "orders": ("AVRO", json.dumps(ORDER)),
        "parcels": ("PROTOBUF", 'syntax = "proto3"; message Parcel { string id = 1; }'),
    }
    prefixes = {}
    for topic, (kind, schema) in schemas.items():
        url_ = f"{served}/compat/confluent/subjects/{topic}-value/versions"
        answer = httpx.post(url_, json={"schema": schema, "schemaType": kind}, timeout=60)
        prefixes[topic] = b"\0" + int(answer.json()["id"]).to_bytes(4, "big")
    return prefixes


def write_captures(path: Path, registered: dict[str, bytes]) -> None:
    """Write ten records in Avro and five in Protobuf, each with the id of its schema."""
    rows = []
    for number in range(10):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, ORDER, {"id": number, "buyer": "me"})
        rows.append({"topic": "orders", "value": registered["orders"] + stream.getvalue()})
    rows += [{"topic": "parcels", "value": registered["parcels"] + b"\0\n\2p1"}] * 5
    pq.write_table(pa.Table.from_pylist(rows), path)


def test_records_with_schema_ids_land_by_a_schema_registry(
    registered: dict[str, bytes], served: str, tmp_path: Path
) -> None:
    write_captures(tmp_path / "records.parquet", registered)
    result = run_without_spark(tmp_path, "records.parquet", "--registry", f"confluent+{served}/compat/confluent")
    assert result.returncode == 0, result.stderr
    assert "15 messages: 15 in 2 tables, 0 dead letters" in result.stdout
    assert f"run --registry confluent+{served}/compat/confluent --subjects topic --input records" in result.stdout
    assert "land the messages again" not in result.stdout
    tables = tmp_path / "signalbook-try/lake/tables/subjects"
    assert pyarrow.dataset.dataset(tables / "orders-value").to_table()["buyer"].to_pylist() == ["me"] * 10
    assert pyarrow.dataset.dataset(tables / "parcels-value").to_table()["id"].to_pylist() == ["p1"] * 5


def test_a_topic_with_schema_ids_lands(kafka: Broker, served: str, cli: Cli) -> None:
    topic = f"ids.{uuid4().hex}"
    make_topic(kafka, topic)
    answer = httpx.post(
        f"{served}/compat/confluent/subjects/{topic}-value/versions", json={"schema": json.dumps(ORDER)}, timeout=60
    )
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, ORDER, {"id": 1, "buyer": "me"})
    value = b"\0" + int(answer.json()["id"]).to_bytes(4, "big") + stream.getvalue()
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{kafka.ports['plain']}", **PATIENCE) as producer:
        producer.send(topic, value)
    result = json.loads(cli("try", url(kafka, topic), "--registry", served, "--json").out)
    assert result["definitions"] == served
    assert list(result["landed"]["by_message"]) == [f"/messagegroups/subjects/messages/{topic}-value"]
    assert result["landed"]["landed"] == 1


@pytest.mark.parametrize("command", [("try",), ("pipeline", "infer", "--group", "g", "--input")])
def test_records_with_schema_ids_are_not_inferred(
    command: tuple[str, ...], registered: dict[str, bytes], tmp_path: Path, cli: Cli
) -> None:
    write_captures(tmp_path / "records.parquet", registered)
    assert cli(*command, "records.parquet").ended(1, "name their schemas by ids")
    assert [path.name for path in tmp_path.iterdir()] == ["records.parquet"]


def test_messages_land_by_definitions_that_exist(events: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("pipeline", "infer", "--input", events, "--group", "shop", "--out", "shop.xreg.yaml").code == 0
    result = json.loads(cli("try", events, "--registry", "shop.xreg.yaml", "--json").out)
    assert (result["definitions"], result["landed"]["landed"]) == ("shop.xreg.yaml", 200)
    assert not (tmp_path / "signalbook-try" / "definitions").exists()


@pytest.mark.parametrize("options", [("--registry", "a.xreg.yaml", "--by", "event"), ("--subjects", "topic")])
def test_options_that_exclude_each_other(options: tuple[str, ...], events: Path, cli: Cli) -> None:
    assert cli("try", events, *options).code == 2


def test_a_topic_lands_without_spark(kafka: Broker, shop: str, tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    options = ("--option", "kafka.security.protocol=SASL_PLAINTEXT", "--option")
    login = f"kafka.sasl.jaas.config={LOGIN.format(USER, PASSWORD)}"
    result_ = cli("try", url(kafka, shop, "password"), "--folder", tmp_path / "out", *options, login, "--json")
    result = json.loads(result_.out)
    assert result["inferred"]["messages"] == {f"{shop}-signup": 45, f"{shop}-purchase": 45}
    assert (result["landed"]["landed"], result["landed"]["read"]) == (90, 91)
    assert len(list((tmp_path / "out" / "messages").glob("*.parquet"))) == 3


def test_the_result_is_printed_as_json(events: Path, tmp_path: Path, cli: Cli) -> None:
    result_ = cli("try", events, "--folder", tmp_path / "out", "--by", "event", "--json")
    result = json.loads(result_.out)
    assert result["inferred"]["messages"] == {"signup": 100, "purchase": 100}
    assert (result["landed"]["landed"], result["landed"]["dead_lettered"]) == (200, 1)
    assert Path(result["definitions"]).is_file()


def test_the_number_of_shown_tables_is_bounded(
    events: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signalbook.cli.trial._SHOWN_TABLES", 1)
    monkeypatch.setenv("COLUMNS", "500")
    shown = cli("try", events, "--folder", tmp_path / "out", "--by", "event").out
    assert shown.count("100 rows") == 1
    assert f"… and 1 more table in {tmp_path}/out/lake/tables\n" in shown


def test_interrupted_trial_is_repeated(events: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("signalbook.pipeline.commit.commit", interrupt)
        assert cli("try", events, "--folder", folder).code == 130
    assert (folder / "definitions" / "shop.xreg.yaml").exists()
    repeated = cli("try", events, "--folder", folder, "--json")
    assert (repeated.code, json.loads(repeated.out)["landed"]["landed"]) == (0, 200)
    assert cli("try", events, "--folder", folder).code == 1


def test_folder_with_files_is_rejected(events: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("try", events, "--folder", tmp_path).ended(1, "is not empty")


def test_folder_with_other_messages_is_rejected(events: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "out" / "messages").mkdir(parents=True)
    (tmp_path / "out" / "messages" / "mine.parquet").touch()
    assert cli("try", events, "--folder", tmp_path / "out").code == 1


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("a/shop.events.jsonl", "shop"),
        ("..", "messages"),
        ("kafka://h/orders?kafka.sasl.jaas.config=x password=/secret", "orders"),
    ],
)
def test_group_has_the_name_of_the_input(text: str, group: str) -> None:
    assert choose_group(text) == group


def test_a_glob_is_suggested_as_it_is(events: Path, cli: Cli) -> None:
    result = cli("try", str(events).replace("shop", "sho?"))
    assert f"signalbook init NEW-FOLDER --from '{events.parent}/sho?.jsonl'" in result.out


def test_complete_events_of_a_truncated_array_land(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps([SHOP[number % 2] for number in range(200)])[:-20])
    result = json.loads(cli("try", path, "--folder", tmp_path / "out", "--json").out)["landed"]
    assert (result["read"], result["landed"], result["reasons"]) == (200, 199, {"decode_error": 1})


def test_members_that_differ_in_case_have_columns_of_their_own(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "shop.jsonl"
    path.write_text('{"event": "a", "id": 1, "ID": "x"}\n{"event": "A", "Id": true, "iD": 1.5}\n' * 100)
    result = json.loads(cli("try", path, "--folder", tmp_path / "out", "--by", "event", "--json").out)
    assert (result["landed"]["landed"], sorted(result["inferred"]["messages"])) == (200, ["A", "a-2"])
    table = pyarrow.dataset.dataset(tmp_path / "out" / "lake/tables/shop/a-2").to_table()
    assert {name.lower() for name in ("event", "id", "ID_")} <= {name.lower() for name in table.column_names}
    assert len({name.lower() for name in table.column_names}) == len(table.column_names)


def test_more_kinds_than_can_have_definitions_are_an_error(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signalbook.pipeline.inference.observations.MOST_KINDS", 20)
    event = '{{"specversion": "1.0", "id": "1", "source": "/", "type": "paid.{}"}}\n'
    (tmp_path / "events.jsonl").write_text("".join(map(event.format, range(100))))
    result = cli("try", tmp_path / "events.jsonl", "--folder", tmp_path / "out")
    assert result.ended(1, "there are 20 kinds of messages or more")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("half.jsonl", b'{"event": "sig', "1 are broken or something else, 0 cannot be read;"),
        ("cut.jsonl.gz", gzip.compress(b'{"event": "%s"}' % random.Random(1).randbytes(9000).hex().encode())[:5000],
         "0 are broken or something else, 1 cannot be read (damaged gzip: "),
    ],
)  # fmt: skip
def test_the_reason_is_named_if_no_message_can_be_read(
    tmp_path: Path, cli: Cli, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = cli("try", tmp_path / name, "--folder", tmp_path / "out")
    assert result.ended(1, words)
    assert not (tmp_path / "out").exists()


def test_invalid_input_creates_no_folder(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    result = cli("try", tmp_path / "table.csv", "--folder", tmp_path / "out")
    assert result.code == 1
    assert "no line begins with a JSON object" in result.err
    assert not (tmp_path / "out").exists()
