"""``pipeline infer``: infer message definitions and schemas from messages that nobody has defined yet.

Tasks split the messages into two halves and observe both. Definitions are inferred from the first half and tried on the
second half, with less and less strict rules until they accept enough messages. The result is inferred from both halves
with these rules. The position of a message decides its half, so that all passes see the same halves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol, Self, TypeVar
from zlib import crc32

import msgspec

from signalbook.messages import Contract, Message, Outcome, Policy, Rejected
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.inference import definitions
from signalbook.pipeline.inference.discriminators import Discriminator, MemberChoice
from signalbook.pipeline.inference.observations import Observations, find_discriminator, find_kinds
from signalbook.pipeline.inference.schemas import RULES_BY_STRICTNESS, Rules
from signalbook.pipeline.job.default_runner import open_runner
from signalbook.pipeline.job.jobs import Progress
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import PROGRESS, ProgressWriter, task_failures, watch_progress
from signalbook.pipeline.places import Storage, place_of
from signalbook.pipeline.report import Tally, build_violation_kind, read_counters
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch, Split, UnreadableMessage
from signalbook.pipeline.sources.captures import KAFKA
from signalbook.pipeline.sources.detection import detect_format
from signalbook.pipeline.sources.inputs import find_files, plan_tasks
from signalbook.pipeline.sources.schema_ids import SAMPLE_RECORDS, check_schema_ids
from signalbook.values import JSONObject, format_count
from signalbook.xid import XidError, check_id

PLAN: Final = "plan.msgpack"
MOST_NAMES: Final = 200
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePlan:
    """The plan for all tasks. ``source`` is the input format, and ``by`` tells apart messages that are not CloudEvents.

    ``limit`` is the maximum number of messages that a task reads, 0 for all. ``kinds`` are the keys of the kinds of
    messages that the definitions on trial are for. ``folder`` is where tasks write their progress.
    """

    source: str
    folder: str
    tasks: tuple[tuple[Split, ...], ...]
    by: Discriminator = field(default_factory=Discriminator)
    limit: int = 0
    kinds: tuple[str, ...] = ()


class Halves(msgspec.Struct):
    """The observations of each half of the messages, the number of unreadable messages, and the error of one."""

    first: Observations = msgspec.field(default_factory=Observations)
    second: Observations = msgspec.field(default_factory=Observations)
    unreadable: int = 0
    error: str = ""

    def merge(self, other: Halves) -> None:
        """Add the observations of ``other``."""
        self.first.merge(other.first)
        self.second.merge(other.second)
        self.unreadable += other.unreadable
        self.error = self.error or other.error


class Trial(msgspec.Struct):
    """The numbers of messages of the second half that were ``tried`` with definitions, and that these ``accepted``.

    ``reasons`` counts the rejected messages by reason. ``unseen`` counts, by name, the messages of kinds that the first
    half did not contain, which are not tried. Both contain at most ``MOST_NAMES`` names, and further messages are
    counted as ``OTHERS``.
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
        """Count one message, which the contract processed to ``outcomes``: accepted if none of them is a rejection."""
        refused = next((outcome for outcome in outcomes if isinstance(outcome, Rejected)), None)
        self.tried += 1
        if refused is None:
            self.accepted += 1
        else:
            _count(self.reasons, _describe_rejection(refused))

    def pass_over(self, name: str) -> None:
        """Count a message of the kind ``name``, which the first half did not contain."""
        _count(self.unseen, name)


def _count(counts: dict[str, int], name: str, number: int = 1) -> None:
    counted_name = name if name in counts or len(counts) < MOST_NAMES else OTHERS
    counts[counted_name] = counts.get(counted_name, 0) + number


def _describe_rejection(refused: Rejected) -> str:
    """Return why a message was rejected: the reason, and the rule and path of its first violation, if any."""
    if not refused.violations:
        return str(refused.reason)
    path, rule = build_violation_kind(refused.violations[0].path, refused.violations[0].rule)
    return f"{refused.reason}: {rule} at {path or '/'}"


Work = Callable[[InferencePlan, int], Any]
DefinitionsWork = Callable[[str, InferencePlan, int], Any]
"""A function like ``Work`` whose first argument is the path of a file with definitions."""


