"""Ask servers for anything, from a seed: ``python -m tests.fuzzing --requests 1000000 --seed 1``."""

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.registry.postgres import databases
from tests.fuzzing.running import Run, Summary
from tests.fuzzing.servers import serving, watched

_CASES: Final = ("sqlite-open", "sqlite-policy", "postgresql-open", "postgresql-policy")


def main() -> None:
    """Run all cases one after the other; 1 if anything was found."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end, too
    options.folder.mkdir(parents=True, exist_ok=True)
    summaries: list[Summary] = []
    with ExitStack() as stack:
        cases: list[str] = options.case or list(_CASES)
        urls = stack.enter_context(databases(None)) if any(case.startswith("p") for case in cases) else iter(())
        for number, case in enumerate(cases):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signalbook-fuzz-")))
            db = next(urls) if case.startswith("p") else f"sqlite:///{folder}/registry.db"
            share = options.requests // len(cases)
            summaries.append(_one(case, db, folder, options, range(number * share, (number + 1) * share)))
    sys.stdout.writelines(f"{summary}\n" for summary in summaries)
    sys.exit(any(summary.faults for summary in summaries))


def _one(case: str, db: str, folder: Path, options: argparse.Namespace, numbers: range) -> Summary:
    with serving(case, db, folder, open_=case.endswith("open")) as server:
        run = Run(server, seed=options.seed, connections=options.connections, folder=options.folder)
        with watched(server.port) as health:
            summary = run.run(numbers, show=partial(_show, case))
        summary.health = health[0]
    summary.look_at_log(server.log, server.secrets)
    shutil.copy(server.log, options.folder)
    return summary


def _show(case: str, line: str) -> None:
    sys.stdout.write(f"{case}: {line}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="of all cases together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--case", choices=_CASES, action="append", help="all of them, unless some are named")
    parser.add_argument("--folder", type=Path, default=Path("var/fuzz"), help="for what was found, and the logs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
