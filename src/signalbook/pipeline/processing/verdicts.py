"""Verdicts that say why messages are dead letters. Many messages share a verdict, which has a number.

The reasons why payloads are rejected are those that the slow path reports. For JSON, they are the findings of
``Schema.validate``, which runs once for payloads that break the same rules. The native module gives such payloads the
same key: the values that break a rule, as they are written, each with its path. If each rule of a schema is about one
value, the key determines the findings. Payloads without a key, unreadable payloads and payloads of other formats are
judged one by one, without the rest of the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats import Schema
from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import CloudEvent, CompiledDefinition, Message, Policy, Reason, Rejected
from signalbook.messages.eventformats import JSON_EVENTS, EventError
from signalbook.messages.matching.fits import MAX_FINDINGS
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.pipeline import native
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.native import NoPlan, PayloadSpans
from signalbook.pipeline.processing.batch import EventBatch, find_firsts
from signalbook.pipeline.processing.json_plans import CHOICE, GUARDED, build_json_program
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.values import JSON, MAX_VALUES, Finding, JSONError, parse_json

NO_VERDICT: Final = -1
"""Stands for the number of a verdict, for messages without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionVerdict:
    """The reason why messages are dead letters, like ``messages.Rejected``."""

    reason: Reason
    violations: tuple[Finding, ...]
    candidates: tuple[str, ...] = ()

    @classmethod
    def of(cls, rejected: Rejected) -> RejectionVerdict:
        """Return the verdict of ``rejected``, the rejection of one message."""
        return cls(reason=rejected.reason, violations=rejected.violations, candidates=rejected.candidates)


@dataclass(frozen=True, slots=True)
class Rejections:
    """The messages at ``indices``, which are dead letters. ``numbers`` are the positions of their ``verdicts``."""

    messages: MessageBatch
    indices: Sequence[int]
    verdicts: Sequence[RejectionVerdict]
    numbers: Offsets

    def count_alike(self) -> Iterator[tuple[RejectionVerdict, int, int]]:
        """Yield each kind of verdict with the position of its first message and the number of its messages."""
        numbers, firsts, counts = np.unique(self.numbers, return_index=True, return_counts=True)
        alike: dict[Any, list[Any]] = {}
        for number, first, count in zip(numbers.tolist(), firsts.tolist(), counts.tolist(), strict=True):
            verdict = self.verdicts[number]
            # Verdicts of the same rules are one kind. If they quote values, each message may have a different verdict.
            rules = tuple((violation.path, violation.rule) for violation in verdict.violations)
            alike.setdefault((verdict.reason, verdict.candidates, rules), [verdict, first, 0])[2] += count
        for verdict, first, count in alike.values():
            yield verdict, first, count


class Verdicts:
    """The verdicts on the events of a batch."""

    def __init__(self, events: int) -> None:
        self._numbers: Offsets = np.full(events, NO_VERDICT, np.int64)
        self._verdicts: list[RejectionVerdict] = []

    def assign(self, events: Offsets, numbers: Offsets, verdicts: Sequence[RejectionVerdict]) -> None:
        """Give each of ``events`` the verdict at its number in ``verdicts``, or none for ``NO_VERDICT``."""
        self._numbers[events] = np.where(numbers == NO_VERDICT, NO_VERDICT, numbers + len(self._verdicts))
        self._verdicts += verdicts

    def explain(self, batch: EventBatch, reasons: PayloadReasons, events: Offsets) -> None:
        """Give each of ``events``, whose payloads were refused, the verdict that ``reasons`` finds."""
        for part in batch.split(events):
            self.assign(part, *reasons.of(batch.take_payloads(part)))

    def take_back(self, events: Offsets) -> None:
        """Remove the verdicts of these events."""
        self._numbers[events] = NO_VERDICT

    @property
    def events(self) -> Offsets:
        """The events that have a verdict."""
        return np.flatnonzero(self._numbers != NO_VERDICT)

    def group_rejections(self, batch: EventBatch) -> Iterator[Rejections]:
        """Yield the rejected messages of each batch of messages that ``batch`` consists of."""
        for messages, indices, events in batch.find_messages(self.events):
            yield Rejections(messages, indices, self._verdicts, self._numbers[events])


# Results that are cached before the cache is emptied: anybody may send any number of values.
_MAX_KEYS: Final = 10_000
# Longer payloads go the slow path, which limits the memory for their decoded values.
_MAX_PAYLOAD_BYTES: Final = 1024 * 1024
# The number of payloads after which judging them stops if most of them conform.
_TRIED: Final = 64
# Keywords whose findings about one value depend on other values, or quote the surrounding value.
_ENTANGLED: Final = frozenset(
    {
        "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas",
        "contains", "propertyNames", "patternProperties", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
        "minProperties", "maxProperties", "$dynamicRef", "$recursiveRef",
    }
)  # fmt: skip

