"""What a task finds out about its messages."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signalbook.messages import Message
from signalbook.pipeline.commands import infer
from signalbook.pipeline.commands.infer import MOST_NAMES, OTHERS, InferencePlan, Trial
from signalbook.pipeline.inference import definitions
from signalbook.pipeline.inference.discriminators import Discriminator
from signalbook.pipeline.inference.observations import Observations
from signalbook.pipeline.inference.schemas import RULES_BY_STRICTNESS
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import PROGRESS
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.inputs import find_files, plan_tasks


def event(number: int, kind: str = "a", **data: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": str(number), "type": kind, "source": "/s", "data": data}


@pytest.fixture
def planned(tmp_path: Path) -> InferencePlan:
    """Forty events of a type that is known, of them some with an unknown sort of value, two of none, one broken.

    And three blank lines, which are no messages.
    """
    events = [event(n, n=n if n < 30 else str(n)) for n in range(40)] + [event(n, "b") for n in range(2)]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event_) + "\n" for event_ in events) + "\n \t\nbroken\n\n")
    source = base.find_file_source("cloudevents-jsonl")
    (tmp_path / PROGRESS).mkdir()
    tasks = plan_tasks(source, find_files([str(path)], source).files, 1)
    return InferencePlan(source=source.name, folder=str(tmp_path), tasks=tasks)


def tried(folder: Path, planned: InferencePlan, first: Observations) -> Trial:
    document = definitions.build_document(first, "g", RULES_BY_STRICTNESS[0], Discriminator())
    path = folder / "snapshot.json"
    path.write_bytes(Snapshot.of_documents([("draft", document)]).to_json())
    plan_with_kinds = replace(planned, kinds=tuple(first.kinds))
    return infer.try_definitions(str(path), plan_with_kinds, 0)


def test_halves_together_contain_all_messages(planned: InferencePlan) -> None:
    observed = infer.inspect_messages(planned, 0)
    counts = [half.kinds["event a"].count for half in (observed.first, observed.second)]
    assert sum(counts) == 40
    assert min(counts) > 10
    assert observed.first.unknown + observed.second.unknown + observed.unreadable == 1


def test_rejections_have_rule_and_path(planned: InferencePlan, tmp_path: Path) -> None:
    first = Observations()
    for message, _ in list(infer.read_messages(planned, 0))[:20]:
        assert isinstance(message, Message)
        first.take(message, Discriminator())
    trial_result = tried(tmp_path, planned, first)
    held = infer.inspect_messages(planned, 0).second
    assert trial_result.tried == held.kinds["event a"].count
    assert trial_result.reasons == {"schema_violation: type at /n": trial_result.tried - trial_result.accepted}
    assert 0 < trial_result.accepted < trial_result.tried


def test_kinds_never_seen_are_not_tried(planned: InferencePlan, tmp_path: Path) -> None:
    trial_result = tried(tmp_path, planned, Observations())
    held = infer.inspect_messages(planned, 0).second
    assert trial_result == Trial(unseen={kind.names[0]: kind.count for kind in held.kinds.values()})


def test_names_are_bounded() -> None:
    trial_result, other = Trial(), Trial()
    for number in range(MOST_NAMES + 10):
        trial_result.pass_over(f"a{number}")
        other.pass_over(f"b{number}")
    trial_result.merge(other)
    assert len(trial_result.unseen) == MOST_NAMES + 1
    assert sum(trial_result.unseen.values()) == 2 * (MOST_NAMES + 10)
    assert trial_result.unseen[OTHERS] == MOST_NAMES + 20
