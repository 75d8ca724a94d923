"""Attributes of many events, held to what CloudEvents and definitions ask of them.

They are held to the checks of ``messages``, but each distinct value, or combination of values that a definition looks
at, is asked about once, and the answer remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats.base import is_json
from signalbook.messages import CompiledDefinition, Reason
from signalbook.messages.cloudevents import REQUIRED, SPECVERSION, find_invalid_attributes
from signalbook.messages.matching.matching import MAX_FINDINGS, breach_reason
from signalbook.messages.uritemplates import Template
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import text_maps
from signalbook.pipeline.fastpath.batch import IN_JSON, EventBatch, combine, dense, firsts, text_codes
from signalbook.pipeline.fastpath.properties import hashable
from signalbook.pipeline.fastpath.verdicts import RejectionVerdict, Verdicts
from signalbook.pipeline.sources.base import Offsets
from signalbook.values import Finding, canonical_json

# Answers that are kept, before all are forgotten: anybody may send any number of values.
_MOST_SOUND_VALUES: Final = 50_000
_MOST_CONTEXTS: Final = 50_000
# And bytes of the values that they are of.
_MOST_KEPT: Final = 16 * 1024 * 1024
_EVENT: Final[dict[str, Any]] = {"specversion": SPECVERSION, "id": "i", "source": "s", "type": "t"}
# Lengths of times, and that of the date in them.
_LENGTHS: Final = (20, 24, 27, 30)
_DATE: Final = 10
_PRINTABLE: Final = range(ord(" "), ord("~") + 1)
# The start of the year 1900 in microseconds; whatever is older gets a closer look.
_ANCIENT: Final = -2_208_988_800_000_000
# Attributes of which a definition without a value for them asks no more than whether they are there.
_PRESENCE: Final = {"id": (None, "string"), "subject": (None, "string"), "time": (None, "timestamp")}
# Before the names of properties of the protocol, so that they are none of attributes.
_PROPERTY: Final = "@"
# Stands for all values that fit a template.
_FITS: Final = object()
# Attributes that decide without being declared: a content type may be implied (F-32).
_UNDECLARED: Final = frozenset({"datacontenttype"})


class AttributeChecks:
    """Soundness of attribute values (K-24). With ``all_events`` what lacks one that all have is one, too."""

    def __init__(self, *, all_events: bool) -> None:
        self._all_events = all_events
        self._sound: dict[str, set[Any]] = {}

    def doubtful(self, batch: EventBatch, verdicts: Verdicts) -> npt.NDArray[np.bool_]:
        """Return which events have an attribute that may be invalid. ``verdicts`` get the known violations."""
        doubtful, faults = np.zeros(len(batch), np.bool_), dict[str, tuple[Offsets, list[Any]]]()
        for name, codes, values in _looked_at(batch):
            bad = self._bad(name, values)
            if bad.any():
                faults[name] = np.where(bad, np.arange(1, len(bad) + 1), 0)[codes], values
            if name == "datacontenttype":
                other = np.array([value is not None and not is_json(value) for value in values], np.bool_)[codes]
                doubtful |= other if batch.forms is None else other & (batch.forms == IN_JSON)
        missing = lacking(batch)
        unsound = missing > 0
        for numbers, _ in faults.values():
            unsound |= numbers > 0
        if unsound.any():
            asked = unsound if self._all_events else unsound & (missing == 0)
            _judge(batch, np.flatnonzero(asked), missing, faults, verdicts)
        return doubtful | unsound

    def _bad(self, name: str, values: list[Any]) -> npt.NDArray[np.bool_]:
        known = self._sound.setdefault(name, {None})
        known |= {value for value in set(values) - known if not find_invalid_attributes({**_EVENT, name: value})}
        bad = np.fromiter((value not in known for value in values), np.bool_, len(values))
        if len(known) > _MOST_SOUND_VALUES:
            self._sound[name] = {None}
        return bad


def _looked_at(batch: EventBatch) -> Iterator[tuple[str, Offsets, list[Any]]]:
    """Attributes whose values have to be looked at, with the number of each event's value, and values by number."""
    if batch.versions is not None:
        yield "specversion", *text_codes(batch.versions)
    for name, array in batch.attributes.items():
        if array.null_count < len(array) and not (name in _PLAIN and _PLAIN[name](batch)):
            yield name, *batch.codes(name)
    for name in batch.extensions:
        yield name, *batch.codes(name)


def lacking(batch: EventBatch) -> Offsets:
    """Return the required attributes that each event lacks, as bits in the order of ``REQUIRED``."""
    found = np.zeros(len(batch), np.int64)
    for place, name in enumerate(REQUIRED):
        array = batch.attributes.get(name, batch.versions)
        if array is not None and array.null_count:
            found |= array.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << place
    return found


