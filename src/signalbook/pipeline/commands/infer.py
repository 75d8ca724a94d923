"""``pipeline infer``: infer message definitions and schemas from messages that nobody has defined yet.

Tasks observe both halves of the messages. Definitions are inferred from the first half and tried on the second, by less
strict rules until they accept enough. The result is inferred from both. The position of a message decides its half, so
that all passes see the same halves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from signalbook.messages import Contract, Message, Outcome, Policy, Rejected
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.inference import definitions
from signalbook.pipeline.inference.discriminators import Discriminator, MemberChoice
from signalbook.pipeline.inference.observations import Observations, find_discriminator, find_kinds
from signalbook.pipeline.inference.schemas import RULES_BY_STRICTNESS, Rules
from signalbook.pipeline.job.default_runner import open_runner
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.landing.tasks import task_failures
from signalbook.pipeline.places import Storage
from signalbook.pipeline.reports.report import build_violation_kind
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import Split, UnreadableMessage
from signalbook.pipeline.sources.detection import detect_format
from signalbook.pipeline.sources.inputs import find_files, plan_tasks
from signalbook.values import JSONObject
from signalbook.xid import XidError, check_id

PLAN: Final = "plan.msgpack"
MOST_NAMES: Final = 200
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePlan:
    """The plan for every task.

    ``limit`` is the most messages a task reads, 0 for all. ``find_kinds`` are the keys of the kinds with definitions on
    trial.
    """

    source: str
    tasks: tuple[tuple[Split, ...], ...]
    by: Discriminator = field(default_factory=Discriminator)
    limit: int = 0
    kinds: tuple[str, ...] = ()


class Halves(msgspec.Struct):
    """The observations of each half, and the number of unreadable messages."""

    first: Observations = msgspec.field(default_factory=Observations)
    second: Observations = msgspec.field(default_factory=Observations)
    unreadable: int = 0

    def merge(self, other: Halves) -> None:
        """Add what ``other`` saw."""
        self.first.merge(other.first)
        self.second.merge(other.second)
        self.unreadable += other.unreadable


class Trial(msgspec.Struct):
    """The trial of held-back messages: the numbers tried and accepted, and the reasons of the others.

    ``unseen`` are, by name, those of kinds that the first half did not contain: they are not tried. Names beyond
    ``MOST_NAMES`` are counted under ``OTHERS``.
    """

    tried: int = 0
    accepted: int = 0
    reasons: dict[str, int] = {}
    unseen: dict[str, int] = {}

    def merge(self, other: Trial) -> None:
        """Add the counts of ``other``."""
        self.tried += other.tried
        self.accepted += other.accepted
        for mine, theirs in ((self.reasons, other.reasons), (self.unseen, other.unseen)):
            for name, number in theirs.items():
                _count(mine, name, number)

    def count_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Count a message by its outcomes."""
        refused = next((outcome for outcome in outcomes if isinstance(outcome, Rejected)), None)
        self.tried += 1
        if refused is None:
            self.accepted += 1
        else:
            _count(self.reasons, _describe_rejection(refused))

    def pass_over(self, name: str) -> None:
        """Count a message of a kind never seen."""
        _count(self.unseen, name)


def _count(counts: dict[str, int], name: str, number: int = 1) -> None:
    counted_name = name if name in counts or len(counts) < MOST_NAMES else OTHERS
    counts[counted_name] = counts.get(counted_name, 0) + number


def _describe_rejection(refused: Rejected) -> str:
    """Return why a message was rejected: the reason, and for a schema the rule, the place and the definition."""
    if not refused.violations:
        return str(refused.reason)
    path, rule = build_violation_kind(refused.violations[0].path, refused.violations[0].rule)
    return f"{refused.reason}: {rule} at {path or '/'}"


Work = Callable[[InferencePlan, int], msgspec.Struct]


