"""The trial of a document for a schema: compare everything that refers to the schema as if the document were stored.

A schema that refers to the tried schema is compared with itself: its references after the change with its references
now. A message has the outcome of its schema. An endpoint has the worst outcome of its messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from signalbook.batches import batched
from signalbook.engine.checks import compare_texts
from signalbook.engine.read.impact import MAX_DEPENDENTS, MAX_DEPTH, BackwardLinks, Dependent
from signalbook.engine.read.schemas import SchemaReferences, StoredSchema, load_schema
from signalbook.engine.read.view import View
from signalbook.engine.search.links import IMPORT
from signalbook.errors import RegistryError
from signalbook.formats import SchemaError
from signalbook.formats.base import extract_text
from signalbook.formats.compatibility import SchemaText, convert_difference
from signalbook.storage.base import Row
from signalbook.values import Finding, JSONObject, dump_json
from signalbook.work import OutOfTime, TooComplex, Work
from signalbook.xid import Kind, Xid

Outcome: TypeAlias = Literal["breaks", "holds", "unknown"]
MAX_FINDINGS: Final = 20
"""The maximum number of findings for one schema."""
DEFAULT_RULE: Final = "backward"
_MAX_COMPARISONS: Final = 200
_DOCUMENTS_AT_ONCE: Final = 20
"""The number of documents that are in memory at once."""
_SCHEMA_RELATIONS: Final = frozenset({"schema", "references", IMPORT})
"""Relations of dependents that have a schema themselves, which refers to the other schema."""
_OWN_SCHEMA: Final = frozenset({"dataschema", "dataschemaxid", "dataschemauri"})
_OUTCOMES: Final[tuple[Outcome, ...]] = ("holds", "unknown", "breaks")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateDocument:
    """A document to try: for a new Version of the Resource ``target``, or instead of the document of the Version
    ``target``.

    An empty ``format`` means the format of the stored schema. ``compatibility`` is a rule that replaces all stored
    rules, None to use these.
    """

    target: Xid
    content: bytes
    contenttype: str | None = None
    format: str = ""
    compatibility: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEffect:
    """The outcome for one entity.

    ``rule`` is the compatibility rule used, and ``why`` explains an outcome without findings.
    """

    outcome: Outcome
    rule: str = ""
    why: str = ""
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> JSONObject:
        """Return the effect as the JSON object that clients receive."""
        document: JSONObject = {"outcome": self.outcome}
        document |= {name: text for name, text in (("rule", self.rule), ("why", self.why)) if text}
        return document | ({"findings": [finding.to_json() for finding in self.findings]} if self.findings else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A dependent entity and the effect of the candidate on it."""

    dependent: Dependent
    effect: TrialEffect

    def to_json(self) -> JSONObject:
        """Return the dependent and its effect as the JSON object that clients receive."""
        return self.dependent.to_json() | self.effect.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateTrial:
    """The effect of a candidate on its schema and on the dependents, the nearest first.

    ``complete`` is False if there are more dependents. ``becomes_default`` is True if users of the schema would receive
    the candidate; otherwise they keep another default Version.
    """

    effect: TrialEffect
    affected: tuple[Affected, ...]
    complete: bool
    becomes_default: bool


def try_candidate(
    view: View, candidate: CandidateDocument, base_url: str, *, becomes_default: bool, work: Work, rule: str = ""
) -> CandidateTrial:
    """Try storing ``candidate``, without storing it.

    ``becomes_default`` means that its new Version would be the default one. ``rule`` is the compatibility rule of
    schemas that have none; empty means ``DEFAULT_RULE``. ``work`` limits the work. Raises ``not_found``, and
    ``bad_request`` for types without documents.
    """
    trial = _Trial(view, candidate, base_url, becomes_default=becomes_default, work=work, rule=rule)
    effect = trial.try_target()
    if candidate.target.kind is Kind.RESOURCE and not becomes_default:
        return CandidateTrial(effect=effect, affected=(), complete=True, becomes_default=False)
    affected, complete = trial.try_dependents(effect)
    return CandidateTrial(effect=effect, affected=affected, complete=complete, becomes_default=becomes_default)


