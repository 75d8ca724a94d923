"""A contract: all definitions that a stream must conform to, compiled to process messages (K-14, K-26 to K-47)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from signalbook.formats.base import format_pointer, shorten
from signalbook.messages.bindings.base import Binding, find_binding, protocols
from signalbook.messages.cloudevents import CloudEvent, Mode, find_invalid_attributes
from signalbook.messages.content import TEXT_INDICATOR, Unreadable, check_text, has_schema_header, unpack_message
from signalbook.messages.definitions.broken import LeftOut
from signalbook.messages.definitions.definition import CompiledDefinition, DefinitionError, IndexKey
from signalbook.messages.definitions.normalise import UNRESOLVED, Bases
from signalbook.messages.definitions.schemas import Lookup
from signalbook.messages.definitions.source import DefinitionSource, Outline, outline
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.matching.fits import Fit, MatchSubject, MismatchExplanation, explain, fit_all
from signalbook.messages.matching.index import MAX_EXPLAINED, DefinitionIndex, IndexBucket, find_member
from signalbook.messages.matching.outcome import Accepted, Dropped, Outcome, Passed, Rejected, decide
from signalbook.messages.message import Message, Reason
from signalbook.messages.payload import Payload
from signalbook.messages.policy import Policy
from signalbook.values import JSON, Finding, JSONObject, dump_json

K = TypeVar("K")
V = TypeVar("V")


class Deferred(Mapping[K, V]):
    """A mapping whose values are made on first access, by calling ``make`` with the source of the key.

    The keys are known without making any value.
    """

    def __init__(self, sources: Mapping[K, Any], make: Callable[[Any], V]) -> None:
        self._sources = sources
        self._make = make
        self._made: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        # No lock is needed: if two threads make the same value, only some time is lost.
        value = self._made.get(key)
        if value is None:
            source = self._sources[key]
            value = self._made.setdefault(key, self._make(source))  # keeps the value of the first thread
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or ``default`` if the key does not exist. A ``KeyError`` of ``make`` is passed on."""
        return self[key] if key in self._sources else default

    def __contains__(self, key: object) -> bool:
        return key in self._sources

    def __iter__(self) -> Iterator[K]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def made(self) -> int:
        """The number of values made so far."""
        return len(self._made)


# The largest number of events in one message. Two bytes may stand for an event, and all outcomes are kept in memory.
MAX_BATCH: Final = 100_000
_SHOWN_KINDS: Final = 10
_NOT_STATED: Final = Finding(
    path="",
    rule="content_mode",
    message="neither its content type nor its headers say that it is a CloudEvent: a structured one needs the "
    "content type application/cloudevents+json, or the option assume of its source",
)