def _judge(
    batch: EventBatch,
    events: Offsets,
    missing: Offsets,
    faults: Mapping[str, tuple[Offsets, list[Any]]],
    verdicts: Verdicts,
) -> None:
    """Say of events which attributes they lack and which are invalid, asked once for those that share all that.

    ``faults`` are by attribute for each event the number of its invalid value, 0 where it has none, and the values.
    """
    combined, count = dense(missing[events], 1 << len(REQUIRED))
    several = np.full(len(events), -1)
    for numbers, values in faults.values():
        combined, count = dense(combined * (len(values) + 1) + numbers[events], count * (len(values) + 1))
        several += numbers[events] > 0
    # What is invalid is said in the order of the message, which columns do not have: of several each is looked at.
    orders: dict[tuple[str, ...], int] = {tuple(faults): 0}
    codes = np.zeros(len(events), np.int64)
    for place in np.flatnonzero(several > 0).tolist():
        order = tuple(name for name in batch.order(int(events[place])) if name in faults)
        codes[place] = orders.setdefault(order, len(orders))
    combined, count = dense(combined * len(orders) + codes, count * len(orders))
    samples, names = firsts(combined, count), list(orders)
    said = []
    for place in samples.tolist():
        event, order = events[place], names[codes[place]]
        found = {name: faults[name][1][faults[name][0][event] - 1] for name in order if faults[name][0][event]}
        there = {name for bit, name in enumerate(REQUIRED) if not missing[event] >> bit & 1}
        attributes = found | {name: _EVENT[name] for name in there if name not in found}
        violations = tuple(find_invalid_attributes(attributes))
        said.append(RejectionVerdict(reason=Reason.INVALID_CLOUDEVENT, violations=violations))
    verdicts.say(events, combined, said)


