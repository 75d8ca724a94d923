"""``signalbook pipeline infer``: what it prints and writes."""

import json
from pathlib import Path

from tests.brokers.program import Broker
from tests.pipeline.sources.test_kafka_spool import shop, url  # noqa: F401

from .conftest import Cli

EVENTS = Path(__file__).parents[2] / "examples" / "orders" / "events.jsonl"
GIVEN = ("pipeline", "infer", "--input", EVENTS, "--group", "shop")


def test_draft_goes_to_stdout_and_report_to_stderr(cli: Cli) -> None:
    ran = cli(*GIVEN)
    assert ran.code == 0, ran.err
    assert "shop.order.placed" in json.loads(ran.out)["messagegroups"]["shop"]["messages"]
    assert "5 messages read" in ran.err
    assert "shop.order.placed /: inferred from 3 messages" in ran.err


def test_one_json_object_and_a_file(cli: Cli) -> None:
    ran = cli(*GIVEN, "--json", "--out", "draft.yaml", "--accept", "0")
    assert ran.code == 0, ran.err
    assert "document" not in json.loads(ran.out)
    doubt = {"definition": "shop.order.shipped", "path": "", "doubt": "inferred from 1 message"}
    assert doubt in json.loads(ran.out)["doubts"]
    assert "document" in json.loads(cli(*GIVEN, "--json").out)
    lines = Path("draft.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["messagegroups:", "  shop:", "    description: |"]
    assert "      - shop.order.shipped /: inferred from 1 message" in lines
    assert cli("check", "draft.yaml", "--offline").code == 0


def test_definitions_are_inferred_from_a_topic(kafka: Broker, shop: str, cli: Cli) -> None:  # noqa: F811
    ran = cli("pipeline", "infer", "--input", url(kafka, shop), "--group", "g", "--max-messages", "60", "--json")
    assert json.loads(ran.out)["read"] == 60
    assert "the oldest 60 of 91 messages are read" in ran.err


def test_bad_input(cli: Cli) -> None:
    assert cli("pipeline", "infer", "--input", "gone", "--group", "shop").reported(1, "the input gone is not there")


def test_a_draft_in_a_registry(cli: Cli, server: str) -> None:
    ran = cli(*GIVEN[:5], "drafted", *GIVEN[6:], "--server", server)
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert "imported inferred definitions" in ran.err
    group = json.loads(cli("get", "/messagegroups/drafted", "--server", server, "--json").out)
    assert (group["labels"], group["messagescount"]) == ({"stage": "draft"}, 3)


def test_a_draft_replaces_nothing(cli: Cli) -> None:
    """A group that is there is reported before anything is read."""
    db = ("--db", "sqlite:///registry.db")
    assert cli(*GIVEN, *db, "--json").code == 0
    ran = cli(*GIVEN[:3], "gone", *GIVEN[4:], *db)
    assert (ran.code, ran.out) == (1, "")
    assert "the registry has /messagegroups/shop already, and inference replaces nothing" in ran.err


def write_shop(path: Path, count: int, **members: object) -> None:
    """Append ``count`` plain events ``purchase`` and as many ``logout`` to a file."""
    events = ({"event": "purchase", "amount": 1.5, **members}, {"event": "logout", "user": 1})
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(events[number % 2]) + "\n" for number in range(2 * count))


def test_edited_document_is_compared_with_the_messages(cli: Cli) -> None:
    path, document = Path("shop.jsonl"), Path("shop.xreg.yaml")
    write_shop(path, 50)
    infer_shop = ("pipeline", "infer", "--input", path)
    assert cli(*infer_shop, "--group", "shop", "--out", document).code == 0
    assert cli(*infer_shop, "--against", document).code == 0
    edited = document.read_text(encoding="utf-8").replace("type: number", "type: string")
    document.write_text(edited.replace("const: logout", "const: log-out"), encoding="utf-8")
    ran = cli(*infer_shop, "--against", document)
    assert ran.code == 1
    for words in (
        "messages/purchase",
        "1.5 is not of type",
        "unknown_kind",
        "100 messages: 0 accepted (0.00%), 100 rejected",
    ):
        assert words in ran.out, ran.out
    ran = cli(*infer_shop, "--against", document, "--accept", "0", "--json")
    report = json.loads(ran.out)
    assert (ran.code, report["acceptance"]) == (0, 0.0)
    assert report["definitions"] == {"/messagegroups/shop/messages/purchase": {"accepted": 0, "rejected": 50}}
    assert report["reasons"] == {"schema_violation": 50, "unknown_kind": 50}
    assert cli(*infer_shop, "--against", document, "--out", "other.yaml").code == 2
    assert cli(*infer_shop).code == 2


def test_next_version_of_definitions_that_drifted(cli: Cli) -> None:
    path, document = Path("shop.jsonl"), Path("shop.xreg.yaml")
    write_shop(path, 50)
    infer_shop = ("pipeline", "infer", "--input", path)
    assert cli(*infer_shop, "--group", "shop", "--out", document).code == 0
    assert cli(*infer_shop, "--update", document).reported(0, "no schema needs another version")
    write_shop(path, 20, amount="1.50", coupon="c")
    ran = cli(*infer_shop, "--update", document, "--out", "next.xreg.yaml")
    assert ran.code == 1  # the objects are open: old data may have anything as coupon
    for words in (
        "refused  /schemagroups/shop/schemas/purchase/versions/2",
        "property_added_to_open_content_model",
        "  /amount the type may also be string",
        "  /coupon is new",
        "before: 120 of 140 messages accepted",
        "after: 140 of 140 messages accepted (100.00%)",
    ):
        assert words in ran.err, ran.err
    assert cli(*infer_shop, "--against", "next.xreg.yaml", "--accept", "1").code == 0
    assert cli(*infer_shop, "--update", ".", "--out", document).code == 2
    assert cli("check", "next.xreg.yaml", "--offline").code == 0


def test_next_version_of_definitions_in_a_registry(cli: Cli, served: str) -> None:
    path = Path("drift.jsonl")
    write_shop(path, 50)
    assert cli("pipeline", "infer", "--input", path, "--group", "drifting", "--server", served).code == 0
    path.unlink()
    write_shop(path, 20, amount=None)
    ran = cli("pipeline", "infer", "--input", path, "--update", served, "--json")
    assert ran.code == 0, ran.err
    (version,) = json.loads(ran.out)["versions"]
    xid = "/schemagroups/drifting/schemas/purchase"
    assert (version["version"], version["verdict"]["accepted"]) == (f"{xid}/versions/2", True)
    assert version["changes"] == [{"path": "/amount", "change": "the type may also be null"}]
    Path("next.xreg.json").write_text(json.dumps(json.loads(ran.out)["document"]), encoding="utf-8")
    assert cli("import", "next.xreg.json", "--server", served).code == 0
    schema = json.loads(cli("get", xid, "--server", served, "--json").out)
    assert (schema["versionid"], schema["versionscount"]) == ("2", 2)
    assert cli("pipeline", "infer", "--input", path, "--against", served, "--accept", "1").code == 0
