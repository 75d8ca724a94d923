"""``signalbook pipeline infer``: what it prints and writes."""

from __future__ import annotations

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
    doubt = {"definition": "shop.order.shipped", "path": "", "doubt": "inferred from 1 messages"}
    assert doubt in json.loads(ran.out)["doubts"]
    assert Path("draft.yaml").read_text(encoding="utf-8").startswith("messagegroups:")
    assert "document" in json.loads(cli(*GIVEN, "--json").out)


def test_definitions_are_inferred_from_a_topic(kafka: Broker, shop: str, cli: Cli) -> None:  # noqa: F811
    ran = cli("pipeline", "infer", "--input", url(kafka, shop), "--group", "g", "--max-messages", "60", "--json")
    assert json.loads(ran.out)["read"] == 60
    assert "the oldest 60 of 91 messages are read" in ran.err


def test_bad_input(cli: Cli) -> None:
    ran = cli("pipeline", "infer", "--input", "gone", "--group", "shop")
    assert (ran.code, ran.out) == (1, "")
    assert "the input gone is not there" in ran.err


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
