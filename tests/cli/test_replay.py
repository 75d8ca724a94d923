"""``signalbook pipeline replay`` and ``backtest``: what they print, and how they end."""

import json
from pathlib import Path

import pytest

from signalbook.pipeline.job.session import open_session

from .conftest import Cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
REGISTRY = EXAMPLE / "orders.xreg.yaml"
PLACED = "/messagegroups/shop.orders/messages/shop.order.placed"


def test_letters_are_judged_by_a_candidate_and_run_again(cli: Cli, tmp_path: Path) -> None:
    """A policy lets through what the schema refuses; a schema that takes nothing would break what landed."""
    nothing = tmp_path / "nothing.json"
    nothing.write_text('{"type": "object", "maxProperties": 0}')
    with open_session("local[1]"):
        run = ("pipeline", "run", "--registry", REGISTRY, "--input", EXAMPLE / "events.jsonl")
        assert cli(*run, "--output", "lake", "--table-format", "parquet", "--batch-id", "b").code == 0
        candidate = ("--registry", REGISTRY, "--candidate", nothing, "--definition", PLACED)
        backtested = cli("pipeline", "backtest", "--output", "lake", *candidate, "--markdown")
        assert (backtested.code, "**2** would be rejected" in backtested.out) == (1, True), backtested.err
        allowed = cli("pipeline", "backtest", "--output", "lake", *candidate, "--allow", "2")
        assert (allowed.code, "2 would be rejected" in allowed.out) == (0, True), allowed.err
        tagged = ("--registry", REGISTRY, "--policy", f"{PLACED}:on_ambiguous=all", "--policy", "on_no_match=drop")
        dry = cli("pipeline", "replay", "--output", "lake", *tagged, "--dry-run")
        assert "2 dead letters: 0 would be moved, 1 kept, 0 of them for another reason, 1 dropped" in dry.out, dry.err
        replayed = cli("pipeline", "replay", "--output", "lake", *tagged, "--reason", "unknown_kind", "--json")
        assert json.loads(replayed.out)["dropped"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "--output", "none", "--registry", REGISTRY), "no output folder of the pipeline"),
        (("replay", "--output", "none", "--registry", REGISTRY, "--policy", "x=1"), "there is no setting 'x'"),
        (
            ("backtest", "--output", "none", "--registry", REGISTRY, "--candidate", REGISTRY),
            "no output folder of the pipeline",
        ),
        (("run", "--registry", REGISTRY, "--input", EXAMPLE, "--output", "o", "--policy", "x"), "write NAME=VALUE"),
    ],
)
def test_bad_input_is_reported(cli: Cli, arguments: tuple[str | Path, ...], words: str) -> None:
    assert cli("pipeline", *arguments).ended(1, words)
