"""``signalbook pipeline run``: what it prints, and what it says to bad input."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import get_args

import pytest
import typer
import yaml
from typer.core import TyperGroup as Group
from typer.main import get_command

from signalbook.cli.pipeline import TableFormat, _check_dead_letters, _print_report, app
from signalbook.pipeline import journal
from signalbook.pipeline.report import Report, Tally
from signalbook.pipeline.reports import upload
from signalbook.values import dump_json

from .conftest import Cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
ORDERS = ("--registry", EXAMPLE / "orders.xreg.yaml", "--input", EXAMPLE / "events.jsonl", "--master", "local[1]")


def test_the_choices_are_the_pipelines() -> None:
    assert get_args(TableFormat) == get_args(journal.TableFormat)


def test_one_way_to_name_an_output() -> None:
    group = get_command(app)
    assert isinstance(group, Group)
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in group.commands.items()
    }
    assert {name for name, names in options.items() if "--output" not in names} == {"infer"}
    assert not [names for names in options.values() if any(not option.startswith("-") for option in names)]


def test_one_json_object(cli: Cli) -> None:
    ran = cli("pipeline", "run", *ORDERS, "--output", "lake", "--table-format", "parquet", "--batch-id", "b", "--json")
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert (result["read"], result["landed"], result["dead_lettered"], result["dropped"]) == (5, 3, 2, 0)
    counts = result["by_message"]["/messagegroups/shop.orders/messages/shop.order.placed"]
    assert (counts["landed"], counts["rejected"]) == (2, 1)
    assert result["reasons"] == {"schema_violation": 1, "unknown_kind": 1}
    assert result["seconds"] > 0
    assert result["events_per_second"] == pytest.approx(5 / result["seconds"], rel=0.05, abs=0.1)


@pytest.mark.parametrize(
    ("read", "dead", "most", "code"),
    [(4, 4, None, 0), (0, 0, 0.0, 0), (4, 1, 0.25, 0), (4, 2, 0.25, 3), (4, 1, 0.0, 3), (4, 4, 1.0, 0)],
)
def test_too_many_dead_letters_fail_the_command(
    read: int, dead: int, most: float | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The batch stays committed, and the exit code differs from that of an error."""
    report = Report(batch="b", fingerprint="f", tally=Tally(read=read, dead_lettered=dead), seconds=1.0)
    with pytest.raises(typer.Exit) if code else nullcontext() as caught:
        _check_dead_letters(report, most)
    assert (caught.value.exit_code if caught else 0) == code
    assert ("is committed, but" in capsys.readouterr().err) == bool(code)