class Contract:
    """Compiled definitions with a policy. ``process`` returns the outcome of a message.

    ``definitions`` are the usable definitions by xid, ``outlines`` the data by which they are indexed, and ``broken``
    the findings of definitions that do not compile. Messages of definitions that are ``left_out`` are rejected. A
    contract is immutable and can be shared between threads.
    """

    def __init__(
        self,
        source: DefinitionSource,
        definitions: Mapping[str, CompiledDefinition],
        outlines: tuple[Outline, ...],
        broken: Mapping[str, tuple[Finding, ...]],
        policy: Policy,
        left_out: Mapping[str, LeftOut] | None = None,
    ) -> None:
        self.definitions = definitions
        self.outlines = outlines
        self.broken = broken
        self.policy = policy
        self._source = source
        # A message that fits no definition may belong to one of these left-out definitions.
        self._unknown = {xid: entry for xid, entry in (left_out or {}).items() if entry.known_by != "definition"}
        events = [entry for entry in self.outlines if entry.is_event]
        natives = [entry for entry in self.outlines if not entry.is_event]
        self.events = self._index_events(events) if events else None
        self._natives = self._group_by_protocol(natives)
        self._mapped = self._group_by_protocol(entry for entry in events if policy.of(entry.xid).native_mapping)
        self._payload_xids = [entry.xid for entry in natives if not entry.protocol]
        self._bindings = {name: find_binding(name) for name in protocols()}

    @classmethod
    def compile(
        cls,
        definitions: Mapping[str, JSONObject],
        schemas: Lookup,
        policy: Policy | None = None,
        *,
        bases: Bases | None = None,
    ) -> Contract:
        """Compile raw definitions by xid, in the form of a registry document, to a contract.

        ``schemas`` finds schema documents. ``bases`` finds the definitions that ``basemessage`` refers to, by default
        in ``definitions``. A definition that cannot be used is put into ``broken``.
        """
        source = DefinitionSource(definitions=definitions, schemas=schemas, bases=bases or definitions.get)
        return cls.of_source(source, policy or Policy())

    @classmethod
    def of_source(cls, source: DefinitionSource, policy: Policy) -> Contract:
        """Compile all definitions of ``source`` to a contract. Definitions that do not compile are ``broken``."""
        schemas = source.contract_schemas()
        compiled: dict[str, CompiledDefinition] = {}
        broken: dict[str, tuple[Finding, ...]] = {}
        for xid in source.definitions:
            try:
                compiled[xid] = source.compiled(xid, schemas, policy)
            except DefinitionError as error:
                broken[xid] = error.findings
        return cls(source, compiled, tuple(map(outline, compiled.values())), broken, policy)

    @classmethod
    def outlined(
        cls,
        outlines: Iterable[Outline],
        source: DefinitionSource,
        policy: Policy,
        left_out: Mapping[str, LeftOut] | None = None,
    ) -> Contract:
        """Return a contract of definitions that have been checked before. Each is compiled when a message may fit it.

        ``outlines`` describe the definitions, and ``left_out`` are the broken ones. ``DefinitionSource.verdict``
        returns both.
        """
        schemas, all_outlines = source.contract_schemas(), tuple(outlines)
        broken = left_out or {}

        def compiled(xid: str) -> CompiledDefinition:
            readable_part = source.left_over(xid, schemas, policy, broken[xid].reasons)[1] if xid in broken else None
            return readable_part or source.compiled(xid, schemas, policy)

        definitions = Deferred({entry.xid: entry.xid for entry in all_outlines}, compiled)
        return cls(source, definitions, all_outlines, {}, policy, broken)

    @property
    def incomplete(self) -> Mapping[str, tuple[Finding, ...]]:
        """The usable definitions whose ``basemessage`` is missing, by xid, with the findings about it (F-17)."""
        by_xid = {
            xid: tuple(finding for finding in definition.warnings if finding.rule == UNRESOLVED)
            for xid, definition in self.definitions.items()
        }
        return {xid: findings for xid, findings in by_xid.items() if findings}

    def _index_events(self, outlines: Iterable[Outline]) -> DefinitionIndex:
        """Return the index of event definitions. Definitions with a type are compiled when an event has that type."""
        typed: dict[str, list[Outline]] = defaultdict(list)
        untyped: list[tuple[CompiledDefinition, tuple[IndexKey, ...]]] = []
        for entry in outlines:
            if entry.type is None:
                definition = self.definitions[entry.xid]
                untyped.append((definition, definition.event_keys))
            else:
                # Do not compile these now: a stream usually has events of a few dozen of thousands of definitions.
                typed[entry.type].append(entry)
        constants = (pair for alike in typed.values() for entry in alike for pair in entry.constants)
        return DefinitionIndex(untyped, typed=Deferred(typed, self._index_type), constants=constants if untyped else ())

    def _index_type(self, outlines: Iterable[Outline]) -> IndexBucket:
        definitions = [self.definitions[entry.xid] for entry in outlines]
        return IndexBucket(
            [
                (definition, tuple(key for key in definition.event_keys if key.name != "type"))
                for definition in definitions
            ]
        )

    def _group_by_protocol(self, outlines: Iterable[Outline]) -> Mapping[str, DefinitionIndex]:
        by_protocol: dict[str, list[Outline]] = defaultdict(list)
        for entry in outlines:
            # Definitions without a protocol can only be distinguished by the payload (``_payload_only``).
            if entry.protocol:
                by_protocol[entry.protocol].append(entry)
        return Deferred(by_protocol, self._index_options)

    def _index_options(self, outlines: Iterable[Outline]) -> DefinitionIndex:
        definitions = [self.definitions[entry.xid] for entry in outlines]
        return DefinitionIndex((definition, definition.protocol_keys) for definition in definitions)

    @cached_property
    def _payload_only(self) -> IndexBucket | None:
        entries = [(self.definitions[xid], ()) for xid in self._payload_xids]
        return IndexBucket(entries) if entries else None

    def verify(self) -> Mapping[str, tuple[Finding, ...]]:
        """Return the findings of definitions whose messages cannot be processed, by xid.

        These definitions are broken, or their schemas are broken or missing. Every schema is parsed, while ``process``
        parses a schema only when a message needs it.
        """
        schemas = {xid: definition.schema_use.findings for xid, definition in self.definitions.items()}
        return {**self.broken, **{xid: findings for xid, findings in schemas.items() if findings}}

    def rejection(self, message: Message) -> Rejected | None:
        """Return the rejection of a message, or None unless that is its only outcome."""
        outcomes = self.process(message)  # none for an empty batch
        return outcomes[0] if len(outcomes) == 1 and isinstance(outcomes[0], Rejected) else None

    def process(self, message: Message) -> tuple[Outcome, ...]:
        """Process a message by all rules of this contract. Return an outcome for each event of a batch (K-47)."""
        binding = self._bindings.get(message.protocol)
        if binding is None:
            text = f"no binding for protocol {message.protocol!r}"
            return (_reject(message, Reason.UNSUPPORTED_FORMAT, Finding(path="", rule="protocol", message=text)),)
        try:
            # Check this before decompression: in MQTT 5 the indicator applies to the payload as it was sent.
            if TEXT_INDICATOR in message.sections:
                check_text(message)
            clear = unpack_message(message) if message.content_encoding else message
        except Unreadable as error:
            return (_reject(message, error.reason, error.finding),)
        values = binding.values(clear)
        mode = binding.mode(clear, values)
        # If no definition is for events, treat a batch like any other payload, which native definitions may describe.
        if mode is Mode.BATCH and self.events is not None:
            return self._process_batch(message, clear, binding)
        return self._process_one(message, clear, binding, values, mode)

    def presumed(self, message: Message) -> Accepted | None:
        """Return the outcome of ``process`` on the assumption that the payload conforms to its one definition's schema.

        Return ``None`` if the outcome depends on more than the payload, or if the message does not fit exactly one
        definition.
        """
        binding = self._bindings.get(message.protocol)
        if binding is None or message.body is None:
            return None
        try:
            if TEXT_INDICATOR in message.sections:
                check_text(message)
            clear = unpack_message(message) if message.content_encoding else message
            values = binding.values(clear)
            mode = binding.mode(clear, values)
            if mode not in (Mode.BINARY, Mode.NONE):
                return None
            carries = mode is Mode.BINARY and self.events is not None
            event = decode_event(clear, binding, values, mode) if carries else None
        except (EventError, Unreadable):
            return None
        subject = MatchSubject(message=clear, mode=mode, event=event, values=values)
        leaves = self._find_leaves(subject)
        alone = event is None and message.protocol not in self._natives and message.protocol not in self._mapped
        if alone and self._payload_only is not None:
            leaves = [self._payload_only]
        fits = fit_all(_find_presumed_candidates(leaves, Payload(clear, event)), subject)
        accepted = _accept_presumed(subject, *fits) if len(fits) == 1 else None
        if accepted is None or clear is message:
            return accepted
        return msgspec.structs.replace(accepted, message=message, bare=clear.body)

    def decides_unknown_types(self, protocol: str, address: str = "") -> bool:
        """Return True if ``of_unknown_type`` returns the outcome of all events by ``protocol`` of undefined types.

        Events whose value of the property ``address`` matches a definition without an envelope are excluded.
        """
        if not self._event_types or self._payload_xids:
            return False
        return protocol not in self._natives or self._natives[protocol].is_filed_by(address)

    def of_unknown_type(self, event_type: str, protocol: str) -> Outcome:
        """Return the outcome of events by ``protocol`` with this type, which no definition has; its message is empty.

        ``decides_unknown_types`` must be True.
        """
        message = Message(protocol=protocol)
        event = CloudEvent(attributes={"type": event_type})
        subject = MatchSubject(message=message, mode=Mode.STRUCTURED, event=event, values={})
        return self._decide_unmatched(message, subject, MismatchExplanation())[0]

    def of_no_event(self, protocol: str) -> Outcome | None:
        """Return the common outcome of all messages by ``protocol`` that carry no event, with an empty message.

        Return ``None`` if the messages may have different outcomes.
        """
        may_be_native = self._payload_xids or protocol in self._natives or protocol in self._mapped
        if self.events is None or may_be_native:
            return None
        message = Message(protocol=protocol)
        subject = MatchSubject(message=message, mode=Mode.NONE, event=None, values={})
        return self._decide_unmatched(message, subject, MismatchExplanation())[0]

    def _process_batch(self, message: Message, clear: Message, binding: Binding) -> tuple[Outcome, ...]:
        try:
            parts = find_format(clear.content_type).split(clear.body or b"")
        except EventError as error:
            return (_reject_event(message, error),)
        if len(parts) > MAX_BATCH:
            text = f"a batch of {len(parts)} events; at most {MAX_BATCH} are read of one message"
            return (_reject(message, Reason.DECODE_ERROR, Finding(path="", rule="batch", message=text)),)
        # Process each element as a structured event of the same format. It inherits parameters such as charset.
        content_type = clear.content_type.lower().replace("cloudevents-batch", "cloudevents", 1)
        outcomes: list[Outcome] = []
        for part in parts:
            element = msgspec.structs.replace(clear, body=part, content_type=content_type)
            outcomes += self._process_one(element, element, binding, binding.values(element), Mode.STRUCTURED)
        return tuple(outcomes)

    def _process_one(
        self, message: Message, clear: Message, binding: Binding, values: Mapping[str, Any], mode: Mode
    ) -> tuple[Outcome, ...]:
        event = None
        if mode is not Mode.NONE and self.events is not None:
            try:
                event = decode_event(clear, binding, values, mode)
            except EventError as error:
                return (_reject_event(message, error),)
        subject = MatchSubject(message=clear, mode=mode, event=event, values=values)
        payload = Payload(clear, event)
        leaves = self._find_leaves(subject)
        unknown = _explain_unknown_kind(leaves, payload)
        if unknown is not None:
            return self._decide_unmatched(message, subject, unknown)
        # The index and the constants of payloads only save work. If no candidate fits, try other definitions too, so
        # that the message is rejected for a violation and not for matching no definition.
        fits = fit_all(_find_candidates(leaves, payload), subject)
        if not fits:
            fits, explanation = self._look_wider(leaves, subject, payload)
            if not fits:
                return self._decide_unmatched(message, subject, explanation)
        return decide(message, subject, fits, payload, binding)

    def _find_leaves(self, subject: MatchSubject) -> list[IndexBucket]:
        protocol = subject.message.protocol
        if subject.event is None:
            leaves: list[IndexBucket] = []
            if self._mapped and (mapped := self._mapped.get(protocol)) is not None:
                leaves = mapped.find_buckets(subject.values)
        else:
            leaves = self.events.find_buckets(subject.event.attributes) if self.events else []
        if self._natives and (natives := self._natives.get(protocol)) is not None:
            return leaves + natives.find_buckets(subject.values)
        return leaves

    def _look_wider(
        self, leaves: Sequence[IndexBucket], subject: MatchSubject, payload: Payload
    ) -> tuple[list[Fit], MismatchExplanation]:
        """Try definitions that the index or the payload's constants ruled out, then those without metadata.

        Return those that fit, and the explanation to use if none fits (K-28, K-31).
        """
        tried = {d.xid: d for leaf in leaves for d in leaf.definitions}
        tried.update((definition.xid, definition) for definition in self._find_wider(subject))
        fits = fit_all(tried.values(), subject)
        if fits:
            return fits, MismatchExplanation()
        # If the message is of a known kind, report which rules of that kind it violates.
        explanation = explain(tried.values(), subject)
        if explanation.near or self._payload_only is None:
            return [], explanation
        unknown = _explain_unknown_kind([self._payload_only], payload)
        if unknown is not None:
            # The kind of an event is determined by its type, not by its payload.
            return [], explanation if subject.event is not None else unknown
        return fit_all(_find_candidates([self._payload_only], payload), subject), explanation

    def _find_wider(self, subject: MatchSubject) -> list[CompiledDefinition]:
        protocol, definitions = subject.message.protocol, []
        if subject.event is not None and self.events is not None:
            definitions += self.events.find_wider(subject.event.attributes)
        elif protocol in self._mapped:
            definitions += self._mapped[protocol].find_wider(subject.values)
        if protocol in self._natives:
            definitions += self._natives[protocol].find_wider(subject.values)
        return definitions

    def _decide_unmatched(
        self, message: Message, subject: MatchSubject, explanation: MismatchExplanation
    ) -> tuple[Outcome, ...]:
        if explanation.near and explanation.reason is not None:
            return (_reject_explained(message, explanation.reason, explanation),)
        match self.policy.on_no_match:
            case "pass":
                return (Passed(message=message),)
            case "drop" if not self._unknown:
                return (Dropped(message=message),)
        if explanation.reason is None and (unknown := self._explain_unknown_type(subject)) is not None:
            explanation = unknown
        reason = explanation.reason or self._choose_reason(subject)
        rejected = _reject_explained(message, reason, explanation)
        doubts = tuple(left_out.finding(xid) for xid, left_out in islice(self._unknown.items(), MAX_EXPLAINED))
        # This finding is the same for every message, so that the fast path need not read payloads.
        unstated = (_NOT_STATED,) if reason is Reason.NOT_CLOUDEVENT else ()
        return (msgspec.structs.replace(rejected, violations=rejected.violations + unstated + doubts),)

    @cached_property
    def _event_types(self) -> Mapping[str, None]:
        """The types of all definitions of events, in order; empty if one of these definitions has no constant type."""
        types = {entry.type for entry in self.outlines if entry.is_event}
        return {} if None in types else dict.fromkeys(sorted(map(str, types)))

    def _explain_unknown_type(self, subject: MatchSubject) -> MismatchExplanation | None:
        """Return an explanation if no definition has the type of an event, or None if that is not certain."""
        event_type = None if subject.event is None else subject.event.attributes.get("type")
        # A definition that cannot be used may have any type.
        if event_type is None or self._unknown or not self._event_types or event_type in self._event_types:
            return None
        return _build_unknown_kind("type", "type", event_type, self._event_types)

    def _choose_reason(self, subject: MatchSubject) -> Reason:
        """Return the reason for rejecting a message without a match.

        It is ``not_cloudevent`` if all definitions are for events and the message carries no event, else ``no_match``.
        """
        may_be_native = self._payload_xids or subject.message.protocol in self._natives
        return (
            Reason.NO_MATCH
            if subject.event is not None or may_be_native or self.events is None
            else Reason.NOT_CLOUDEVENT
        )


