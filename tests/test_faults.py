"""Servers, database and network fail under load, once each; ``make faults`` does so 200 times."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.checks import check_delivered, check_history, check_told
from tests.faults.listening import Told
from tests.faults.load import Ledger
from tests.faults.run import Plan, run

HISTORY = [(1, "a", "/x"), (2, "a", "/y"), (3, "b", "/x"), (5, "c", "/x")]
TOLD = [Told(position, "t", subject, correlation) for position, correlation, subject in HISTORY]


@pytest.mark.merge
def test_faults_lose_nothing_and_cause_no_stale_reads() -> None:
    with tempfile.TemporaryDirectory(prefix="sb-faults-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as a user of its own
        result = run(Plan(kinds=("server", "reset", "postgres"), writers=8, pause=0.1), Path(folder))
    assert result["violations"] == []
    assert result["kills"] == 2
    assert result["writes acknowledged"] > 20
    assert result["events"] > result["writes acknowledged"]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(correlations={"a", "b", "c"})


def test_checks_accept_correct_histories(ledger: Ledger) -> None:
    check_history(HISTORY, ledger, 0)
    check_told("feed", TOLD, HISTORY, ledger)
    assert check_delivered("hook", [*TOLD[:3], *TOLD[1:]], HISTORY, ledger) == 2
    assert ledger.violations == []


def test_checks_find_errors(ledger: Ledger) -> None:
    wrong: dict[str, Callable[[], object]] = {
        "a lost write": lambda: check_history(HISTORY[:3], ledger, 0),
        "a write of nobody": lambda: check_history([*HISTORY, (6, "d", "/x")], ledger, 0),
        "a write in pieces": lambda: check_history([*HISTORY, (6, "a", "/x")], ledger, 0),
        "a lost event": lambda: check_told("feed", TOLD[1:], HISTORY, ledger),
        "a doubled event": lambda: check_told("feed", [*TOLD, TOLD[-1]], HISTORY, ledger),
        "another order": lambda: check_told("feed", TOLD[::-1], HISTORY, ledger),
        "nothing delivered": lambda: check_delivered("hook", TOLD[:3], HISTORY, ledger),
        "delivered out of order": lambda: check_delivered("hook", [TOLD[2], TOLD[0], *TOLD[1:]], HISTORY, ledger),
        "delivered with a gap": lambda: check_delivered("hook", [*TOLD, TOLD[0], TOLD[3]], HISTORY, ledger),
        "invented": lambda: check_delivered("hook", [*TOLD, Told(9, "t", "/x", "d")], HISTORY, ledger),
    }
    for name, check in wrong.items():
        ledger.violations.clear()
        check()
        assert ledger.violations, name
