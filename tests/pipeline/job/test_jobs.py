"""Job files: both languages, flags that count more, and what is said of those that are wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

from signalbook.errors import SignalbookError
from signalbook.pipeline.commands.backfill import backfill
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import DeadLetterFilter, Job, ReplayJob, job_options, read
from signalbook.pipeline.places import LocalPlace, StorePlace, place_of
from signalbook.pipeline.tables.catalogs import CatalogChoice

PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"

TOML = """
registry = "http://localhost:8080"
inputs = ["kafka://localhost:9092/orders"]
output = "lake"
[options]
"kafka.sasl.jaas.config" = "password=${SECRET_OF_TESTS}"
failOnDataLoss = false
[policy]
on_no_match = "drop"
[stream]
name = "orders"
interval = 2
"""
YAML = """
registry: http://localhost:8080
inputs: ["kafka://localhost:9092/orders"]
output: lake
options: {kafka.sasl.jaas.config: "password=${SECRET_OF_TESTS}", failOnDataLoss: false}
policy: {on_no_match: drop}
stream: {name: orders, interval: 2}
"""


@pytest.mark.parametrize(("name", "text"), [("job.toml", TOML), ("job.yaml", YAML), ("job.yml", YAML)])
def test_a_job_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv("SECRET_OF_TESTS", "s3")
    (tmp_path / name).write_text(text)
    stream = job_options(tmp_path / name, {"output": None}).streaming(once=True)
    assert (stream.name, stream.interval, stream.once, stream.most) == ("orders", 2.0, True, 500_000)
    job = stream.job
    assert (job.input_format, job.output, job.policy.on_no_match) == ("kafka", "lake", "drop")
    assert job.options == {"kafka.sasl.jaas.config": "password=s3", "failOnDataLoss": "false"}


def test_a_catalog(tmp_path: Path) -> None:
    """The variables remain, because they are replaced at each use; a flag overrides the whole section."""
    text = "\n[catalog]\ntype = 'rest'\nuri = 'http://x'\nnamespace = 'a.b'\ntoken = '${TOKEN_OF_TESTS}'\n"
    (tmp_path / "job.toml").write_text('registry = "r"\ninputs = ["i"]\noutput = "o"\n' + text)
    properties = {"type": "rest", "uri": "http://x", "token": "${TOKEN_OF_TESTS}"}
    assert job_options(tmp_path / "job.toml", {}).job().catalog == CatalogChoice(
        namespace=("a", "b"), properties=properties
    )
    assert job_options(tmp_path / "job.toml", {"catalog": "prod"}).job().catalog == CatalogChoice(name="prod")
    for other in ("parquet", "delta"):
        with pytest.raises(SignalbookError, match=f"a catalog is for tables of Iceberg, not of {other}"):
            job_options(tmp_path / "job.toml", {"table_format": other}).job()


STORED = """
registry = "r"
inputs = ["i"]
output = "s3://bucket/lake"
[storage]
endpoint = "https://${STORE_OF_TESTS}:9000"
allow_http = true
region = "eu-north-1"
access_key_id = "${KEY_OF_TESTS}"
secret_access_key = "${SECRET_OF_TESTS}"
"""


def test_settings_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of the section ``storage`` are replaced; each setting of the command line overrides the
    section.
    """
    for name, value in {"STORE_OF_TESTS": "store.example", "KEY_OF_TESTS": "AK", "SECRET_OF_TESTS": "s3"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "job.toml").write_text(STORED)
    settings = {
        "access_key_id": "AK",
        "allow_http": "true",
        "endpoint": "https://store.example:9000",
        "region": "eu-north-1",
        "secret_access_key": "s3",
    }
    job = job_options(tmp_path / "job.toml", {"storage": None}).job()
    assert dict(job.storage.options) == settings
    assert isinstance(job.place, StorePlace)
    assert job.place.storage == job.storage
    flags = {"region": "us-east-1", "session_token": "${SECRET_OF_TESTS}"}
    assert dict(job_options(tmp_path / "job.toml", {"storage": flags}).job().storage.options) == {
        **settings,
        "region": "us-east-1",
        "session_token": "s3",
    }