def run_task(folder: str, work: Work, storage: Storage, numbers: Iterable[int]) -> Iterator[bytes]:
    """Run ``work`` for the tasks with these numbers. Yield its results in MessagePack."""
    plan = _add_storage(msgspec.msgpack.decode((Path(folder) / PLAN).read_bytes(), type=InferencePlan), storage)
    return (msgspec.msgpack.encode(work(plan, number)) for number in numbers)


def _add_storage(plan: InferencePlan, storage: Storage) -> InferencePlan:
    """Return the plan with the storage of its files. The written plan holds no credentials."""
    return replace(plan, tasks=tuple(tuple(replace(split, storage=storage) for split in task) for task in plan.tasks))


def inspect_messages(plan: InferencePlan, number: int) -> Halves:
    """Observe both halves of a task's messages."""
    halves = Halves()
    for message, second in read_messages(plan, number):
        if message is None:
            halves.unreadable += 1
        else:
            (halves.second if second else halves.first).take(message, plan.by)
    return halves


def try_definitions(snapshot: str, plan: InferencePlan, number: int) -> Trial:
    """Check the second half of a task's messages with the definitions in the file ``snapshot``."""
    contract = _load_contract(snapshot)
    known_kinds = frozenset(plan.kinds)
    trial = Trial()
    for message, second in read_messages(plan, number):
        held = find_kinds(message, plan.by) if message is not None and second else {}
        unseen = [name for key, name in held.items() if key not in known_kinds]
        if unseen:
            trial.pass_over(unseen[0])
        elif held and message is not None:
            trial.count_outcomes(contract.process(message))
    return trial


def read_messages(plan: InferencePlan, number: int) -> Iterator[tuple[Message | None, bool]]:
    """Yield a task's messages (None for unreadable ones), with True for those of the second half."""
    source = base.find_file_source(plan.source)
    seen = 0
    for split in plan.tasks[number]:
        for batch in base.read_split(source, split):
            for index in range(len(batch)):
                if 0 < plan.limit <= seen:
                    return
                if batch.is_blank(index):
                    continue
                seen += 1
                second = bool(crc32(b"%d" % batch.positions[index]) & 1)
                try:
                    yield source.message(batch, index), second
                except UnreadableMessage:
                    yield None, second


@cache
def _load_contract(snapshot: str) -> Contract:
    return Snapshot.from_json(Path(snapshot).read_bytes()).compile(Policy())


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceJob:
    """The options of ``signalbook pipeline infer``.

    ``inputs`` are files, folders and globs, paths or URLs; ``storage`` says how stores are reached. ``group`` is the id
    of the message group and the schema group to make. Without ``input_format`` the first file shows it. ``by`` is the
    member of payloads, or ``headers.NAME`` of requests, that tells apart messages that are not CloudEvents; without it
    the one is chosen that best predicts their shapes.
    ``accept`` is the share of held-back messages that the definitions have to accept; ``limit`` the most messages
    looked at, 0 for all of them.
    """

    inputs: tuple[str, ...]
    group: str
    input_format: str = ""
    by: str = ""
    accept: float = 0.99
    limit: int = 0
    master: str = "local[*]"
    storage: Storage = field(default_factory=Storage)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredDefinitions:
    """A registry document inferred from messages, and how far to trust it.

    ``input_format`` is that of the messages. ``read_messages`` says of each definition, by id, how many messages it was
    inferred from. Of the messages read,
    ``unreadable`` were no messages and ``unknown`` of no kind that could be recognized. Half of the others were held
    back: ``unseen`` counts, by name, those of kinds that the first half had none of; the others were ``tried`` on the
    definitions of the first half. Those accepted ``accepted`` of them and refused the rest for ``reasons``, each with
    definition, rule and path. The document is inferred from all messages by the same ``rules``; ``doubts`` are about
    what little was seen of, each with ``definition``, ``path`` and ``doubt``.
    """

    document: JSONObject
    input_format: str
    messages: dict[str, int]
    read: int
    unreadable: int
    unknown: int
    tried: int
    accepted: int
    reasons: dict[str, int]
    unseen: dict[str, int]
    rules: str
    doubts: list[JSONObject]

    @property
    def acceptance(self) -> float:
        """The share of tried messages accepted, 0 to 1; 0 if none was tried."""
        return self.accepted / self.tried if self.tried else 0.0

    def to_json(self) -> JSONObject:
        """The report that ``pipeline infer --json`` prints; the document is not in it."""
        return {
            "input_format": self.input_format,
            "read": self.read,
            "unreadable": self.unreadable,
            "unknown": self.unknown,
            "messages": dict(self.messages),
            "held_back": self.tried + sum(self.unseen.values()),
            "unseen": dict(self.unseen),
            "tried": self.tried,
            "accepted": self.accepted,
            "acceptance": round(self.acceptance, 6),
            "reasons": dict(self.reasons),
            "rules": self.rules,
            "doubts": list(self.doubts),
        }


