"""What a document for a schema would break: everything that refers to the schema, compared as it would be then.

A schema that refers to the one on trial is compared with itself: with what it refers to as it would be, and as it is.
A message fares as its schema does, an endpoint as the worst of its messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from signalbook.batches import batched
from signalbook.engine.read.impact import MAX_DEPTH, MOST, BackwardLinks, Dependent
from signalbook.engine.read.schemas import SchemaReferences, StoredSchema, schema_of
from signalbook.engine.read.view import View
from signalbook.engine.search.links import IMPORT
from signalbook.errors import RegistryError
from signalbook.formats import SchemaError
from signalbook.formats.base import schema_text
from signalbook.formats.compatibility import SchemaText, finding, violations
from signalbook.storage.base import Row
from signalbook.values import Finding, JSONObject, dump_json
from signalbook.work import OutOfTime, TooComplex, Work
from signalbook.xid import Kind, Xid

Fate: TypeAlias = Literal["breaks", "holds", "unknown"]
MOST_FINDINGS: Final = 20
"""That are named of one schema."""
DEFAULT_RULE: Final = "backward"
_COMPARED: Final = 200
_AT_ONCE: Final = 20
"""Documents in memory."""
_DOCUMENTS: Final = frozenset({"schema", "references", IMPORT})
"""Relations of what has a schema of its own, which refers to another one."""
_OWN_SCHEMA: Final = frozenset({"dataschema", "dataschemaxid", "dataschemauri"})
_WORST: Final[tuple[Fate, ...]] = ("holds", "unknown", "breaks")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateDocument:
    """A document on trial: for a new Version of the Resource ``target``, or in the place of that of a Version.

    ``format`` is that of the schema if it is empty. ``compatibility`` is a rule to judge everything by.
    """

    target: Xid
    content: bytes
    contenttype: str | None = None
    format: str = ""
    compatibility: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEffect:
    """The outcome for one schema: the ``rule`` of its comparison, why it breaks, or why that is unknown."""

    fate: Fate
    rule: str = ""
    why: str = ""
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> JSONObject:
        """Return the JSON for clients."""
        shown: JSONObject = {"outcome": self.fate}
        shown |= {name: text for name, text in (("rule", self.rule), ("why", self.why)) if text}
        return shown | ({"findings": [each.to_json() for each in self.findings]} if self.findings else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A dependent, and what becomes of it."""

    dependent: Dependent
    effect: TrialEffect

    def to_json(self) -> JSONObject:
        """Return the JSON for clients."""
        return self.dependent.to_json() | self.effect.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateTrial:
    """The effect of a candidate on its schema and the dependents, the nearest first.

    ``moves`` tells whether users of the schema would get it: the default Version of a schema may be another one.
    """

    effect: TrialEffect
    affected: tuple[Affected, ...]
    complete: bool
    moves: bool


def try_candidate(
    view: View, candidate: CandidateDocument, base_url: str, *, moves: bool, work: Work, rule: str = ""
) -> CandidateTrial:
    """Try storing ``candidate``. ``moves`` tells that its new Version would be the default one.

    ``rule`` is for schemas that have none. Raises ``not_found``, and ``bad_request`` for types without documents.
    """
    trying = _Trying(view, candidate, base_url, moves=moves, work=work, rule=rule)
    own = trying.own()
    if candidate.target.kind is Kind.RESOURCE and not moves:
        return CandidateTrial(effect=own, affected=(), complete=True, moves=False)
    affected, complete = trying.walk(own)
    return CandidateTrial(effect=own, affected=affected, complete=complete, moves=moves)