def test_missing_storage_variable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error contains no other values; if a flag overrides the setting, the variable is not needed."""
    monkeypatch.setenv("STORE_OF_TESTS", "store.example")
    monkeypatch.setenv("SECRET_OF_TESTS", "hush-4711")
    monkeypatch.delenv("KEY_OF_TESTS", raising=False)
    (tmp_path / "job.toml").write_text(STORED)
    with pytest.raises(PipelineError) as caught:
        job_options(tmp_path / "job.toml", {}).job()
    assert str(caught.value) == (
        "the option storage.access_key_id wants the environment variable KEY_OF_TESTS, which is not set"
    )
    job = job_options(tmp_path / "job.toml", {"storage": {"access_key_id": "AK"}}).job()
    assert job.storage.get("access_key_id") == "AK"


def test_flags_override_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(TOML)
    options = job_options(tmp_path / "job.toml", {"output": "pond", "inputs": ["a.jsonl"]}, name="n")
    assert (options.output, list(options.inputs)) == ("pond", ["a.jsonl"])
    assert (options.stream.name, options.stream.interval) == ("n", 2.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("regisrty = 'x'", "unknown field `regisrty`"),
        ("[stream]\nnam = 'x'", "unknown field `nam` - at `$.stream`; there are: name, interval, max_messages"),
        ("[stream]\ninterval = 'soon'", "`$.stream.interval`"),
        ("table_format = 'csv'", "'csv' - at `$.table_format`; there are: iceberg, parquet, delta"),
        ("partition = 'week'", "'week' - at `$.partition`; there are: day, none"),
        ("on_damaged_file = 'skip'", "'skip' - at `$.on_damaged_file`; there are: land, stop"),
        ("subjects = 'name'", "'name' - at `$.subjects`; there are: topic, record, topic-record"),
        ("a = ", "job.toml"),
        ("max_message_bytes = " + "9" * 5000, "job.toml: Exceeds the limit"),
        ("policy.a = " + "[" * 5000, "job.toml is nested too deeply"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\ninput = 'a'", "there are: registry, groups, subjects, inputs"),
        ("registry = 'x'", "needs inputs: give --input, or inputs in a job file"),
        ("registry = 'x'\ninputs = ['a']", "needs output"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\n[stream]\nname = '../x'", "not '../x'"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\n[stream]\ninterval = -1", "interval is 0 to 86400"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\n[options]\na = '${NO_SUCH_NAME}'", "NO_SUCH_NAME"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\n[storage]\nregion = ['a']", "`$.storage[...]`"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\n[storage]\nkey = 'a'", "storage has no setting 'key'; there"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\nmax_message_bytes = 0", "max_message_bytes is 1 to 268435456"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\nmax_dead_letters = 50", "a share of 0 to 1, not 50"),
        ("registry = 'x'\ninputs = ['a']\noutput = 'o'\n[policy]\non_nothing = 'drop'", "on_nothing"),
    ],
)
def test_invalid_job_file_is_reported(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(SignalbookError, match=re.escape(words)):
        job_options(tmp_path / "job.toml", {}).streaming(once=False)


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("table_format", "Parquet", "iceberg, parquet, delta"),
        ("partition", "week", "day, none"),
        ("on_damaged_file", "skip", "land, stop"),
        ("subjects", "name", "topic, record, topic-record"),
    ],
)
def test_invalid_choice_is_rejected(tmp_path: Path, name: str, value: str, choices: str) -> None:
    words = f"^{name} is '{value}', and must be one of {choices}$"
    options: dict[str, Any] = {"registry": "r", "output": "o", name: value}
    with pytest.raises(PipelineError, match=words):
        Job(inputs=("i",), **options)
    if name == "subjects":
        with pytest.raises(PipelineError, match=words):
            ReplayJob(**options)
        with pytest.raises(PipelineError, match=words):
            backfill(tmp_path, "r", subjects=options[name])


def test_unknown_reason_is_rejected() -> None:
    assert DeadLetterFilter(reasons=("no_match", "schema_violation")).reasons
    with pytest.raises(PipelineError, match=r"no reason 'foo'; there are: no_match, unknown_kind, .*unavailable$"):
        DeadLetterFilter(reasons=("no_match", "foo"))


@pytest.mark.parametrize("output", ["file:///a/b", "file:/a/b", "file://localhost/a/b", "/a/b"])
def test_file_urls_are_local_folders(output: str) -> None:
    """Spark writes the second."""
    options = {"registry": "r", "inputs": ["a"], "output": output}
    assert job_options(None, options).job().place == place_of(output) == LocalPlace(Path("/a/b"))


def test_missing_job_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SignalbookError, match=r"gone\.toml: No such file"):
        job_options(tmp_path / "gone.toml", {})


JOBS = re.findall(r"^```toml\n(registry.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("text", "format"), list(zip(JOBS, ("kafka", "kafka", "nats", "mqtt5", "amqp"), strict=True)))
def test_the_job_files_of_the_page(text: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address determines the input format, and the text contains no secret."""
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "hush")
    (tmp_path / "job.toml").write_text(text)
    job = read(tmp_path / "job.toml").streaming(once=True).job
    assert job.input_format == format
    assert job.options.get("password", "hush") == "hush"
