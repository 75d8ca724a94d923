"""``signalbook init`` writes a folder whose files all work."""

import json
import os
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.brokers.program import Broker
from tests.cli.conftest import Cli
from tests.pipeline.local import run
from tests.pipeline.sources.test_kafka_spool import shop, url  # noqa: F401
from tests.serving import BIN, serving

from signalbook.client import Client
from signalbook.pipeline.job.jobs import read

WRITTEN = {
    "README.md",
    "definitions/shop.xreg.yaml",
    "events/shop.jsonl",
    "job.toml",
    ".github/workflows/definitions.yaml",
    ".gitignore",
}
SCHEMA = "/schemagroups/shop/schemas/order_placed"
EVENTS = [{"event": "signup", "user": 1}, {"event": "purchase", "amount": 1.5}] * 20


def read_readme(folder: Path) -> list[str]:
    """Return the commands in the README, without comments."""
    lines = (folder / "README.md").read_text().splitlines()
    return [line.partition("  #")[0].strip() for line in lines if line.startswith("    ")]


def run_shell(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in ``folder`` as a shell does, whatever its exit code."""
    names = {f"GIT_{role}_{part}": "n@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    path = f"{BIN}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env={**os.environ, **names, "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def commit(folder: Path) -> None:
    result = run_shell(folder, read_readme(folder)[0])
    assert result.returncode == 0, result.stderr


def change(folder: Path, old: str, new: str) -> None:
    """Replace the first ``old`` in the definitions."""
    path = folder / "definitions/shop.xreg.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def break_definitions(folder: Path) -> None:
    change(folder, "total: {type: number", "total: {type: string")


def extend_definitions(folder: Path) -> None:
    change(
        folder,
        "                reason: {type: string}",
        "                reason: {type: string}\n                by: {type: string}",
    )


@pytest.fixture
def write_events(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes events to a new file."""

    def write(name: str) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS))
        return path

    return write


