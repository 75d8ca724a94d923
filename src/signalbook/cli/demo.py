"""``signalbook demo``: the main job on real input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

HELP: Final = (
    "Show the main job on real input.\n\n"
    "Starts a registry, loads catalogues of real and made-up messages, replays deliveries with a known number of "
    "seeded faults, runs the pipeline, and checks that those faults and only those were sidelined."
)


def run(
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Where everything goes.")] = Path(
        "signalbook-demo"
    ),
    count: Annotated[int, typer.Option("--count", min=1000, help="Deliveries to replay.")] = 200_000,
    master: Annotated[str, typer.Option("--master", help="Spark master.")] = "local[*]",
    github: Annotated[
        bool, typer.Option("--github/--no-github", help="Replay GitHub's webhooks, fetched with npm.")
    ] = True,
) -> None:
    """Run it all; raises what goes wrong on the way."""
    from signalbook import demo

    demo.run(folder, count=count, master=master, with_github=github)