def _plain_text(texts: pa.StringArray) -> bool:
    """Return True if all texts are printable ASCII, and none is empty."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if pc.min(pc.binary_length(texts)).as_py() == 0:
        return False
    found = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return bool(found.min(initial=_PRINTABLE[0]) >= _PRINTABLE[0] and found.max(initial=0) <= _PRINTABLE[-1])


def _plain_times(batch: EventBatch) -> bool:
    """Return True if all times are like ``2026-01-02T03:04:05Z``, with 3, 6 or 9 more digits at most.

    Arrow reads a few spellings that RFC 3339 does not have. These lengths, with T and Z in their places, exclude them.
    """
    texts, times = batch.attributes["time"], batch.times
    if times is None or pc.min(times.cast(pa.int64())).as_py() <= _ANCIENT:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    places, lengths = offsets[:-1], np.diff(offsets)
    if texts.null_count:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        places, lengths = places[there], lengths[there]
    if not np.isin(lengths, _LENGTHS).all():
        return False
    found = np.frombuffer(texts.buffers()[2], np.uint8)
    return bool((found[places + _DATE] == ord("T")).all() and (found[places + lengths - 1] == ord("Z")).all())


# A look at a whole column, which is not all null, that may settle it; what it does not is looked at value by value.
_PLAIN: Final[Mapping[str, Callable[[EventBatch], bool]]] = {
    "id": lambda batch: _plain_text(batch.attributes["id"]),
    "subject": lambda batch: _plain_text(batch.attributes["subject"]),
    "time": _plain_times,
}


def demands(definition: CompiledDefinition) -> bytes:
    """Equal for definitions that a ``EnvelopeChecks`` of one answers for, in one source."""
    raw = definition.definition
    metadata = {name: entry for name, entry in (raw.get("envelopemetadata") or {}).items() if name != "type"}
    stated = raw.get("datacontenttype"), raw.get("dataschemaformat"), raw.get("protocol"), raw.get("protocoloptions")
    return canonical_json([metadata, *stated, definition.payload_type])


def _free_templates(definition: CompiledDefinition, properties: Collection[str]) -> Mapping[str, Template]:
    """The templates with one placeholder that no other one has: nothing else makes a difference.

    Those of properties of the protocol, where these are looked at, are by names that no attribute has.
    """
    options = {
        _PROPERTY + name: template for name, template in definition.protocol_templates.items() if name in properties
    }
    templates = {**definition.event_templates, **options}
    uses = Counter(name for template in templates.values() for name in template.names)
    return {
        name: template
        for name, template in templates.items()
        if name not in _UNDECLARED and [uses[placeholder] for placeholder in template.names] == [1]
    }


def _texts(batch: EventBatch, name: str, events: Offsets) -> pa.StringArray | None:
    """The values that events have of an attribute or property, unless some of an attribute are no texts."""
    if name.startswith(_PROPERTY):
        return batch.property_texts(name.removeprefix(_PROPERTY), events)
    if name in batch.attributes:
        return batch.attributes[name].take(pa.array(events))
    column = batch.extensions.get(name)
    return None if column is None or column.kinds is not None else column.texts.take(pa.array(events))


def _captured(template: Template, texts: pa.StringArray) -> pa.StringArray:
    """Return the values of a template's one placeholder in texts, like ``Template.match``.

    Null for texts that do not match, and for percent-encoded values.
    """
    first, last = template.literals
    fits = pc.and_(pc.starts_with(texts, first), pc.ends_with(texts, last))
    fits = pc.and_(fits, pc.greater(pc.utf8_length(texts), len(first) + len(last)))
    inner = pc.utf8_slice_codeunits(texts, len(first), -len(last) if last else None)
    barred = [] if template.whole else [template.separator]
    for text in [*barred, "%"] if template.encoded else barred:
        fits = pc.and_not(fits, pc.match_substring(inner, text))
    return pc.if_else(fits, inner, pa.scalar(None, pa.string()))


class _Breaches:
    """The violations of envelopes, each once, because most events break a rule as others do."""

    def __init__(self) -> None:
        self.found: list[tuple[Finding, ...]] = []
        self._numbers: dict[tuple[Finding, ...], int] = {}

    def number(self, findings: tuple[Finding, ...]) -> int:
        """The place of these."""
        number = self._numbers.setdefault(findings, len(self.found))
        if number == len(self.found):
            self.found.append(findings)
        return number


def _length(value: Any) -> int:
    """About how much memory a value takes that answers are kept by."""
    if isinstance(value, tuple):
        return sum(map(_length, value))
    return len(value) if isinstance(value, (str, bytes)) else 1


class EnvelopeChecks:
    """Holds envelopes of known type to a definition, and finds what stands for its placeholders (K-34).

    ``properties`` are those of the protocol that are looked at as well.
    """

    def __init__(self, definition: CompiledDefinition, type: str, properties: Collection[str] = ()) -> None:
        self._properties = sorted(properties)
        self._definition = definition
        self._type = type
        self._declared: Mapping[str, Any] = definition.definition.get("envelopemetadata") or {}
        self._names = {*self._declared, *_UNDECLARED}
        self._templates = _free_templates(definition, properties)
        self._forget()

    def _forget(self) -> None:
        # contexts by number, as a column for each placeholder, what is wrong with those that have none, by numbers
        # below zero, and numbers by the attributes that make a difference and their values
        self._count = self._kept = 0
        self._contexts: dict[str, pa.StringArray] = {}
        self._breaches = _Breaches()
        self._numbers: dict[tuple[str, ...], dict[Any, int]] = {}

    def numbers(self, batch: EventBatch, events: Offsets) -> Offsets:
        """Return the number of each event's context, or one below zero if the event does not fit the definition."""
        # those without a match are kept too
        if self._kept > _MOST_KEPT or sum(map(len, self._numbers.values())) > _MOST_CONTEXTS:
            self._forget()
        # Which attributes make a difference may change from batch to batch, so that answers are filed under their names
        # too.
        names, keys, firsts, inverse = self._distinct(batch, events)
        known = self._numbers.setdefault(names, {})
        fresh: list[Mapping[str, str | None]] = []
        for key, first in zip(keys, firsts, strict=True):
            if key not in known:
                self._kept += _length(key)
                context, breach = self._ask(batch, int(first))
                if breach:
                    known[key] = -1 - self._breaches.number(breach)
                else:
                    known[key] = self._count + len(fresh)
                    fitting = [name for name, value in zip(names, key, strict=True) if value is _FITS]
                    fresh.append(context | {self._templates[name].names[0]: None for name in fitting})
        self._add(fresh)
        found: Offsets = np.array([known[key] for key in keys], np.int64)[inverse]
        return found

    def verdict(self, number: int, definition: CompiledDefinition) -> RejectionVerdict:
        """Return the verdict on events of a checked definition with a number below zero."""
        findings = self._breaches.found[-1 - number]
        return RejectionVerdict(
            reason=breach_reason(findings), violations=findings[:MAX_FINDINGS], candidates=(definition.xid,)
        )

    def _add(self, fresh: list[Mapping[str, str | None]]) -> None:
        for name in dict.fromkeys([*self._contexts, *(name for context in fresh for name in context)]):
            known = self._contexts.get(name, pa.nulls(self._count, pa.string()))
            values = pa.array([context.get(name) for context in fresh], pa.string())
            self._contexts[name] = pa.concat_arrays([known, values])
        self._count += len(fresh)

    def maps(self, batch: EventBatch, events: Offsets, numbers: Offsets) -> pa.Array:
        """The contexts of these events, which have these numbers, as a ``columns.TEXT_MAP``."""
        if not self._contexts or not len(events):
            return pa.nulls(len(numbers), columns.TEXT_MAP)
        taken = pa.array(numbers)
        found = {name: values.take(taken) for name, values in self._contexts.items()}
        for name, template in self._templates.items():
            if (texts := _texts(batch, name, events)) is not None:
                captured, placeholder = _captured(template, texts), template.names[0]
                known = found.get(placeholder)
                found[placeholder] = captured if known is None else pc.coalesce(captured, known)
        return text_maps(found)

    def _distinct(self, batch: EventBatch, events: Offsets) -> tuple[tuple[str, ...], list[Any], Offsets, Offsets]:
        """Return attribute names, their distinct values, an event with each, and the number of each event's values."""
        parts: dict[str, tuple[Offsets, list[Any]]] = {}
        for name in (*batch.attributes, *batch.extensions):
            part = self._part(batch, name, events)
            if part is not None:
                parts[name] = part
        for name in self._properties:
            parts[_PROPERTY + name] = self._property(batch, name, events)
        combined, count = combine(parts.values(), len(events))
        samples = firsts(combined, count)
        columns = [[values[code] for code in codes[samples].tolist()] for codes, values in parts.values()]
        keys = list(zip(*columns, strict=True)) if columns else [()]
        return tuple(parts), keys, events[samples], combined

    def _part(self, batch: EventBatch, name: str, events: Offsets) -> tuple[Offsets, list[Any]] | None:
        """Return codes and values of an attribute for the checks, or ``None`` if it makes no difference."""
        if name == "type" or (name not in self._declared and name not in _UNDECLARED):
            return None
        texts = _texts(batch, name, events) if name in self._templates else None
        if texts is not None:
            odd = ~self._fits(name, texts)
            codes = odd.astype(np.int64)
            inner, values = text_codes(texts.filter(pa.array(odd)))
            codes[odd] += inner
            return codes, [_FITS, *values]
        if name in batch.extensions:
            codes, values = batch.codes(name)
            return codes[events], [(value.__class__, value) for value in values]  # for True == 1
        if not self._is_presence(name):
            codes, values = batch.codes(name)
            return codes[events], values
        if not batch.attributes[name].null_count:
            return None
        absent = batch.attributes[name].take(pa.array(events)).is_null()
        return (absent.cast(pa.int64()).to_numpy(), [False, True]) if absent.true_count else None

    def _property(self, batch: EventBatch, name: str, events: Offsets) -> tuple[Offsets, list[Any]]:
        """The same of a property of the protocol."""
        codes, values = batch.property(name)
        codes, keys = codes[events], list(map(hashable, values))
        key = _PROPERTY + name
        if key not in self._templates:
            return codes, keys
        fits = self._fits(key, batch.property_texts(name, events))
        return np.where(fits, len(keys), codes), [*keys, _FITS]

    def _fits(self, name: str, texts: pa.StringArray) -> npt.NDArray[np.bool_]:
        """Return which texts certainly match the template of that name."""
        found: npt.NDArray[np.bool_] = _captured(self._templates[name], texts).is_valid().to_numpy(zero_copy_only=False)
        return found

    def _is_presence(self, name: str) -> bool:
        declared = self._declared.get(name) or {}
        return name in _PRESENCE and declared.get("value") is None and declared.get("type") in _PRESENCE[name]

    def _place(self, batch: EventBatch, number: int) -> dict[str, Any]:
        """The protocol's properties that are looked at, of one event, those that it has."""
        columns = ((name, *batch.property(name)) for name in self._properties)
        return {name: values[codes[number]] for name, codes, values in columns if values[codes[number]] is not None}

    def _ask(self, batch: EventBatch, number: int) -> tuple[dict[str, str], tuple[Finding, ...]]:
        """The context of one event, and what is wrong with its attributes."""
        context: dict[str, str] = {}
        attributes, place = batch.attributes_of(number, self._names), self._place(batch, number)
        found = self._definition.check_event({**attributes, "specversion": SPECVERSION, "type": self._type}, context)
        checks = self._definition.protocol_checks if self._properties else ()
        return context, (*found, *(each for check in checks if (each := check(place, context)) is not None))