class _Trying:
    """A trial in progress."""

    def __init__(
        self, view: View, candidate: CandidateDocument, base_url: str, *, moves: bool, work: Work, rule: str
    ) -> None:
        target = candidate.target
        row = require_document(view, target)
        self._view = view
        self._target = target
        self._stored = schema_of(view, target)
        self._format = candidate.format or self._stored.format
        self._content = schema_text(candidate.content, self._format)
        self._given = candidate.compatibility
        owner = row if target.kind is Kind.RESOURCE else view.reader.get(target.resource)
        self._owner = owner
        default = "" if owner is None else str(owner.defaultversionid or "")
        self._version = target if target.kind is Kind.VERSION else target / "versions" / default
        self._rule = str(owner.attributes.get("compatibility") or "") if owner is not None else ""
        self._rule = self._rule or rule or DEFAULT_RULE
        is_default = target.kind is Kind.RESOURCE or target.id == default
        self._work = work
        self._left = _COMPARED
        self._before = SchemaReferences(view, base_url)
        instead = {target: self._content} | ({target.resource: self._content} if is_default else {})
        self._after = SchemaReferences(view, base_url, instead if moves or target.kind is Kind.VERSION else {})
        moved = target if target.kind is Kind.RESOURCE else None
        self._links = BackwardLinks(index=view.index, reader=view.reader, access=view.access, moved=moved)

    def own(self) -> TrialEffect:
        """The candidate beside what is stored."""
        rule = self._given or self._rule
        if self._stored.content is None:
            return TrialEffect(fate="unknown", rule=rule, why="the document that is stored is not in this registry")
        stored = schema_text(self._stored.content, self._stored.format)
        new = SchemaText(document=self._content, format=self._format, resolve=self._after.resolver(self._version))
        old = SchemaText(document=stored, format=self._stored.format, resolve=self._before.resolver(self._version))
        return self._compared(self._target, rule, new, old)

    def walk(self, own: TrialEffect) -> tuple[tuple[Affected, ...], bool]:
        """Return the dependents of the schema, level by level, and whether these are all."""
        effects: dict[Xid, TrialEffect] = {self._target: own}
        shown: dict[Xid, Xid] = {self._target: self._target}
        groups: dict[Xid, set[Xid]] = {}
        found: list[Dependent] = []
        level = [self._target]
        for step in range(1, MAX_DEPTH + 2):
            new = self._concerned(self._links.level(level, step), effects, groups)
            room = MOST - len(found) if step <= MAX_DEPTH else 0
            complete, new = len(new) <= room, new[:room]
            effects |= self._judged(new, effects)
            shown |= {each.source: each.xid for each in new}
            found += new
            level = [each.source for each in new]
            if not complete or not level:
                break
        ends = self._endpoints(found, effects, groups)
        return tuple(
            Affected(
                dependent=replace(each, on=shown.get(each.on, each.on)),
                effect=ends.get(each.xid) or effects[each.source],
            )
            for each in found
        ), complete

    def _concerned(
        self, dependents: Iterable[Dependent], known: Mapping[Xid, TrialEffect], groups: dict[Xid, set[Xid]]
    ) -> list[Dependent]:
        """Return the new dependents of a level that get the schema from their reference. Adds to ``groups``."""
        new: dict[Xid, Dependent] = {}
        for each in dependents:
            if each.relation in ("messagegroups", "messages"):
                groups.setdefault(each.source, set()).add(each.on.resource.owner)
            # Its own Versions stay what they are, be it that they refer to it.
            if each.source not in known and each.source.resource != self._target and each.relation != "relatedto":
                new.setdefault(each.source, each)
            if len(new) > MOST:
                break
        derived = [xid for xid, each in new.items() if each.relation == "basemessage"]
        rows = self._view.reader.get_many(derived) if derived else {}
        apart = {xid for xid, row in rows.items() if _OWN_SCHEMA & row.attributes.keys()}
        return [each for xid, each in new.items() if xid not in apart]

    def _judged(self, dependents: Collection[Dependent], known: Mapping[Xid, TrialEffect]) -> dict[Xid, TrialEffect]:
        """Return the outcomes for the dependents of a level."""
        judged = {
            each.source: TrialEffect(fate=known[each.on].fate) for each in dependents if each.relation not in _DOCUMENTS
        }
        for some in batched((each for each in dependents if each.relation in _DOCUMENTS), _AT_ONCE):
            xids = [each.source for each in some]
            rows = self._view.reader.get_many({*xids, *(xid.resource for xid in xids)})
            digests = {row.document for row in rows.values() if row.document is not None}
            contents = self._view.reader.documents(digests) if digests else {}
            for xid in xids:
                rule = self._rule_of(rows.get(xid.resource))
                judged[xid] = self._judge(xid, rule, _schema_in(rows.get(xid), contents))
        return judged

    def _rule_of(self, resource: Row | None) -> str:
        own = "" if resource is None else str(resource.attributes.get("compatibility") or "")
        return self._given or own or self._rule

    def _judge(self, xid: Xid, rule: str, schema: StoredSchema) -> TrialEffect:
        """A schema with what it refers to as it would be, beside itself as it is."""
        if schema.content is None or not schema.format:
            return TrialEffect(fate="unknown", rule=rule, why="its schema is not in this registry, or has no format")
        self._left -= 1
        if self._left < 0:
            return TrialEffect(fate="unknown", rule=rule, why=f"it was not compared: {_COMPARED} schemas are at a time")
        text = schema_text(schema.content, schema.format)
        new = SchemaText(document=text, format=schema.format, resolve=self._after.resolver(xid))
        old = SchemaText(document=text, format=schema.format, resolve=self._before.resolver(xid))
        return self._compared(xid, rule, new, old)

    def _compared(self, xid: Xid, rule: str, new: SchemaText, old: SchemaText) -> TrialEffect:
        try:
            with self._work.on_the_spot():
                found = violations(rule, new, old)
        except (LookupError, TooComplex, OutOfTime) as error:
            return TrialEffect(fate="unknown", rule=rule, why=str(error))
        except SchemaError as error:
            return self._unreadable(rule, old, error)
        findings = tuple(
            finding(direction, each, document=str(xid), against="what is stored") for direction, each in found
        )
        decided = [each for each in findings if each.rule != "undecided"]
        fate: Fate = "breaks" if decided else "unknown" if findings else "holds"
        return TrialEffect(fate=fate, rule=rule, findings=findings[:MOST_FINDINGS])

    def _unreadable(self, rule: str, old: SchemaText, error: SchemaError) -> TrialEffect:
        """Return the outcome for a schema that could not be read: whether it can be now."""
        try:
            with self._work.on_the_spot():
                violations(rule, old, old)
        except (SchemaError, LookupError, TooComplex, OutOfTime) as now:
            return TrialEffect(fate="unknown", rule=rule, why=f"what is stored cannot be read: {now}")
        return TrialEffect(fate="breaks", rule=rule, why=f"it could not be read any more: {error}")

    @staticmethod
    def _endpoints(
        found: Collection[Dependent], effects: Mapping[Xid, TrialEffect], groups: Mapping[Xid, Collection[Xid]]
    ) -> dict[Xid, TrialEffect]:
        """Endpoints, by their own messages and those of their groups."""
        worst: dict[Xid, Fate] = {}
        for each in found:
            if each.xid.kind is Kind.RESOURCE:
                owner = each.xid.owner
                worst[owner] = worst_of((worst.get(owner, "holds"), effects[each.source].fate))
        return {
            endpoint: TrialEffect(fate=worst_of(worst.get(each, "holds") for each in of))
            for endpoint, of in groups.items()
        }