_SAMPLE: Final = 5000
_SNAPSHOT: Final = "snapshot-{}.json"
_HEADERS: Final = "headers."
_Found = TypeVar("_Found", Halves, Trial)


def infer(
    job: InferenceJob,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> InferredDefinitions:
    """Infer definitions and schemas from messages nobody has defined yet: from one half, tried on the other, from both.

    ``progress`` is called with what is being done, ``notify`` with what people should know of the input. Nothing is
    written anywhere. ``runner`` runs the tasks, by default Spark. Raises ``PipelineError`` and what reading the input
    raises.
    """
    _check(job)
    if not job.input_format:
        job = replace(job, input_format=detect_format(job.inputs, job.storage))
        notify(f"the input format is {job.input_format}")
    source = base.find_file_source(job.input_format)
    input_files = find_files(job.inputs, source, job.storage)
    for words in input_files.notices:
        notify(words)
    with (
        tempfile.TemporaryDirectory(prefix="signalbook-infer-") as name,
        open_runner(runner, job.master, lambda: progress("starting Spark")) as opened,
    ):
        plan, choices = _plan(job, plan_tasks(source, input_files.files, opened.parallelism), input_files.files)
        for words in _describe_choices(plan.by, choices):
            notify(words)
        stream = _Stream(runner=opened, folder=Path(name), plan=plan, storage=job.storage)
        progress("looking at messages")
        halves = stream.run_tasks(inspect_messages, Halves())
        if not halves.first.kinds and not halves.second.kinds:
            raise PipelineError(
                f"none of the messages in {', '.join(job.inputs)} is a CloudEvent, an HTTP request or JSON"
                f"{f' with the member {job.by}' if job.by else ''}: {halves.first.unknown + halves.second.unknown} are "
                f"something else, {halves.unreadable} cannot be read; --input-format says what the input holds"
            )
        trial, rules = _try_rules(stream, halves.first, job, progress)
    return _from_both(job, halves, trial, rules, plan.by)


def _check(job: InferenceJob) -> None:
    try:
        check_id(job.group)
    except XidError as error:
        raise PipelineError(f"the group {job.group!r}: {error}") from None
    if not 0 <= job.accept <= 1:
        raise PipelineError(f"accept is a share of messages, 0 to 1, not {job.accept}")
    if job.limit < 0:
        raise PipelineError(f"limit is a number of messages, 0 for all, not {job.limit}")


def _plan(
    job: InferenceJob, tasks: tuple[tuple[Split, ...], ...], files: Sequence[tuple[str, int]]
) -> tuple[InferencePlan, dict[str, MemberChoice]]:
    """Return the plan of all tasks, and the members that were chosen, by topic, to tell plain messages apart."""
    plan = InferencePlan(source=job.input_format, tasks=tasks, limit=-(-job.limit // max(len(tasks), 1)))
    name = _find_common_name([path for path, _ in files])
    if job.by.startswith(_HEADERS):
        return replace(plan, by=Discriminator(header=job.by.removeprefix(_HEADERS).lower(), name=name)), {}
    by, choices = find_discriminator(_sample(_add_storage(plan, job.storage)), name, job.by)
    return replace(plan, by=by), choices


def _find_common_name(paths: Sequence[str]) -> str:
    """Return the name of the only file without its endings, or of the folder of the first file."""
    path = PurePosixPath(paths[0]) if paths else PurePosixPath("messages")
    return (path.name if len(paths) == 1 else path.parent.name).lstrip(".").partition(".")[0] or "messages"


def _describe_choices(by: Discriminator, choices: Mapping[str, MemberChoice]) -> Iterator[str]:
    if by.header:
        yield f"requests are told apart by the header {by.header}"
    for topic, choice in choices.items():
        yield (
            f"{f'messages of {topic}' if topic else 'messages'} are told apart by the member {choice.member!r}: "
            f"its {choice.values} values predict {choice.share:.0%} of the differences between them; "
            "--by names another member"
        )


def _sample(plan: InferencePlan) -> Iterator[Message]:
    """Yield the first messages of each task, at most ``_SAMPLE`` in all."""
    share = max(_SAMPLE // max(len(plan.tasks), 1), 1)
    for number in range(min(len(plan.tasks), _SAMPLE)):
        for message, _ in islice(read_messages(plan, number), share):
            if message is not None:
                yield message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """The input, dealt out to tasks; ``folder`` is where they find what to do."""

    runner: Runner
    folder: Path
    plan: InferencePlan
    storage: Storage

    def run_tasks(self, work: Work, total: _Found) -> _Found:
        """Add the results of ``work`` in every task to ``total``."""
        (self.folder / PLAN).write_bytes(msgspec.msgpack.encode(self.plan))
        task = partial(run_task, str(self.folder), work, self.storage)
        size = sum(split.size for splits in self.plan.tasks for split in splits)
        with task_failures(self.folder):
            results = self.runner.run(len(self.plan.tasks), task, size)
        for result in results:
            total.merge(msgspec.msgpack.decode(result, type=type(total)))
        return total


def _try_rules(
    stream: _Stream, first: Observations, job: InferenceJob, show: Callable[[str], None]
) -> tuple[Trial, Rules]:
    """Return the strictest rules whose definitions accept enough of the second half, or the last rules."""
    trial, rules = Trial(), RULES_BY_STRICTNESS[0]
    trying = replace(stream, plan=replace(stream.plan, kinds=tuple(first.kinds)))
    for number, rules in enumerate(RULES_BY_STRICTNESS):
        show(f"trying the definitions on what was held back ({number + 1} of at most {len(RULES_BY_STRICTNESS)})")
        document = definitions.build_document(first, job.group, rules, stream.plan.by)
        path = stream.folder / _SNAPSHOT.format(number)
        path.write_bytes(Snapshot.of_documents([("the inferred definitions", document)]).to_json())
        trial = trying.run_tasks(partial(try_definitions, str(path)), Trial())
        if trial.accepted >= job.accept * trial.tried:
            break
    return trial, rules


def _from_both(job: InferenceJob, halves: Halves, trial: Trial, rules: Rules, by: Discriminator) -> InferredDefinitions:
    every = halves.first
    every.merge(halves.second)
    document = definitions.build_document(every, job.group, rules, by)
    counts = definitions.count_messages(every)
    return InferredDefinitions(
        document=document,
        input_format=job.input_format,
        messages=counts,
        read=sum(counts.values()) + every.unknown + halves.unreadable,
        unreadable=halves.unreadable,
        unknown=every.unknown,
        tried=trial.tried,
        accepted=trial.accepted,
        reasons=trial.reasons,
        unseen=trial.unseen,
        rules=rules.words,
        doubts=definitions.list_doubts(every),
    )
