"""Count the modules that a batch of messages passes on its way to rows, for each content mode.

    python -m tools.passes [--list MODE ...]

A first batch makes routes and decoders. While the second batch goes from the messages that a source has read to staged
rows, ``sys.setprofile`` reports every module whose functions run. The columns are the modules of
``pipeline/processing``, those of ``pipeline``, and those of the whole project. ``--list`` prints the modules of some
modes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.pipeline import records
from benchmarks.pipeline.traffic import GROUP, catalogue, event

from signalbook.messages import Contract, Policy
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch, Source, Split
from signalbook.pipeline.sources.kafka import SOURCE
from signalbook.pipeline.tables.staged_files import StagedFiles

PACKAGES = ("signalbook.pipeline.processing.", "signalbook.pipeline.", "signalbook.")
MESSAGES = 5_000
RECORDS = (*records.MODES, *records.PREFIXED, *records.PLAIN, *records.BESIDE_PLAIN)
FILES = {"file_of_events": "cloudevents-jsonl", "file_of_json": "json"}


def list_passed_modules(contract: Contract, source: Source, batches: Sequence[Iterable[MessageBatch]]) -> set[str]:
    """Return the modules of the project that the second of ``batches`` passes."""
    modules: set[str] = set()

    def note(frame: Any, kind: str, _argument: object) -> None:
        if kind == "call":
            modules.add(frame.f_globals.get("__name__", ""))

    with tempfile.TemporaryDirectory(prefix="signalbook-passes-") as folder:
        staged = StagedFiles(Path(folder), staged="s", prefix="p")
        processing = Processing(contract, source, staged, Bookkeeping(fingerprint="f", batch="b", landed_at=records.AT))
        for number, batch in enumerate(map(list, batches)):
            sys.setprofile(note if number == 1 else None)
            for messages in batch:
                processing.take(messages)
            processing.clear()
            sys.setprofile(None)
        staged.finish()
    assert processing.tally.landed.total() == processing.tally.read, processing.tally
    return {name for name in modules if name.startswith("signalbook.")}


def list_modules_of_records(mode: str, count: int = MESSAGES) -> set[str]:
    """Return the modules that ``count`` records of Kafka pass in a mode of ``benchmarks.pipeline.records``."""
    contract, (rows,) = records.make_traffic(mode, count)
    halves = [rows.slice(0, count // 2), rows.slice(count // 2)]
    return list_passed_modules(contract, SOURCE, [base.read_record_batches(half) for half in halves])


def list_modules_of_files(mode: str, folder: Path) -> set[str]:
    """Return the modules that the lines of a file pass: events, or plain JSON for the only definition."""
    source = base.find_file_source(FILES[mode])
    random, plain = Random(7), mode == "file_of_json"
    events = [event(number, random, 1 if plain else records.TYPES, 0.0) for number in range(MESSAGES)]
    path = folder / f"{mode}.jsonl"
    path.write_text("".join(f"{json.dumps(row['data'] if plain else row)}\n" for row in events))
    contract = build_plain_contract() if plain else records.contract("json")
    size = path.stat().st_size
    splits = [Split(path=str(path), start=0, end=size // 2), Split(path=str(path), start=size // 2, end=size)]
    return list_passed_modules(contract, source, [source.read(split) for split in splits])


def build_plain_contract() -> Contract:
    """Return a contract with one definition, for JSON without an envelope and without a protocol."""
    document = catalogue(1)
    messages = document["messagegroups"][GROUP]["messages"]
    for name, message in messages.items():
        messages[name] = {key: message[key] for key in ("dataschemaformat", "dataschemauri")}
    return Snapshot.of_documents([("bench", document)]).compile(Policy())


def main() -> None:
    """Print a table with a row for each mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", nargs="+", choices=(*RECORDS, *FILES), default=())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-passes-") as folder:
        passed = {mode: list_modules_of_records(mode) for mode in RECORDS}
        passed |= {mode: list_modules_of_files(mode, Path(folder)) for mode in FILES}
    for mode, modules in passed.items():
        counts = (sum(name.startswith(package) for name in modules) for package in PACKAGES)
        print(f"{mode:30}", *(f"{count:4}" for count in counts))
        for name in sorted(modules) if mode in options.list else ():
            print(f"    {name.removeprefix(PACKAGES[1])}")


if __name__ == "__main__":
    main()