_KEYS: Final = pa.schema([("key", pa.binary())])
# Programs of values for which the native module makes no keys.
_APART: Final = ((GUARDED,), (CHOICE,))

Violations = tuple[Finding, ...]


class Reasons:
    """The violations of one schema by payloads, cached by key."""

    def __init__(self, schema: JsonSchema) -> None:
        # A weak reference: the cache ``_reasons`` would otherwise keep the schema in memory for ever.
        self._ref = ref(schema)
        self._key_function = _build_key_function(schema)
        self._known: dict[bytes, Violations | None] = {}
        self._broken: dict[bytes, bool] = {}

    @property
    def _schema(self) -> JsonSchema:
        schema = self._ref()
        assert schema is not None
        return schema

    def read_keys(self, refused: PayloadSpans) -> pa.BinaryArray:
        """Return the key of each payload's violations, or null. Payloads with equal keys have the same violations."""
        if self._key_function is None:
            return pa.nulls(len(refused), pa.binary())
        return native.read_columns(self._key_function(refused.places), _KEYS)[0]

    def of(self, refused: PayloadSpans, *, one_by_one: bool = True) -> tuple[Offsets, list[Violations]]:
        """Return for each payload the number of its violations in the returned list, ``NO_VERDICT`` without any.

        Payloads without a key are validated one by one with ``one_by_one``, and else get ``NO_VERDICT``.
        """
        encoded = self.read_keys(refused).dictionary_encode()
        codes = encoded.indices.fill_null(NO_VERDICT).to_numpy().astype(np.int64)
        violation_lists: list[Violations] = []
        numbers = np.full(len(refused), NO_VERDICT, np.int64)
        alike = np.flatnonzero(codes != NO_VERDICT)
        if len(alike):
            samples = alike[find_firsts(codes[alike], len(encoded.dictionary))]
            of_key = np.full(len(samples), NO_VERDICT, np.int64)
            for code, key in enumerate(encoded.dictionary.to_pylist()):
                if key not in self._known:
                    self._remember(key, self._find_violations(refused[samples[code]]))
                of_key[code] = _append_violations(violation_lists, self._known[key])
            numbers[alike] = of_key[codes[alike]]
        for place in np.flatnonzero(codes == NO_VERDICT).tolist() if one_by_one else ():
            numbers[place] = _append_violations(violation_lists, self._find_violations(refused[place]))
        return numbers, violation_lists

    def find_broken(self, refused: PayloadSpans) -> npt.NDArray[np.bool_]:
        """Return a mask: True for payloads that certainly break a rule. Payloads with equal keys are checked once."""
        is_broken = np.zeros(len(refused), np.bool_)
        for place, key in enumerate(self.read_keys(refused).to_pylist()):
            if key is None:
                is_broken[place] = self._is_broken(refused[place])
            else:
                if key not in self._broken:
                    if len(self._broken) >= _MAX_KEYS:
                        self._broken.clear()
                    self._broken[key] = self._is_broken(refused[place])
                is_broken[place] = self._broken[key]
        return is_broken

    def _is_broken(self, payload: bytes) -> bool:
        if len(payload) > _MAX_PAYLOAD_BYTES:
            return False
        try:
            return not self._schema.allows(parse_json(payload, max_values=MAX_VALUES, exact=True))
        except JSONError:
            return False

    def _remember(self, key: bytes, violations: Violations | None) -> None:
        if len(self._known) >= _MAX_KEYS:
            self._known.clear()
        self._known[key] = violations

    def _find_violations(self, payload: bytes) -> Violations | None:
        if len(payload) > _MAX_PAYLOAD_BYTES:
            return None
        try:
            value = parse_json(payload, exact=True)
        except JSONError:
            return None
        return tuple(self._schema.validate(value)[:MAX_FINDINGS])


_NO_MESSAGE: Final = Message()
# A function from a payload to its rejection, or None if the payload is not rejected.
Judge = Callable[[bytes], Rejected | None]


def build_event_judge(definition: CompiledDefinition, content_type: str) -> Judge:
    """Return the judge of data that is sent as bytes with ``content_type``, of events that fit ``definition``."""
    attributes = {"datacontenttype": content_type} if content_type else {}
    return lambda payload: rejected_payload(_NO_MESSAGE, CloudEvent(attributes=attributes, body=payload), definition)


def find_missing_data_reasons(definition: CompiledDefinition) -> PayloadReasons | None:
    """Return the reasons to reject events that fit a definition but have no data, or None if they are accepted."""
    rejected = rejected_payload(_NO_MESSAGE, CloudEvent(attributes={}), definition)
    return None if rejected is None else PayloadReasons(definition, None, lambda _payload: rejected)


def reject_broken_event(message: bytes) -> Rejected | None:
    """Return the rejection of a message that is not an event in JSON. None for events and for blank lines."""
    try:
        if message and not message.isspace():
            JSON_EVENTS.decode(message)
    except EventError as error:
        return Rejected(message=_NO_MESSAGE, reason=error.reason, violations=error.findings)
    return None