def decode_event(message: Message, binding: Binding, values: Mapping[str, Any], mode: Mode) -> CloudEvent:
    """Return the event that a message carries. Raises ``EventError`` if it cannot be decoded or is not valid."""
    if mode is Mode.STRUCTURED:
        return find_format(message.content_type).decode(message.body or b"")
    attributes = binding.attributes(message, values)
    findings = find_invalid_attributes(attributes)
    if findings:
        raise EventError(Reason.INVALID_CLOUDEVENT, findings)
    return CloudEvent(attributes=attributes, body=message.body)


def _find_candidates(leaves: Sequence[IndexBucket], payload: Payload) -> Sequence[CompiledDefinition]:
    """Return the definitions in ``leaves`` whose schema can accept the payload; some of them if none can (K-30)."""
    # In the usual case there is one definition, and the payload is decoded later by its schema.
    if len(leaves) == 1 and len(leaves[0].definitions) == 1:
        return leaves[0].definitions
    if sum(len(leaf.definitions) for leaf in leaves) > 1:
        payload.decode_json()
        candidates = [definition for leaf in leaves for definition in leaf.narrow(payload.value)]
        if candidates:
            return candidates
    # If no schema can accept the payload, keep some definitions, so that their violations are reported.
    return [definition for leaf in leaves for definition in leaf.definitions[:MAX_EXPLAINED]][:MAX_EXPLAINED]