def run_task(folder: str, work: Work, storage: Storage, numbers: Iterable[int]) -> Iterator[bytes]:
    """Run ``work`` for the tasks with these ``numbers``. Yield each result in MessagePack.

    ``folder`` contains the plan. ``storage`` gives access to the files of the input.
    """
    plan = _add_storage(msgspec.msgpack.decode((Path(folder) / PLAN).read_bytes(), type=InferencePlan), storage)
    return (msgspec.msgpack.encode(work(plan, number)) for number in numbers)


def _add_storage(plan: InferencePlan, storage: Storage) -> InferencePlan:
    """Return ``plan`` with the ``storage`` of its files, which the written plan lacks because it holds credentials."""
    return replace(plan, tasks=tuple(tuple(replace(split, storage=storage) for split in task) for task in plan.tasks))


def inspect_messages(plan: InferencePlan, number: int) -> Halves:
    """Return the observations of both halves of the messages of task ``number``."""
    halves = Halves()
    for message, second in read_messages(plan, number):
        if isinstance(message, UnreadableMessage):
            halves.unreadable += 1
            halves.error = halves.error or str(message)
        else:
            (halves.second if second else halves.first).take(message, plan.by)
    return halves


def try_definitions(snapshot: str, plan: InferencePlan, number: int) -> Trial:
    """Check the second half of the messages of task ``number`` with the definitions in the file ``snapshot``."""
    contract = load_contract(snapshot)
    known_kinds = frozenset(plan.kinds)
    trial = Trial()
    for message, second in read_messages(plan, number):
        if isinstance(message, UnreadableMessage):
            continue
        held = find_kinds(message, plan.by) if second else {}
        unseen = [name for key, name in held.items() if key not in known_kinds]
        if unseen:
            trial.pass_over(unseen[0])
        elif held:
            trial.count_outcomes(contract.process(message))
    return trial


def read_messages(plan: InferencePlan, number: int) -> Iterator[tuple[Message | UnreadableMessage, bool]]:
    """Yield the messages of task ``number``, each with True if it is in the second half.

    Instead of a message that cannot be read, yield its error.
    """
    source = base.find_file_source(plan.source)
    seen = 0
    for batch in read_batches(plan, number):
        for index in range(len(batch)):
            if 0 < plan.limit <= seen:
                return
            if batch.is_blank(index):
                continue
            seen += 1
            second = bool(crc32(b"%d" % batch.positions[index]) & 1)
            try:
                yield source.message(batch, index), second
            except UnreadableMessage as error:
                yield error, second


def read_batches(plan: InferencePlan, number: int) -> Iterator[MessageBatch]:
    """Yield the messages of task ``number``, until at least ``plan.limit`` of them are read."""
    source, tally = base.find_file_source(plan.source), Tally()
    progress = ProgressWriter(place_of(plan.folder) / PROGRESS / f"{number}.json", tally)
    for split in plan.tasks[number]:
        for batch in base.read_split(source, split):
            if 0 < plan.limit <= tally.read:
                return
            yield batch
            tally.read += len(batch)
            progress.advance(len(batch.content))


@cache
def load_contract(snapshot: str) -> Contract:
    """Return the definitions in the file ``snapshot``, compiled."""
    return Snapshot.from_json(Path(snapshot).read_bytes()).compile(Policy())


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceJob:
    """The options of ``signalbook pipeline infer``.

    ``inputs`` are files, folders and globs, as paths or URLs. ``storage`` has the settings for access to stores.
    ``group`` is the id of the message group and the schema group to make. Without ``input_format``, the format is
    detected from the first file. ``by`` is the member of payloads, or ``headers.NAME`` of requests, whose value
    distinguishes the kinds of messages that are not CloudEvents. Without ``by``, the member is chosen that best
    predicts the shapes of the payloads. ``accept`` is the share of held-back messages, 0 to 1, that the definitions
    have to accept. ``limit`` is the maximum number of messages to read, rounded up to the same number for each task; 0
    means all.
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
    """A registry document inferred from messages, and the evidence for it.

    ``input_format`` is the format of the input. ``messages`` maps the id of each definition to the number of messages
    that it was inferred from. Of the messages ``read``, ``unreadable`` could not be parsed, and ``unknown`` were of no
    recognizable kind. Half of the rest was held back. ``unseen`` counts, by name, held-back messages of kinds that the
    first half did not contain. The other held-back messages were ``tried`` with the definitions of the first half,
    which accepted ``accepted`` of them and rejected the others for ``reasons`` (reason, rule and path). The document is
    inferred from both halves with the same ``rules``. ``doubts`` list conclusions from few messages, each with
    ``definition``, ``path`` and ``doubt``.
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
        """The share of tried messages that were accepted, 0 to 1; 0 if no message was tried."""
        return self.accepted / self.tried if self.tried else 0.0

    def to_json(self) -> JSONObject:
        """Return the report that ``pipeline infer --json`` prints. It does not contain the document."""
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
_HEADERS: Final = "headers."