class PayloadReasons:
    """The rejections of refused payloads, of messages whose envelopes fit a definition.

    ``alike`` finds the violations in payloads after ``prefix`` bytes, if it is not ``None``. ``judge`` judges the
    remaining payloads one by one. Without a ``judge``, payloads that are not JSON get no verdict.
    """

    def __init__(
        self, definition: CompiledDefinition, alike: Reasons | None, judge: Judge | None, prefix: int = 0
    ) -> None:
        self._candidates = (definition.xid,)
        self._alike = alike
        self._judge = judge
        self._prefix = prefix

    def of(self, refused: PayloadSpans) -> tuple[Offsets, list[RejectionVerdict]]:
        """Return for each payload the number of its verdict in the returned list, ``NO_VERDICT`` without a verdict."""
        numbers: Offsets = np.full(len(refused), NO_VERDICT, np.int64)
        verdicts: list[RejectionVerdict] = []
        if self._alike is not None:
            numbers, violations = self._alike.of(refused.skip(self._prefix), one_by_one=self._judge is None)
            verdicts = [
                RejectionVerdict(reason=Reason.SCHEMA_VIOLATION, violations=findings, candidates=self._candidates)
                for findings in violations
            ]
        if self._judge is not None:
            apply_judge(self._judge, refused, numbers, verdicts)
        return numbers, verdicts


def apply_judge(judge: Judge, refused: PayloadSpans, numbers: Offsets, verdicts: list[RejectionVerdict]) -> None:
    """Judge the payloads that have ``NO_VERDICT`` in ``numbers`` one by one. Set their numbers and add to ``verdicts``.

    Judging stops early if most payloads conform.
    """
    numbers_by_verdict: dict[Any, int] = {}
    conform = 0
    places = np.flatnonzero(numbers == NO_VERDICT)
    payloads = refused.take(places).to_list()
    for judged, (place, payload) in enumerate(zip(places.tolist(), payloads, strict=True)):
        rejected = judge(payload) if len(payload) <= _MAX_PAYLOAD_BYTES else None
        if rejected is not None:
            number = numbers_by_verdict.setdefault(
                (rejected.reason, rejected.violations, rejected.candidates), len(verdicts)
            )
            if number == len(verdicts):
                verdicts.append(RejectionVerdict.of(rejected))
            numbers[place] = number
            continue
        conform += 1
        # The native module refuses some payloads that conform. The slow path decodes these again anyway.
        if judged >= _TRIED and 2 * conform > judged:
            return


def _append_violations(violation_lists: list[Violations], violations: Violations | None) -> int:
    if not violations:
        return NO_VERDICT
    violation_lists.append(violations)
    return len(violation_lists) - 1


# Reasons by schema. The tasks of a process share them. They are removed together with the schema.
_reasons: Final[WeakKeyDictionary[JsonSchema, Reasons]] = WeakKeyDictionary()


def find_reasons(definition: CompiledDefinition) -> Reasons | None:
    """Return the reasons for payloads of the definition's own schema, or None if there may be other reasons."""
    schema = definition.schema_use.schema
    return None if definition.policy.wire_prefix != "none" else find_schema_reasons(schema, definition.policy)


def find_schema_reasons(schema: Schema | None, policy: Policy) -> Reasons | None:
    """Return the reasons for payloads of ``schema`` without a prefix, or None if there may be other reasons."""
    if not isinstance(schema, JsonSchema):
        return None
    # By other policies, payloads that break their schema land, or are rejected for another reason.
    if policy.on_schema_violation != "dead_letter" or policy.on_duplicate_names != "last":
        return None
    return load_reasons(schema)


def load_reasons(schema: JsonSchema) -> Reasons:
    """Return the cached ``Reasons`` of a schema, and create them at the first call."""
    if schema not in _reasons:
        _reasons[schema] = Reasons(schema)
    return _reasons[schema]


def _build_key_function(schema: JsonSchema) -> Any:
    """Return the native function that gives payloads keys, or None if a rule is about more than one value."""
    if not _ENTANGLED.isdisjoint(_iterate_names(schema.document)):
        return None
    try:
        program = build_json_program(schema)
    except NoPlan:
        return None
    # The native module does not know whether guarded values conform, or why a value of several types does not.
    return None if _is_guarded(program) else native.load_module().JsonFaults(program).keys


def _iterate_names(document: JsonSchemaDocument) -> Iterator[str]:
    """Yield all names in a schema document and its references, keywords or not."""
    waiting: list[JSON] = list(document.documents.values())
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _is_guarded(program: Any) -> bool:
    if isinstance(program, list):
        return any(map(_is_guarded, program))
    return isinstance(program, tuple) and (program[:1] in _APART or any(map(_is_guarded, program)))
