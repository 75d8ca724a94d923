"""Servers, database and network fail under load: ``python -m tests.faults --kills 200``.

Three servers on one PostgreSQL behind a load balancer, with a proxy between servers and database. What goes wrong and
when follows from the seed. Nothing acknowledged may be lost, nothing stale be read; see ``checks``.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.faults.before import serve, source
from tests.faults.load import say
from tests.faults.run import UPGRADES, Plan, run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def main() -> int:
    """Run once; 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of servers and PostgreSQL together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0, help="end after so long, with whatever kills there were")
    parser.add_argument("--pause", type=float, default=0.4, help="mean seconds between two writes of a writer")
    parser.add_argument("--upgrade", action="store_true", help="instead: servers of the version before are replaced")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    # What was started is ended, however this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    plan = Plan(
        kills=options.kills, seed=options.seed, writers=options.writers, seconds=options.seconds, pause=options.pause
    )
    folder = Path(tempfile.mkdtemp(prefix="sb-faults-"))
    folder.chmod(0o755)
    say(f"logs are in {folder}")
    if options.upgrade:
        with source() as program:
            result = run(replace(plan, kinds=UPGRADES), folder, serve(program))
    else:
        result = run(plan, folder)
    out: Path = options.out or RESULTS / ("upgrade.json" if options.upgrade else "faults.json")
    out.write_text(json.dumps({"cores": os.cpu_count(), **result}, indent=2) + "\n")
    say(json.dumps(result, indent=2))
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