class _Result(Protocol):
    """The result of a task, to which the results of other tasks are added."""

    def merge(self, other: Self, /) -> None: ...


ResultType = TypeVar("ResultType", bound=_Result)


def infer(
    job: InferenceJob,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> InferredDefinitions:
    """Infer definitions and schemas from messages that nobody has defined yet, and return them as a registry document.

    ``progress`` is called with a description of each step, ``notify`` with notices about the input. ``runner`` runs the
    tasks, by default Spark. Nothing is written. Raises ``PipelineError`` and the errors of reading the input.
    """
    check_job(job)
    try:
        check_id(job.group)
    except XidError as error:
        raise PipelineError(f"the group {job.group!r}: {error}") from None
    with open_sample(job, progress, notify, runner) as sample:
        _check_schema_ids(job, sample)
        by, choices = _choose_discriminator(job, sample)
        for words in _describe_choices(by, choices):
            notify(words)
        sample = replace(sample, plan=replace(sample.plan, by=by))
        halves = sample.run_tasks(inspect_messages, Halves(), "looking at messages")
        if not halves.first.kinds and not halves.second.kinds:
            raise PipelineError(
                f"none of the messages in {', '.join(job.inputs)} is a CloudEvent, an HTTP request or JSON"
                f"{f' with the member {job.by}' if job.by else ''}: {halves.first.unknown + halves.second.unknown} are "
                f"broken or something else, {halves.unreadable} cannot be read"
                f"{f' ({halves.error})' if halves.error else ''}; --input-format says what the input holds, and "
                "messages in Avro or Protobuf need definitions with their schemas"
            )
        trial, rules = _try_rules(sample, halves.first, job)
    return _from_both(replace(job, input_format=sample.plan.source), halves, trial, rules, by)


def check_job(job: InferenceJob) -> None:
    """Raise ``PipelineError`` if a number in ``job`` is invalid."""
    if not 0 <= job.accept <= 1:
        raise PipelineError(f"accept is a share of messages, 0 to 1, not {job.accept}")
    if job.limit < 0:
        raise PipelineError(f"limit is a number of messages, 0 for all, not {job.limit}")


@contextmanager
def open_sample(
    job: InferenceJob, progress: Callable[[str], None], notify: Callable[[str], None], runner: Runner | None
) -> Iterator[Sample]:
    """Yield the input of ``job``. Raises ``PipelineError`` and the errors of reading the input."""
    input_format = job.input_format
    if not input_format:
        input_format = detect_format(job.inputs, job.storage)
        notify(f"the input format is {input_format}")
    source = base.find_file_source(input_format)
    input_files = find_files(job.inputs, source, job.storage)
    for words in input_files.notices:
        notify(words)
    with (
        tempfile.TemporaryDirectory(prefix="signalbook-infer-") as folder,
        open_runner(runner, job.master, lambda: progress("starting Spark")) as opened,
    ):
        (Path(folder) / PROGRESS).mkdir()
        tasks = plan_tasks(source, input_files.files, opened.parallelism)
        limit = -(-job.limit // max(len(tasks), 1))
        yield Sample(
            runner=opened,
            plan=InferencePlan(source=input_format, folder=folder, tasks=tasks, limit=limit),
            storage=job.storage,
            name=_find_common_name([path for path, _ in input_files.files]),
            progress=progress,
        )


def _check_schema_ids(job: InferenceJob, sample: Sample) -> None:
    """Raise ``PipelineError`` if the first messages name their schemas by ids."""
    if sample.plan.source == KAFKA.name:
        first = islice(_read_first_messages(_add_storage(sample.plan, job.storage)), SAMPLE_RECORDS)
        check_schema_ids(((message.body, message.sections["headers"]) for message in first), job.inputs)


def _choose_discriminator(job: InferenceJob, sample: Sample) -> tuple[Discriminator, dict[str, MemberChoice]]:
    """Return the discriminator, and by topic the member that was chosen to distinguish kinds of plain messages."""
    if job.by.startswith(_HEADERS):
        return Discriminator(header=job.by.removeprefix(_HEADERS).lower(), name=sample.name), {}
    return find_discriminator(_read_first_messages(_add_storage(sample.plan, job.storage)), sample.name, job.by)


def _find_common_name(paths: Sequence[str]) -> str:
    """Return the name of the only file, or for several files that of the first file's folder, without its suffixes."""
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


def _read_first_messages(plan: InferencePlan) -> Iterator[Message]:
    """Yield the first messages of each task, at most ``_SAMPLE`` messages in total."""
    share = max(_SAMPLE // max(len(plan.tasks), 1), 1)
    for number in range(min(len(plan.tasks), _SAMPLE)):
        for message, _ in islice(read_messages(plan, number), share):
            if not isinstance(message, UnreadableMessage):
                yield message


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The input, divided into tasks. ``name`` is the common name of its files."""

    runner: Runner
    plan: InferencePlan
    storage: Storage
    name: str
    progress: Callable[[str], None]

    @property
    def folder(self) -> Path:
        """The local folder of the plan, of definitions to try, and of the progress of tasks."""
        return Path(self.plan.folder)

    def run_tasks(self, work: Work, total: ResultType, step: str) -> ResultType:
        """Add the results of ``work`` in every task to ``total``. ``step`` describes the work for people."""
        (self.folder / PLAN).write_bytes(msgspec.msgpack.encode(self.plan))
        for path in (self.folder / PROGRESS).iterdir():  # of the step before
            path.unlink()
        task = partial(run_task, str(self.folder), work, self.storage)
        size = sum(split.size for splits in self.plan.tasks for split in splits)

        def show(now: Progress) -> None:
            self.progress(
                f"{step}: {now.read:,}, {now.done / now.total:.0%} of the input" if now.read and now.total else step
            )

        with watch_progress(place_of(self.folder), size, show), task_failures(self.folder):
            results = self.runner.run(len(self.plan.tasks), task, size)
        for result in results:
            total.merge(msgspec.msgpack.decode(result, type=type(total), dec_hook=read_counters))
        return total

    def run_with_definitions(
        self, work: DefinitionsWork, snapshot: Snapshot, total: ResultType, step: str
    ) -> ResultType:
        """Add the results of ``work`` with the definitions of ``snapshot`` in every task to ``total``.

        ``step`` describes the work for people.
        """
        path = self.folder / f"{snapshot.fingerprint}.json"
        if not path.exists():
            path.write_bytes(snapshot.to_json())
        return self.run_tasks(partial(work, str(path)), total, step)


def _try_rules(sample: Sample, first: Observations, job: InferenceJob) -> tuple[Trial, Rules]:
    """Return the strictest rules whose definitions accept enough of the second half, with their trial.

    If no rules do, return the most lenient. ``first`` are the observations of the first half.
    """
    trial, rules = Trial(), RULES_BY_STRICTNESS[0]
    trying = replace(sample, plan=replace(sample.plan, kinds=tuple(first.kinds)))
    for number, rules in enumerate(RULES_BY_STRICTNESS):
        step = f"trying the definitions on what was held back ({number + 1} of at most {len(RULES_BY_STRICTNESS)})"
        document = definitions.build_document(first, job.group, rules, sample.plan.by)
        snapshot = Snapshot.of_documents([("the inferred definitions", document)])
        trial = trying.run_with_definitions(try_definitions, snapshot, Trial(), step)
        if trial.accepted >= job.accept * trial.tried:
            break
    return trial, rules


def _from_both(job: InferenceJob, halves: Halves, trial: Trial, rules: Rules, by: Discriminator) -> InferredDefinitions:
    every = halves.first
    every.merge(halves.second)
    document = definitions.build_document(every, job.group, rules, by)
    counts = definitions.count_messages(every)
    doubts = definitions.list_doubts(every)
    tried = format_count(trial.tried, "message")
    rejections = [f"{reason}, in {count} of {tried}" for reason, count in trial.reasons.items()]
    return InferredDefinitions(
        document=definitions.describe_doubts(document, doubts, rejections),
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
        doubts=doubts,
    )