def _schema_in(row: Row | None, contents: Mapping[str, bytes]) -> StoredSchema:
    """The schema of a Version, or inside of a message."""
    attributes: JSONObject = {} if row is None else row.attributes
    name = str(attributes.get("format") or attributes.get("dataschemaformat") or "")
    if row is not None and row.document is not None:
        return StoredSchema(content=contents.get(row.document), format=name)
    inline = attributes.get("dataschema")
    text = inline.encode("utf-8") if isinstance(inline, str) else None if inline is None else dump_json(inline)
    return StoredSchema(content=text, format=name)


def require_document(view: View, target: Xid) -> Row:
    """The Resource or Version. Raises ``not_found``, and ``bad_request`` if it is of a type that has no documents."""
    row = view.reader.get(target)
    if row is None:
        raise RegistryError("not_found", subject=str(target))
    if view.model.documented_type(target) is None:
        detail = f"{target} has no document: schemas can be tried"
        raise RegistryError("bad_request", subject=str(target), error_detail=detail)
    return row


def worst(trial: CandidateTrial) -> Fate:
    """The worst that a candidate does to anything."""
    return worst_of((trial.effect.fate, *(each.effect.fate for each in trial.affected)))


def worst_of(fates: Iterable[Fate]) -> Fate:
    """The worst of several."""
    return max(fates, key=_WORST.index, default="holds")
