"""The figures of inference: how much of a held-back half the definitions inferred from real streams accept.

The summaries, rules and the trial are those of ``signalbook pipeline infer``, in this process. Each stream is cut in
halves as there, and in twelve other ways.

    python -m benchmarks.inference.bench [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from benchmarks.inference.streams import streams
from benchmarks.registry.bench import machine

from signalbook.messages import Message, Policy
from signalbook.pipeline.commands.infer import Trial
from signalbook.pipeline.inference import definitions
from signalbook.pipeline.inference.discriminators import Discriminator
from signalbook.pipeline.inference.observations import Observations, find_discriminator, find_kinds
from signalbook.pipeline.inference.schemas import RULES_BY_STRICTNESS, Rules
from signalbook.pipeline.job.snapshot import Snapshot

RESULTS = Path(__file__).parents[1] / "results" / "inference.json"
ACCEPT = 0.99
CUTS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    for name, messages in streams():
        results[name] = measured(messages)
        print(name, json.dumps(results[name]), flush=True)
    results["machine"]["load after"] = os.getloadavg()
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def measured(messages: list[Message]) -> dict[str, Any]:
    """What is accepted by the rules that ``infer`` would take, and by each of them on average over all cuts."""
    by, _ = find_discriminator(messages, "messages")
    began = time.process_time()
    number, trial = chosen(messages, [bool(crc32(b"%d" % at) & 1) for at in range(len(messages))], by)
    spent = time.process_time() - began
    cuts = [[held.random() < 0.5 for _ in messages] for held in map(Random, range(CUTS))]
    others = [chosen(messages, cut, by) for cut in cuts]
    tried, accepted = sum(each.tried for _, each in others), sum(each.accepted for _, each in others)
    return {
        "messages": len(messages),
        "tried": trial.tried,
        "accepted": trial.accepted,
        "acceptance": share(trial.accepted, trial.tried),
        "rules": number + 1,
        "of types never seen": sum(trial.unseen.values()),
        "acceptance, 12 other cuts": share(accepted, tried),
        "rules, 12 other cuts": dict(sorted(Counter(each + 1 for each, _ in others).items())),
        "CPU s": round(spent, 2),
    }


def share(accepted: int, tried: int) -> float:
    return round(accepted / tried, 4) if tried else 0.0


def chosen(messages: list[Message], second: list[bool], by: Discriminator) -> tuple[int, Trial]:
    """The first rules whose definitions of the first half accept enough of the second, or the last, as in ``infer``."""
    first = Observations()
    for message, held in zip(messages, second, strict=True):
        if not held:
            first.take(message, by)
    held_back = [message for message, held in zip(messages, second, strict=True) if held]
    found = (0, Trial())
    for number, rules in enumerate(RULES_BY_STRICTNESS):
        found = number, attempt(first, held_back, rules, by)
        if found[1].accepted >= ACCEPT * found[1].tried:
            break
    return found


def attempt(first: Observations, held_back: list[Message], rules: Rules, by: Discriminator) -> Trial:
    """Held-back messages, held to definitions inferred by these rules."""
    document = definitions.build_document(first, "bench", rules, by)
    contract = Snapshot.of_documents([("the inferred definitions", document)]).compile(Policy())
    found = Trial()
    for message in held_back:
        unseen = [name for key, name in find_kinds(message, by).items() if key not in first.kinds]
        if unseen:
            found.pass_over(unseen[0])
        else:
            found.count_outcomes(contract.process(message))
    return found


if __name__ == "__main__":
    main()
