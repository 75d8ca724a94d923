"""``pipeline infer --against`` and ``--update``: check messages with definitions that exist, and propose new versions.

Messages are checked as a run would, but nothing is written. For an update the payloads of each definition are observed
as well, also those that its schema rejects, and the schema is widened to what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pyarrow as pa

from signalbook.messages import Accepted, Contract, Outcome, Policy, Reason, Rejected
from signalbook.pipeline import native
from signalbook.pipeline.commands.infer import (
    InferenceJob,
    InferencePlan,
    Sample,
    check_job,
    load_contract,
    open_sample,
    read_batches,
    read_messages,
)
from signalbook.pipeline.inference.observations import read_payloads
from signalbook.pipeline.inference.summaries import MemoryBudget, ValueSummary
from signalbook.pipeline.inference.widening import Change, widen
from signalbook.pipeline.job.documents import URL, VERSIONS, find_entity, find_version, find_xref, read_documents
from signalbook.pipeline.job.runner import Runner
from signalbook.pipeline.job.snapshot import Snapshot, describe_hidden
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.report import Tally, find_charged
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import UnreadableMessage
from signalbook.pipeline.table_names import TableName
from signalbook.values import JSON, JSONObject, parse_json

_JSON_SCHEMA: Final = "jsonschema/"
# The members of a schema Resource in a document that are not attributes of its default Version.
_RESOURCE_ATTRIBUTES: Final = ("meta", "metaurl", "schemaid", "versions", "versionscount", "versionsurl")


@dataclass(slots=True, kw_only=True)
class SampleCheck:
    """The counts of accepted and rejected messages, by definition and by reason."""

    tally: Tally = field(default_factory=Tally)

    def merge(self, other: SampleCheck) -> None:
        """Add the counts of ``other``."""
        self.tally.add(other.tally)

    @property
    def accepted(self) -> int:
        """The number of accepted messages."""
        return self.tally.landed.total()

    @property
    def acceptance(self) -> float:
        """The share of the messages that were accepted, 0 to 1; 0 if no message was read."""
        return self.accepted / self.tally.read if self.tally.read else 0.0

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline infer --against --json`` prints."""
        tally = self.tally
        return {
            "read": tally.read,
            "accepted": self.accepted,
            "rejected": tally.dead_lettered,
            "acceptance": round(self.acceptance, 6),
            "definitions": {
                xid: {"accepted": tally.landed[xid], "rejected": tally.rejected[xid]}
                for xid in sorted(tally.landed.keys() | tally.rejected.keys())
            },
            "reasons": dict(sorted(tally.reasons.items())),
            "violations": [violation.to_json() for violation in tally.violations.list_top()],
        }


class _NoTables:
    """A receiver of rows that keeps none."""

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        """Take rows for a table."""


def check_messages(snapshot: str, plan: InferencePlan, number: int) -> SampleCheck:
    """Check the messages of task ``number`` with the definitions in the file ``snapshot``."""
    source = base.find_file_source(plan.source)
    processing = Processing(load_contract(snapshot), source, _NoTables(), Bookkeeping(fingerprint=""))
    for batch in read_batches(plan, number):
        processing.take(batch)
    processing.clear()
    return SampleCheck(tally=processing.tally)