class _Trial:
    """The state of one trial."""

    def __init__(
        self, view: View, candidate: CandidateDocument, base_url: str, *, becomes_default: bool, work: Work, rule: str
    ) -> None:
        target = candidate.target
        row = require_document(view, target)
        self._view = view
        self._target = target
        self._stored = load_schema(view, target)
        self._format = candidate.format or self._stored.format
        self._content = extract_text(candidate.content, self._format)
        self._requested_rule = candidate.compatibility
        owner = row if target.kind is Kind.RESOURCE else view.reader.get(target.resource)
        default = "" if owner is None else str(owner.defaultversionid or "")
        self._version = target if target.kind is Kind.VERSION else target / "versions" / default
        self._rule = str(owner.attributes.get("compatibility") or "") if owner is not None else ""
        self._rule = self._rule or rule or DEFAULT_RULE
        is_default = target.kind is Kind.RESOURCE or target.id == default
        self._work = work
        self._comparisons_left = _MAX_COMPARISONS
        self._before = SchemaReferences(view, base_url)
        substitutes = {target: self._content} | ({target.resource: self._content} if is_default else {})
        self._after = SchemaReferences(
            view, base_url, substitutes if becomes_default or target.kind is Kind.VERSION else {}
        )
        moved = target if target.kind is Kind.RESOURCE else None
        self._links = BackwardLinks(index=view.index, reader=view.reader, access=view.access, moved=moved)

    def try_target(self) -> TrialEffect:
        """Compare the candidate with the stored document and return the effect."""
        rule = self._requested_rule or self._rule
        if self._stored.content is None:
            return TrialEffect(outcome="unknown", rule=rule, why="the document that is stored is not in this registry")
        stored = extract_text(self._stored.content, self._stored.format)
        new = SchemaText(document=self._content, format=self._format, resolve=self._after.make_resolver(self._version))
        old = SchemaText(document=stored, format=self._stored.format, resolve=self._before.make_resolver(self._version))
        return self._compare(self._target, rule, new, old)

    def try_dependents(self, target_effect: TrialEffect) -> tuple[tuple[Affected, ...], bool]:
        """Return the dependents of the schema, level by level. The second value is True if these are all dependents."""
        effects: dict[Xid, TrialEffect] = {self._target: target_effect}
        shown_xids: dict[Xid, Xid] = {self._target: self._target}
        groups: dict[Xid, set[Xid]] = {}
        dependents: list[Dependent] = []
        level = [self._target]
        for step in range(1, MAX_DEPTH + 2):
            new = self._select_affected(self._links.follow(level, step), effects, groups)
            room = MAX_DEPENDENTS - len(dependents) if step <= MAX_DEPTH else 0
            complete, new = len(new) <= room, new[:room]
            effects |= self._judge_dependents(new, effects)
            shown_xids |= {dependent.source: dependent.xid for dependent in new}
            dependents += new
            level = [dependent.source for dependent in new]
            if not complete or not level:
                break
        ends = self._judge_endpoints(dependents, effects, groups)
        return tuple(
            Affected(
                dependent=replace(dependent, on=shown_xids.get(dependent.on, dependent.on)),
                effect=ends.get(dependent.xid) or effects[dependent.source],
            )
            for dependent in dependents
        ), complete

    def _select_affected(
        self, dependents: Iterable[Dependent], effects: Mapping[Xid, TrialEffect], groups: dict[Xid, set[Xid]]
    ) -> list[Dependent]:
        """Return the new dependents of a level that use the changed schema through their link.

        Adds to ``groups`` the message groups of each endpoint.
        """
        new: dict[Xid, Dependent] = {}
        for dependent in dependents:
            if dependent.relation in ("messagegroups", "messages"):
                groups.setdefault(dependent.source, set()).add(dependent.on.resource.owner)
            # Versions of the tried Resource itself do not change, even if they refer to it.
            source = dependent.source
            if source not in effects and source.resource != self._target and dependent.relation != "relatedto":
                new.setdefault(source, dependent)
            if len(new) > MAX_DEPENDENTS:
                break
        derived = [xid for xid, dependent in new.items() if dependent.relation == "basemessage"]
        rows = self._view.reader.get_many(derived) if derived else {}
        apart = {xid for xid, row in rows.items() if _OWN_SCHEMA & row.attributes.keys()}
        return [dependent for xid, dependent in new.items() if xid not in apart]

    def _judge_dependents(
        self, dependents: Collection[Dependent], effects: Mapping[Xid, TrialEffect]
    ) -> dict[Xid, TrialEffect]:
        """Return the effects on the dependents of a level, by xid. ``effects`` are those on the levels before."""
        judged = {
            dependent.source: TrialEffect(outcome=effects[dependent.on].outcome)
            for dependent in dependents
            if dependent.relation not in _SCHEMA_RELATIONS
        }
        by_schema = (dependent for dependent in dependents if dependent.relation in _SCHEMA_RELATIONS)
        for batch in batched(by_schema, _DOCUMENTS_AT_ONCE):
            xids = [dependent.source for dependent in batch]
            rows = self._view.reader.get_many({*xids, *(xid.resource for xid in xids)})
            digests = {row.document for row in rows.values() if row.document is not None}
            contents = self._view.reader.documents(digests) if digests else {}
            for xid in xids:
                rule = self._find_rule(rows.get(xid.resource))
                judged[xid] = self._judge(xid, rule, _read_schema(rows.get(xid), contents))
        return judged

    def _find_rule(self, resource: Row | None) -> str:
        stored_rule = "" if resource is None else str(resource.attributes.get("compatibility") or "")
        return self._requested_rule or stored_rule or self._rule

    def _judge(self, xid: Xid, rule: str, schema: StoredSchema) -> TrialEffect:
        """Compare a stored schema with itself: its references after the change with its references now."""
        if schema.content is None or not schema.format:
            return TrialEffect(outcome="unknown", rule=rule, why="its schema is not in this registry, or has no format")
        self._comparisons_left -= 1
        if self._comparisons_left < 0:
            return TrialEffect(
                outcome="unknown", rule=rule, why=f"it was not compared: {_MAX_COMPARISONS} schemas are at a time"
            )
        text = extract_text(schema.content, schema.format)
        new = SchemaText(document=text, format=schema.format, resolve=self._after.make_resolver(xid))
        old = SchemaText(document=text, format=schema.format, resolve=self._before.make_resolver(xid))
        return self._compare(xid, rule, new, old)

    def _compare(self, xid: Xid, rule: str, new: SchemaText, old: SchemaText) -> TrialEffect:
        try:
            differences = compare_texts(rule, new, old, self._work)
        except (LookupError, TooComplex, OutOfTime) as error:
            return TrialEffect(outcome="unknown", rule=rule, why=str(error))
        except SchemaError as error:
            return self._judge_unreadable(rule, old, error)
        findings = tuple(
            convert_difference(direction, difference, document=str(xid), against="what is stored")
            for direction, difference in differences
        )
        decided = [item for item in findings if item.rule != "undecided"]
        outcome: Outcome = "breaks" if decided else "unknown" if findings else "holds"
        return TrialEffect(outcome=outcome, rule=rule, findings=findings[:MAX_FINDINGS])

    def _judge_unreadable(self, rule: str, old: SchemaText, error: SchemaError) -> TrialEffect:
        """Return the effect on a schema that cannot be read after the change: ``breaks`` if it can be read now."""
        try:
            compare_texts(rule, old, old, self._work)
        except (SchemaError, LookupError, TooComplex, OutOfTime) as now:
            return TrialEffect(outcome="unknown", rule=rule, why=f"what is stored cannot be read: {now}")
        return TrialEffect(outcome="breaks", rule=rule, why=f"it could not be read any more: {error}")

    @staticmethod
    def _judge_endpoints(
        dependents: Collection[Dependent], effects: Mapping[Xid, TrialEffect], groups: Mapping[Xid, Collection[Xid]]
    ) -> dict[Xid, TrialEffect]:
        """Return the effects on endpoints: the worst outcome of their own messages and the messages of their groups."""
        worst: dict[Xid, Outcome] = {}
        for dependent in dependents:
            if dependent.xid.kind is Kind.RESOURCE:
                owner = dependent.xid.owner
                worst[owner] = choose_worst((worst.get(owner, "holds"), effects[dependent.source].outcome))
        return {
            endpoint: TrialEffect(outcome=choose_worst(worst.get(group, "holds") for group in message_groups))
            for endpoint, message_groups in groups.items()
        }


