"""Every figure, measured again: ``python -m benchmarks``. Each folder has a ``bench.py`` writing to ``results/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Run all of them, one after the other: they need the whole machine."""
    for bench in sorted(HERE.glob("*/bench.py")):
        subject = bench.parent.name
        print(f"== {subject}: results/{subject}.json", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{subject}.bench"], check=True, cwd=HERE.parent)


if __name__ == "__main__":
    main()