def _explain_unknown_kind(leaves: Sequence[IndexBucket], payload: Payload) -> MismatchExplanation | None:
    """Return an explanation if a distinguishing member of the payload has a value that no definition in ``leaves`` has.

    Return None otherwise.
    """
    if len(leaves) != 1 or not leaves[0].kinds:
        return None
    payload.decode_json()
    for path, values in leaves[0].kinds.items():
        value = find_member(payload.value, path)
        if type(value) in {type(known_value) for known_value in islice(values, 1)} and value not in values:
            return _build_unknown_kind(format_pointer(path), ".".join(path), value, values)
    return None


def _build_unknown_kind(path: str, name: str, value: JSON, values: Collection[JSON]) -> MismatchExplanation:
    """Return the explanation that no definition has the ``value`` of the member or attribute ``name`` at ``path``."""
    unknown, member, *known_values = (
        shorten(dump_json(part).decode()) for part in (value, name, *islice(values, _SHOWN_KINDS))
    )
    more = ", ..." if len(values) > _SHOWN_KINDS else ""
    text = (
        f"no definition has the value {unknown} of {member}; there are definitions for {', '.join(known_values)}{more}"
    )
    finding = Finding(path=path, rule=str(Reason.UNKNOWN_KIND), message=text)
    return MismatchExplanation(reason=Reason.UNKNOWN_KIND, findings=(finding,))