def test_a_summary_for_people(cli: Cli, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_TIMEOUT", 300.0)  # a server that is held up is not to be left alone
    audience = ("--report-to", server, "--pipeline", "orders", "--metrics-file", "orders.prom")
    ran = cli("pipeline", "run", *ORDERS, "--output", "lake", "--group", "/messagegroups/shop.orders", *audience)
    assert ran.code == 0, ran.err
    assert "Violations" in ran.out
    assert "s old" in ran.out
    metrics = cli("pipeline", "metrics", "--output", "lake", "--pipeline", "orders")
    assert (metrics.code, metrics.out) == (0, Path("orders.prom").read_text())
    assert 'signalbook_pipeline_read_messages_total{pipeline="orders"} 5.0' in metrics.out
    remote = cli("pipeline", "status", "--registry", server, "--pipeline", "orders", "--json")
    local = cli("pipeline", "status", "--output", "lake", "--json")
    assert json.loads(remote.out)["report"] == json.loads(local.out)
    assert "5 read = 3 landed + 2 dead letters + 0 dropped" in cli("pipeline", "status", "--registry", server).out
    assert "5 read = 3 landed + 2 dead letters + 0 dropped" in ran.out
    assert "schema_violation" in ran.out
    assert Path("lake/catalog.db").exists()


@pytest.mark.parametrize(
    ("registry", "input_", "message"),
    [
        ("gone.yaml", "in.jsonl", "gone.yaml"),
        ("empty", "in.jsonl", "empty"),
        ("broken.json", "in.jsonl", "broken.json"),
        ("http://127.0.0.1:9", "in.jsonl", "cannot reach the server at http://127.0.0.1:9"),
        (str(EXAMPLE / "orders.xreg.yaml"), "gone.jsonl", "the input gone.jsonl is not there"),
    ],
)
def test_bad_input(cli: Cli, registry: str, input_: str, message: str) -> None:
    Path("empty").mkdir()
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("in.jsonl").write_text("", encoding="utf-8")
    ran = cli("pipeline", "run", "--registry", registry, "--input", input_, "--output", "lake")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err
    assert list(Path().rglob("*.parquet")) == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("dbfs:/x", "dbfs:/x: dbfs is not supported: on Databricks give the mounted path, /dbfs/..., or"),
        ("webhdfs://name:9000/lake", "webhdfs://name:9000/lake: webhdfs is not supported: write hdfs://HOST:PORT/"),
        ("ftp://host/lake", "ftp://host/lake: ftp is not supported: give a path, such as that of a mounted bucket, or"),
    ],
)
@pytest.mark.parametrize("command", ["run", "stream", "status"])
def test_unsupported_output_is_an_error(cli: Cli, command: str, output: str, message: str) -> None:
    """The error is reported by every command, and no local folder of that name is created."""
    inputs = {"run": ORDERS, "stream": (*ORDERS[:2], "--input", "kafka://127.0.0.1:9/orders"), "status": ()}
    ran = cli("pipeline", command, *inputs[command], "--output", output)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {message}")
    assert ran.err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_unusable_definition_is_omitted_or_stops_the_run(cli: Cli) -> None:
    """The others are landed: it is named on standard error, and again in the result; or the policy says stop."""
    document = yaml.safe_load((EXAMPLE / "orders.xreg.yaml").read_text(encoding="utf-8"))
    document["schemagroups"]["shop.orders"]["schemas"]["shipped"]["versions"]["1"]["schema"] = {"type": "lost"}
    Path("orders.json").write_bytes(dump_json(document))
    options = ("--registry", "orders.json", *ORDERS[2:], "--output", "lake", "--table-format", "parquet")
    xid = "/messagegroups/shop.orders/messages/shop.order.shipped"
    ran = cli("pipeline", "run", *options, "--policy", "on_broken_definition=stop")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: these definitions cannot be used:\n  {xid}: ")
    ran = cli("pipeline", "run", *options)
    assert ran.code == 0, ran.err
    (words,) = (line for line in ran.err.splitlines() if xid in line)
    assert words.startswith(f"signalbook: the definition {xid} cannot be used: ")
    assert '"lost"' in words
    assert words.endswith("; it is left out: its messages are dead letters")
    assert f"left out: {xid}: " in ran.out
    assert "5 read = 2 landed + 3 dead letters + 0 dropped" in ran.out


@pytest.mark.parametrize(("option", "code"), [("--input-format", 1), ("--table-format", 2)])
def test_an_unknown_choice(cli: Cli, option: str, code: int) -> None:
    assert cli("pipeline", "run", *ORDERS, "--output", "lake", option, "nonsense").reported(code, "nonsense")


def test_note_of_an_interrupt_is_printed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        error = KeyboardInterrupt()
        error.add_note("nothing was committed")
        raise error

    monkeypatch.setattr("signalbook.pipeline.run", interrupted)
    ran = cli("pipeline", "run", *ORDERS, "--output", "lake")
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted: nothing was committed\n")


def test_storage_of_the_command_line_counts_more(cli: Cli) -> None:
    settings = 'endpoint = "https://file.example"\naccess_key_id = "${NO_SUCH_NAME}"\nregion = "x"\n'
    Path("job.toml").write_text(f'output = "s3://bucket/lake"\n[storage]\n{settings}', encoding="utf-8")
    ran = cli("pipeline", "run", "--job", "job.toml", *ORDERS)
    assert (ran.code, ran.out) == (1, "")
    missing = "the option storage.access_key_id wants the environment variable NO_SUCH_NAME, which is not set"
    assert ran.err == f"error: {missing}\n"
    options = ("--storage", "access_key_id=AK", "--storage", "endpoint=http://line.example")
    ran = cli("pipeline", "run", "--job", "job.toml", *ORDERS, *options)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: http://line.example is not encrypted: use https")
    assert cli("pipeline", "run", *ORDERS, "--output", "lake", "--storage", "region").code == 2
    assert not Path("lake").exists()


@pytest.mark.parametrize("options", [(), ("--output", "x", "--registry", "http://127.0.0.1:9"), ("--pipeline", "p")])
def test_a_status_of_what(cli: Cli, options: tuple[str, ...]) -> None:
    assert cli("pipeline", "status", *options).reported(2, "--output, or --registry")


def test_undeclared_members_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(read=3)
    tally.land("/m/[red]a", 3)
    tally.rescue("/m/[red]a", {"/x": 2, "": 1})
    tally.duplicates["/m/[red]a"] = 1
    _print_report(Report(batch="b", fingerprint="f", tally=tally, seconds=1.0))
    output = capsys.readouterr().out
    assert "/x" in output
    assert "others" in output
    assert "1 landed with a name twice" in output
