"""``signalbook demo``: the main job on real input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

HELP: Final = (
    "Show the main job on real input.\n\n"
    "Starts a registry, loads catalogues of real and made-up messages, replays deliveries with a known number of "
    "seeded faults, runs the pipeline, and checks that those faults and only those were sidelined. Then starts a "
    "Kafka and a stream from it, changes a definition meanwhile, and runs dead letters again."
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
    live: Annotated[
        bool, typer.Option("--live/--no-live", help="Show the live side, with the Kafka that tools/setup fetched.")
    ] = True,
) -> None:
    """Run it all; raises what goes wrong on the way."""
    from signalbook import demo

    demo.run(folder, count=count, master=master, with_github=github, with_live=live)