def _find_presumed_candidates(leaves: Sequence[IndexBucket], payload: Payload) -> Sequence[CompiledDefinition]:
    """Return the same as ``_find_candidates`` for a valid payload, without decoding all of it.

    Return no candidates if several definitions are possible and the payload is not a JSON object.
    """
    everything = [definition for leaf in leaves for definition in leaf.definitions]
    if len(everything) < 2 or not payload.content_type_allows_json():
        return everything
    candidates: list[CompiledDefinition] = []
    for leaf in leaves:
        members = leaf.read_constants(payload.body() or b"")
        if members is None:
            return ()
        candidates += leaf.narrow(members)
    return candidates


def _accept_presumed(subject: MatchSubject, fit: Fit) -> Accepted | None:
    """Return the message as accepted on the assumption that its payload is valid.

    Return None if the outcome depends on more than the payload.
    """
    definition, event = fit.definition, subject.event
    if definition.removal is not None or (event is None and definition.is_event):
        return None
    if definition.policy.wire_prefix != "none" and has_schema_header(subject.message):
        return None
    use = definition.schema_use
    dataschema = None if event is None else event.attributes.get("dataschema")
    if use.schema is None or (dataschema is not None and definition.schema_for(str(dataschema)) is not use):
        return None
    return Accepted(
        message=subject.message,
        definition=definition,
        event=event,
        context=fit.context,
        schema=use.schema,
        warnings=definition.warnings,
    )


def _reject(message: Message, reason: Reason, *findings: Finding) -> Rejected:
    return Rejected(message=message, reason=reason, violations=findings)


def _reject_event(message: Message, error: EventError) -> Rejected:
    return Rejected(message=message, reason=error.reason, violations=error.findings)


def _reject_explained(message: Message, reason: Reason, explanation: MismatchExplanation) -> Rejected:
    return Rejected(message=message, reason=reason, violations=explanation.findings, candidates=explanation.candidates)