def check_sample(
    job: InferenceJob,
    registry: str,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> SampleCheck:
    """Check the input of ``job`` with the definitions of ``registry``: a URL, a document or a folder of documents.

    ``progress`` is called with a description of each step, ``notify`` with notices about input and definitions.
    ``runner`` runs the tasks, by default Spark. Nothing is written. Raises ``PipelineError`` and errors of reading.
    """
    check_job(job)
    native.load_module()
    snapshot = load_definitions(registry, notify)
    with open_sample(job, progress, notify, runner) as sample:
        return check_with(sample, snapshot)


def load_definitions(registry: str, notify: Callable[[str], None]) -> Snapshot:
    """Return the definitions of ``registry``. ``notify`` is called with doubts about them."""
    return _check_definitions(Snapshot.load(registry), notify)


def _check_definitions(snapshot: Snapshot, notify: Callable[[str], None]) -> Snapshot:
    checked = snapshot.check(Policy())
    for doubt in checked.doubts:
        notify(doubt)
    return checked


def check_with(sample: Sample, snapshot: Snapshot) -> SampleCheck:
    """Check the messages of ``sample`` with the definitions of ``snapshot``."""
    return sample.run_with_definitions(check_messages, snapshot, SampleCheck(), "checking messages")


class Payloads(msgspec.Struct):
    """Summaries of the payloads of each definition, by xid."""

    data: dict[str, ValueSummary] = {}
    room: MemoryBudget = msgspec.field(default_factory=MemoryBudget)

    def take(self, xid: str, payload: JSON) -> None:
        """Add a payload of the definition ``xid``."""
        self.data.setdefault(xid, ValueSummary()).take(payload, self.room)

    def merge(self, other: Payloads) -> None:
        """Add the summaries of ``other``."""
        for xid, summary in other.data.items():
            self.data.setdefault(xid, ValueSummary()).merge(summary, self.room)


def observe_payloads(snapshot: str, plan: InferencePlan, number: int) -> Payloads:
    """Summarize the payloads of task ``number`` by the definitions in the file ``snapshot``."""
    contract, payloads = load_contract(snapshot), Payloads()
    for message, _ in read_messages(plan, number):
        for outcome in () if isinstance(message, UnreadableMessage) else contract.process(message):
            xid = _find_definition(outcome)
            for payload in read_payloads(outcome.message) if xid else ():
                payloads.take(xid, payload)
    return payloads


def _find_definition(outcome: Outcome) -> str:
    """Return the definition that describes the payload of a message, even if it rejects the payload; else ""."""
    if isinstance(outcome, Accepted):
        return outcome.definition.xid
    if not isinstance(outcome, Rejected) or outcome.reason is not Reason.SCHEMA_VIOLATION:
        return ""
    # A message with another value for a constant is of another kind.
    is_other_kind = any(violation.rule == "const" for violation in outcome.violations)
    return "" if is_other_kind else find_charged(outcome.candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedVersion:
    """A proposed Version of a schema, which accepts and describes the payloads of ``definitions``.

    ``xid`` is that of the new Version and ``ancestor`` that of the Version it was made from. ``schema`` and
    ``ancestor_schema`` are their documents. ``attributes`` are those of the new Version, with its document. ``rule`` is
    the compatibility rule of the schema, "" if it has none.
    """

    xid: str
    ancestor: str
    format: str
    schema: JSONObject
    ancestor_schema: JSONObject
    attributes: JSONObject
    rule: str
    definitions: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The proposed ``versions`` of drifted schemas, and what definitions accept ``before`` and ``after``.

    ``document`` is the whole registry document with the versions if there was one document, else only the versions.
    """

    document: JSONObject
    versions: tuple[ProposedVersion, ...]
    before: SampleCheck
    after: SampleCheck


def propose_versions(
    job: InferenceJob,
    registry: str,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    runner: Runner | None = None,
) -> Proposal:
    """Propose the next Versions of those JSON Schemas of ``registry`` that the input of ``job`` has drifted from.

    The arguments are those of ``check_sample``. Nothing is written.
    """
    check_job(job)
    native.load_module()
    documents = read_documents(registry)
    for note in describe_hidden(registry):
        notify(note)
    snapshot = _check_definitions(Snapshot.of_registry(registry, documents), notify)
    # The snapshot shares parts of the documents, to which versions are added below.
    documents = deepcopy(documents)
    with open_sample(job, progress, notify, runner) as sample:
        before = check_with(sample, snapshot)
        payloads = sample.run_with_definitions(observe_payloads, snapshot, Payloads(), "looking at payloads")
        contract = snapshot.compile(Policy())
        versions = tuple(
            version
            for _, document in documents
            for version in _propose_next_versions(document, snapshot, contract, payloads)
        )
        after = check_with(sample, Snapshot.of_documents(documents).check(Policy())) if versions else before
    whole = documents[0][1] if len(documents) == 1 and not registry.startswith(URL) else None
    document = _build_versions_document(versions) if whole is None else whole
    return Proposal(document=document, versions=versions, before=before, after=after)


def _propose_next_versions(
    document: JSONObject, snapshot: Snapshot, contract: Contract, payloads: Payloads
) -> Iterator[ProposedVersion]:
    """Yield the next Versions of schemas in ``document``, and add them to it."""
    definitions: dict[tuple[str, str, str], list[str]] = {}
    for xid in payloads.data:
        schema_use = contract.definitions[xid].schema_use
        if schema_use.resource and not schema_use.link:
            key = schema_use.resource, schema_use.document, schema_use.format
            definitions.setdefault(key, []).append(xid)
    for (resource_xid, ancestor, schema_format), xids in sorted(definitions.items()):
        resource = find_entity(document, resource_xid)
        current = snapshot.find_schema(ancestor)
        if (
            resource is None
            or find_xref(resource)
            or current is None
            or not schema_format.lower().startswith(_JSON_SCHEMA)
        ):
            continue
        summary, room = ValueSummary(), MemoryBudget()
        for xid in xids:
            summary.merge(payloads.data[xid], room)
        schema = parse_json(current.content)
        widened, changes = widen(schema, summary) if isinstance(schema, dict) else ({}, [])
        if changes:
            attributes: JSONObject = {"format": schema_format, "schema": widened}
            if references := (find_version(document, ancestor) or {}).get("references"):
                attributes["references"] = references
            yield ProposedVersion(
                xid=f"{resource_xid}{VERSIONS}{_add_version(resource, attributes)}",
                ancestor=ancestor,
                format=schema_format,
                schema=widened,
                ancestor_schema=schema,
                attributes=attributes,
                rule=str((resource.get("meta") or {}).get("compatibility") or "").lower(),
                definitions=tuple(xids),
                changes=tuple(changes),
            )


def _add_version(resource: JSONObject, attributes: JSONObject) -> str:
    """Add a Version with ``attributes`` to the schema ``resource``, and return its id."""
    default = {name: resource.pop(name) for name in list(resource) if name not in _RESOURCE_ATTRIBUTES}
    versionid = str(default.get("versionid") or "1")
    versions = resource["versions"] = resource.get("versions") or {versionid: default}
    numbers = [int(name) for name in versions if name.isdecimal()]
    new_id = str(max(numbers, default=len(versions)) + 1)
    versions[new_id] = attributes
    meta = resource.get("meta") or {}
    if "defaultversionid" in meta and not meta.get("defaultversionsticky"):
        meta["defaultversionid"] = new_id
    return new_id


def _build_versions_document(versions: Iterable[ProposedVersion]) -> JSONObject:
    document: JSONObject = {}
    for version in versions:
        entity = document
        *parts, last = version.xid.strip("/").split("/")
        for part in parts:
            entity = entity.setdefault(part, {})
        entity[last] = version.attributes
    return document