def test_the_example_lands(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = cli("init", "new", "--json")
    assert result.code == 0, result.err
    printed = json.loads(result.out)
    assert (printed["folder"], set(printed["files"])) == ("new", WRITTEN)
    assert {path.relative_to("new").as_posix() for path in Path("new").rglob("*") if path.is_file()} == WRITTEN
    monkeypatch.chdir("new")
    job = read(Path("job.toml"))
    assert job.stream.name == "shop"
    tally = run(job.job()).tally
    assert {xid.rpartition("/")[2]: count for xid, count in tally.landed.items()} == {
        "order_placed": 2,
        "order_cancelled": 1,
    }
    assert tally.reasons == {"schema_violation": 1}
    without_spark = cli(*shlex.split(read_readme(Path())[-1])[1:])
    assert "4 messages: 3 in 2 tables, 1 dead letter" in without_spark.out


@pytest.mark.parametrize(("edit", "code"), [(break_definitions, 1), (extend_definitions, 0)])
def test_changes_are_checked(
    edit: Callable[[Path], None], code: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("init", "new")
    monkeypatch.chdir("new")
    folder = Path()
    commit(folder)
    check = shlex.split(read_readme(folder)[1])[1:]
    assert cli(*check).code == 0
    edit(folder)
    result = cli(*check)
    assert result.code == code, result.out
    assert ("properties/total/type" in result.out) == bool(code)


@pytest.mark.merge
@pytest.mark.parametrize("place", [".", "shop"])
def test_the_workflow_rejects_incompatible_changes(place: str, tmp_path: Path, cli: Cli) -> None:
    repository = tmp_path / "work"
    repository.mkdir()
    assert run_shell(repository, "git init -b main && git commit --allow-empty -m begin").returncode == 0
    folder = repository / place
    result = cli("init", folder)
    assert ("move" in result.err) == (place != ".")
    workflow = yaml.safe_load((folder / ".github/workflows/definitions.yaml").read_text())
    job = workflow["jobs"]["compatibility"]
    script, directory = job["steps"][-1]["run"], repository / job["defaults"]["run"]["working-directory"]

    def check() -> subprocess.CompletedProcess[str]:
        assert run_shell(repository, "git add . && git commit -m change").returncode == 0
        return run_shell(directory, script, BASE="main")

    run_shell(repository, "git switch -c change")
    assert check().returncode == 0, "new definitions are compared with nothing"
    run_shell(repository, "git switch main && git merge change && git switch change")
    extend_definitions(folder)
    assert check().returncode == 0
    break_definitions(folder)
    rejected = check()
    assert (rejected.returncode, "properties/total/type" in rejected.stdout) == (1, True), rejected.stderr


@pytest.mark.merge
def test_the_other_commands_of_the_readme(tmp_path: Path, cli: Cli) -> None:
    cli("init", "new")
    _, _, land, serve, _ = read_readme(tmp_path / "new")
    landed = run_shell(tmp_path / "new", land)
    assert "4 read = 3 landed + 1 dead letter" in landed.stdout, landed.stderr
    assert serve.startswith("signalbook serve ")
    with serving(tmp_path / "new", *shlex.split(serve)[2:]) as url, Client(url) as client:
        assert client.get(SCHEMA) is not None


def test_definitions_are_inferred(
    write_events: Callable[[str], Path], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events("web.jsonl")
    result = cli("init", "a/new", "--from", "web.jsonl", "--json")
    assert result.code == 0, result.err
    assert "events/shop.jsonl" not in json.loads(result.out)["files"]
    monkeypatch.chdir("a/new")
    document = yaml.safe_load(Path("definitions/web.xreg.yaml").read_text())
    schemas = document["schemagroups"]["web"]["schemas"]
    assert {(name, schema["meta"]["compatibility"]) for name, schema in schemas.items()} == {
        ("signup", "forward"),
        ("purchase", "forward"),
    }
    job = read(Path("job.toml")).job()
    assert (job.inputs, job.input_format) == (("../../web.jsonl",), "json")
    assert run(job).tally.landed.total() == len(EVENTS)


def test_input_is_found_from_a_linked_folder(write_events: Callable[[str], Path], tmp_path: Path, cli: Cli) -> None:
    write_events("web.jsonl")
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    assert cli("init", "link/new", "--from", "web.jsonl").code == 0
    (path,) = tomllib.loads(Path("link/new/job.toml").read_text())["inputs"]
    assert Path("link/new", path).is_file()


@pytest.mark.parametrize("text", ["schemagroups: [a]", "schemagroups: {g: {schemas: [a]}}", "[a]"])
def test_malformed_definitions_are_copied_as_they_are(text: str, write_events: Callable[[str], Path], cli: Cli) -> None:
    path = write_events("web.jsonl")
    Path("odd.yaml").write_text(text)
    assert cli("init", "new", "--from", path, "--definitions", "odd.yaml").code == 0
    assert Path("new/definitions/odd.yaml").read_text() == text


def test_definitions_of_a_trial_are_copied(write_events: Callable[[str], Path], cli: Cli) -> None:
    path = write_events("web.jsonl")
    steps = cli("try", "web.jsonl").out
    command = next(line.strip() for line in steps.splitlines() if "signalbook init" in line)
    edited = Path("signalbook-try/definitions/web.xreg.yaml")
    edited.write_text(edited.read_text().replace("Inferred from 20", "Edited after 20"))
    Path("signalbook-try/definitions/other.avsc").write_text('"string"')
    assert cli(*shlex.split(command)[1:]).code == 0
    text = Path("NEW-FOLDER/definitions/web.xreg.yaml").read_text()
    assert (text.count("Edited after 20"), text.count("compatibility: forward")) == (2, 2)
    assert Path("NEW-FOLDER/definitions/other.avsc").read_text() == '"string"'
    # A document whose schemas have rules is copied as it is.
    again = cli("init", "again", "--from", path, "--definitions", "NEW-FOLDER/definitions/web.xreg.yaml")
    assert again.code == 0
    assert Path("again/definitions/web.xreg.yaml").read_text() == text
    assert tomllib.loads(Path("again/job.toml").read_text())["inputs"] == [str(path)]


def test_definitions_are_inferred_from_a_topic(kafka: Broker, shop: str, cli: Cli) -> None:  # noqa: F811
    address = url(kafka, shop)
    assert cli("init", "new", "--from", address).code == 0
    assert {path.name for path in Path("new/definitions").iterdir()} == {"spooled.xreg.yaml"}
    job = tomllib.loads(Path("new/job.toml").read_text())
    assert (job["inputs"], job.get("input_format")) == ([address], None)


def test_a_topic_becomes_a_stream(cli: Cli) -> None:
    cli("init", "example")
    address = "kafka://localhost:9092/orders"
    result = cli("init", "new", "--from", address, "--definitions", "example/definitions")
    assert "signalbook pipeline stream --job job.toml" in result.out
    assert "pipeline stream --job job.toml" in read_readme(Path("new"))[2]
    job = read(Path("new/job.toml")).streaming(once=False)
    assert (job.name, job.job.inputs, job.job.input_format) == ("orders", (address,), "kafka")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--definitions", "d"), 2, "need the events to land"),
        (("--by", "event"), 2, "need the events to land"),
        (("--from", "web.jsonl", "--definitions", "d", "--by", "event"), 2, "leave out --definitions"),
        (("--from", "kafka://h/t?kafka.sasl.jaas.config=x"), 2, "with ${NAME} for secrets"),
        (("--from", "https://me:secret@h/t"), 2, "with ${NAME} for secrets"),
        (("--from", "nothing.jsonl"), 1, "nothing.jsonl"),
        (("--from", "web.jsonl", "--definitions", "nothing.yaml"), 1, "nothing.yaml"),
    ],
)
def test_invalid_arguments(
    arguments: tuple[str, ...], code: int, words: str, write_events: Callable[[str], Path], cli: Cli
) -> None:
    write_events("web.jsonl")
    assert cli("init", "new", *arguments).ended(code, words)
    assert not Path("new").exists()


def test_nothing_is_overwritten(cli: Cli) -> None:
    Path("README.md").write_text("mine")
    assert cli("init").ended(1, "has README.md already, and nothing is overwritten")
    assert [path.name for path in Path().iterdir()] == ["README.md"]


def test_captures_in_avro_state_their_format(tmp_path: Path, cli: Cli) -> None:
    cli("init", "example")
    Path("captures.avro").write_bytes(b"Obj\1")
    options = ("--input-format", "kafka-captures", "--definitions", "example/definitions/shop.xreg.yaml")
    assert cli("init", "new", "--from", "captures.avro", *options).code == 0
    assert read(Path("new/job.toml")).options == {"format": "avro"}
