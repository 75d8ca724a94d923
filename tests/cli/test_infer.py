"""``signalbook pipeline infer``: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Cli

EVENTS = Path(__file__).parents[2] / "examples" / "orders" / "events.jsonl"
GIVEN = ("pipeline", "infer", "--input", EVENTS, "--group", "shop", "--master", "local[1]")


def test_the_draft_goes_to_standard_output_and_the_report_to_the_other(cli: Cli) -> None:
    ran = cli(*GIVEN)
    assert ran.code == 0, ran.err
    assert "shop.order.placed" in json.loads(ran.out)["messagegroups"]["shop"]["messages"]
    assert "5 messages read" in ran.err


def test_one_json_object_and_a_file(cli: Cli) -> None:
    ran = cli(*GIVEN, "--json", "--out", "draft.yaml", "--accept", "0")
    assert ran.code == 0, ran.err
    assert "document" not in json.loads(ran.out)
    assert Path("draft.yaml").read_text(encoding="utf-8").startswith("messagegroups:")
    assert "document" in json.loads(cli(*GIVEN, "--json").out)


def test_bad_input(cli: Cli) -> None:
    ran = cli("pipeline", "infer", "--input", "gone", "--group", "shop")
    assert (ran.code, ran.out) == (1, "")
    assert "the input gone is not there" in ran.err