def _read_schema(row: Row | None, contents: Mapping[str, bytes]) -> StoredSchema:
    """Return the schema that a Version has as its document or, for a message, in its attributes."""
    attributes: JSONObject = {} if row is None else row.attributes
    name = str(attributes.get("format") or attributes.get("dataschemaformat") or "")
    if row is not None and row.document is not None:
        return StoredSchema(content=contents.get(row.document), format=name)
    inline = attributes.get("dataschema")
    text = inline.encode("utf-8") if isinstance(inline, str) else None if inline is None else dump_json(inline)
    return StoredSchema(content=text, format=name)


def require_document(view: View, target: Xid) -> Row:
    """Return the row of a Resource or Version.

    Raises ``not_found``, and ``bad_request`` if its type has no documents.
    """
    row = view.reader.get(target)
    if row is None:
        raise RegistryError("not_found", subject=str(target))
    if view.model.documented_type(target) is None:
        detail = f"{target} has no document: schemas can be tried"
        raise RegistryError("bad_request", subject=str(target), error_detail=detail)
    return row


def find_worst(trial: CandidateTrial) -> Outcome:
    """Return the worst outcome of a trial for any entity."""
    return choose_worst((trial.effect.outcome, *(affected.effect.outcome for affected in trial.affected)))


def choose_worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of ``outcomes``, or ``holds`` if there are none."""
    return max(outcomes, key=_OUTCOMES.index, default="holds")
