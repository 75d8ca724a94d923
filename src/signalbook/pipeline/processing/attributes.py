"""Check the attributes of many events against CloudEvents and against definitions.

The checks are those of the package ``messages``. Each distinct value, or combination of values that a definition
checks, is checked only once, and the result is cached.
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
from signalbook.messages.matching.fits import MAX_FINDINGS, breach_reason
from signalbook.messages.uritemplates import Template
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import Offsets, build_text_maps
from signalbook.pipeline.processing.batch import IN_JSON, EventBatch, combine, encode_texts, find_firsts, make_dense
from signalbook.pipeline.processing.properties import make_hashable
from signalbook.pipeline.processing.verdicts import RejectionVerdict, Verdicts
from signalbook.values import Finding, canonical_json

# Results that are cached before the cache is emptied: anybody may send any number of values.
_MOST_SOUND_VALUES: Final = 50_000
_MOST_CONTEXTS: Final = 50_000
# The same limit for the bytes of the values that the results are for.
_MOST_KEPT: Final = 16 * 1024 * 1024
_EVENT: Final[dict[str, Any]] = {"specversion": SPECVERSION, "id": "i", "source": "s", "type": "t"}
# The lengths of times in the usual spellings, and the length of the date in them.
_LENGTHS: Final = (20, 24, 27, 30)
_DATE: Final = 10
_PRINTABLE: Final = range(ord(" "), ord("~") + 1)
# The start of the year 1900 in microseconds. Columns with older times are checked value by value.
_ANCIENT: Final = -2_208_988_800_000_000
# If a definition declares these attributes without a value, and with one of these types, only their presence matters.
_PRESENCE: Final = {"id": (None, "string"), "subject": (None, "string"), "time": (None, "timestamp")}
# The prefix that distinguishes the names of protocol properties from the names of attributes.
_PROPERTY: Final = "@"
# Stands for all values that fit a template.
_FITS: Final = object()
# Attributes that matter even if a definition does not declare them, because it may imply a content type (F-32).
_UNDECLARED: Final = frozenset({"datacontenttype"})


class AttributeChecks:
    """The checks of attribute values by the rules of CloudEvents (K-24).

    With ``all_events``, a message without a required attribute is an invalid event. Otherwise it is not an event.
    """

    def __init__(self, *, all_events: bool) -> None:
        self._all_events = all_events
        self._sound: dict[str, set[Any]] = {}

    def find_doubtful(self, batch: EventBatch, verdicts: Verdicts) -> npt.NDArray[np.bool_]:
        """Return a mask: True for events with an attribute that may be invalid, or JSON data of another content type.

        Known violations are added to ``verdicts``.
        """
        doubtful, invalid_values = np.zeros(len(batch), np.bool_), dict[str, tuple[Offsets, list[Any]]]()
        for name, codes, values in _encode_checked_attributes(batch):
            bad = self._find_unsound(name, values)
            if bad.any():
                invalid_values[name] = np.where(bad, np.arange(1, len(bad) + 1), 0)[codes], values
            if name == "datacontenttype":
                other = np.array([value is not None and not is_json(value) for value in values], np.bool_)[codes]
                doubtful |= other if batch.forms is None else other & (batch.forms == IN_JSON)
        missing = batch.missing
        unsound = missing > 0
        for numbers, _ in invalid_values.values():
            unsound |= numbers > 0
        if unsound.any():
            judged = unsound if self._all_events else unsound & (missing == 0)
            _reject_invalid(batch, np.flatnonzero(judged), missing, invalid_values, verdicts)
        return doubtful | unsound

    def _find_unsound(self, name: str, values: list[Any]) -> npt.NDArray[np.bool_]:
        sound_values = self._sound.setdefault(name, {None})
        sound_values |= {
            value for value in set(values) - sound_values if not find_invalid_attributes({**_EVENT, name: value})
        }
        bad = np.fromiter((value not in sound_values for value in values), np.bool_, len(values))
        if len(sound_values) > _MOST_SOUND_VALUES:
            self._sound[name] = {None}
        return bad


def _encode_checked_attributes(batch: EventBatch) -> Iterator[tuple[str, Offsets, list[Any]]]:
    """Yield the attributes with values to check, the number of each event's value, and the values by number."""
    if batch.versions is not None:
        yield "specversion", *encode_texts(batch.versions)
    for name, array in batch.attributes.items():
        if array.null_count < len(array) and not (name in _PLAIN and _PLAIN[name](batch)):
            yield name, *batch.encode_attribute(name)
    for name in batch.extensions:
        yield name, *batch.encode_attribute(name)


def _reject_invalid(
    batch: EventBatch,
    events: Offsets,
    missing: Offsets,
    invalid_values: Mapping[str, tuple[Offsets, list[Any]]],
    verdicts: Verdicts,
) -> None:
    """Reject ``events`` for missing or invalid attributes. Events with the same problems are checked once.

    ``missing`` is ``EventBatch.missing``. ``invalid_values`` has for each attribute the number of each event's
    invalid value, counted from 1 (0: the value is valid), and the values.
    """
    combined, count = make_dense(missing[events], 1 << len(REQUIRED))
    several = np.full(len(events), -1)
    for numbers, values in invalid_values.values():
        combined, count = make_dense(combined * (len(values) + 1) + numbers[events], count * (len(values) + 1))
        several += numbers[events] > 0
    # Violations are listed in the order of the message, which columns do not have. So the message is read for each
    # event with several invalid attributes.
    orders: dict[tuple[str, ...], int] = {tuple(invalid_values): 0}
    codes = np.zeros(len(events), np.int64)
    for place in np.flatnonzero(several > 0).tolist():
        order = tuple(name for name in batch.order(int(events[place])) if name in invalid_values)
        codes[place] = orders.setdefault(order, len(orders))
    combined, count = make_dense(combined * len(orders) + codes, count * len(orders))
    samples, names = find_firsts(combined, count), list(orders)
    rejections = []
    for place in samples.tolist():
        event, order = events[place], names[codes[place]]
        invalid_attributes = {
            name: invalid_values[name][1][invalid_values[name][0][event] - 1]
            for name in order
            if invalid_values[name][0][event]
        }
        present = {name for bit, name in enumerate(REQUIRED) if not missing[event] >> bit & 1}
        attributes = invalid_attributes | {name: _EVENT[name] for name in present if name not in invalid_attributes}
        violations = tuple(find_invalid_attributes(attributes))
        rejections.append(RejectionVerdict(reason=Reason.INVALID_CLOUDEVENT, violations=violations))
    verdicts.assign(events, combined, rejections)


def _is_plain_text(texts: pa.StringArray) -> bool:
    """Return True if all texts are printable ASCII, and none is empty."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if pc.min(pc.binary_length(texts)).as_py() == 0:
        return False
    characters = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return bool(characters.min(initial=_PRINTABLE[0]) >= _PRINTABLE[0] and characters.max(initial=0) <= _PRINTABLE[-1])


def _are_plain_times(batch: EventBatch) -> bool:
    """Return True if all times are like ``2026-01-02T03:04:05Z``, or have 3, 6 or 9 decimals of a second in addition.

    Arrow reads a few spellings that RFC 3339 does not have. These lengths, with T and Z in their places, exclude them.
    Times before 1900 make the result False.
    """
    texts, times = batch.attributes["time"], batch.times
    if times is None or pc.min(times.cast(pa.int64())).as_py() <= _ANCIENT:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    places, lengths = offsets[:-1], np.diff(offsets)
    if texts.null_count:
        present = texts.is_valid().to_numpy(zero_copy_only=False)
        places, lengths = places[present], lengths[present]
    if not np.isin(lengths, _LENGTHS).all():
        return False
    characters = np.frombuffer(texts.buffers()[2], np.uint8)
    return bool((characters[places + _DATE] == ord("T")).all() and (characters[places + lengths - 1] == ord("Z")).all())


# Quick checks of a whole column, which must not be all null. True: all values are valid. False: each must be checked.
_PLAIN: Final[Mapping[str, Callable[[EventBatch], bool]]] = {
    "id": lambda batch: _is_plain_text(batch.attributes["id"]),
    "subject": lambda batch: _is_plain_text(batch.attributes["subject"]),
    "time": _are_plain_times,
}


def build_checks_key(definition: CompiledDefinition) -> bytes:
    """Return a key that is equal for definitions if one ``EnvelopeChecks`` can check the messages of all of them."""
    raw = definition.definition
    metadata = {name: entry for name, entry in (raw.get("envelopemetadata") or {}).items() if name != "type"}
    stated = raw.get("datacontenttype"), raw.get("dataschemaformat"), raw.get("protocol"), raw.get("protocoloptions")
    # Whether options for delivery are checked depends on the policy, so the options that are checked are needed, too.
    return canonical_json([metadata, *stated, definition.payload_type, sorted(definition.options)])


def _find_free_templates(definition: CompiledDefinition, properties: Collection[str]) -> Mapping[str, Template]:
    """Return the templates with a single placeholder that no other template has. Only these are matched as columns.

    Templates of the protocol's ``properties`` are included, by names with the prefix ``_PROPERTY``.
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


def _select_texts(batch: EventBatch, name: str, events: Offsets) -> pa.StringArray | None:
    """Return the events' values of an attribute or property as texts.

    Return ``None`` if some values of the attribute are not texts, or if no event has it.
    """
    if name.startswith(_PROPERTY):
        return batch.select_property_texts(name.removeprefix(_PROPERTY), events)
    if name in batch.attributes:
        return batch.attributes[name].take(pa.array(events))
    column = batch.extensions.get(name)
    return None if column is None or column.kinds is not None else column.texts.take(pa.array(events))


def _capture_placeholder(template: Template, texts: pa.StringArray) -> pa.StringArray:
    """Return the values of a template's only placeholder in ``texts``, like ``Template.match``.

    The result is null for texts that do not match, and for values that have to be percent-decoded.
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
    """A numbered list of violations of envelopes, without duplicates, because most invalid events are alike."""

    def __init__(self) -> None:
        self.by_number: list[tuple[Finding, ...]] = []
        self._numbers: dict[tuple[Finding, ...], int] = {}

    def assign_number(self, findings: tuple[Finding, ...]) -> int:
        """Return the number of ``findings``, which are added to the list if they are new."""
        number = self._numbers.setdefault(findings, len(self.by_number))
        if number == len(self.by_number):
            self.by_number.append(findings)
        return number


def _estimate_size(value: Any) -> int:
    """Return the approximate size in bytes of ``value``, a key of the cache of results."""
    if isinstance(value, tuple):
        return sum(map(_estimate_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 1


class EnvelopeChecks:
    """The checks of envelopes against a definition, which also find the values of its placeholders (K-34).

    ``type`` is the type of all events. ``properties`` are the names of protocol properties that are checked, too.
    """

    def __init__(self, definition: CompiledDefinition, type: str, properties: Collection[str] = ()) -> None:
        self._properties = sorted(properties)
        self._definition = definition
        self._type = type
        self._declared: Mapping[str, Any] = definition.definition.get("envelopemetadata") or {}
        self._names = {*self._declared, *_UNDECLARED}
        self._templates = _find_free_templates(definition, properties)
        self._forget()

    def _forget(self) -> None:
        # Contexts by number, as a column for each placeholder. Violations of events without a context, by numbers
        # below zero. Both kinds of numbers by the names of the attributes that matter, and by their values.
        self._count = self._kept = 0
        self._contexts: dict[str, pa.StringArray] = {}
        self._breaches = _Breaches()
        self._numbers: dict[tuple[str, ...], dict[Any, int]] = {}

    def number_contexts(self, batch: EventBatch, events: Offsets) -> Offsets:
        """Return the number of each event's context, or a number below zero if it does not fit the definition."""
        # results for events that do not fit are cached, too
        if self._kept > _MOST_KEPT or sum(map(len, self._numbers.values())) > _MOST_CONTEXTS:
            self._forget()
        # The attributes that matter may change from batch to batch, so their names are part of the key of the cache.
        names, keys, firsts, inverse = self._find_distinct(batch, events)
        numbers_by_key = self._numbers.setdefault(names, {})
        fresh: list[Mapping[str, str | None]] = []
        for key, first in zip(keys, firsts, strict=True):
            if key not in numbers_by_key:
                self._kept += _estimate_size(key)
                context, breach = self._check_event(batch, int(first))
                if breach:
                    numbers_by_key[key] = -1 - self._breaches.assign_number(breach)
                else:
                    numbers_by_key[key] = self._count + len(fresh)
                    fitting = [name for name, value in zip(names, key, strict=True) if value is _FITS]
                    fresh.append(context | {self._templates[name].names[0]: None for name in fitting})
        self._add(fresh)
        numbers: Offsets = np.array([numbers_by_key[key] for key in keys], np.int64)[inverse]
        return numbers

    def build_verdict(self, number: int, definition: CompiledDefinition) -> RejectionVerdict:
        """Return the verdict on events that do not fit ``definition``: ``number`` is below zero."""
        findings = self._breaches.by_number[-1 - number]
        return RejectionVerdict(
            reason=breach_reason(findings), violations=findings[:MAX_FINDINGS], candidates=(definition.xid,)
        )

    def _add(self, fresh: list[Mapping[str, str | None]]) -> None:
        for name in dict.fromkeys([*self._contexts, *(name for context in fresh for name in context)]):
            earlier = self._contexts.get(name, pa.nulls(self._count, pa.string()))
            values = pa.array([context.get(name) for context in fresh], pa.string())
            self._contexts[name] = pa.concat_arrays([earlier, values])
        self._count += len(fresh)

    def build_maps(self, batch: EventBatch, events: Offsets, numbers: Offsets) -> pa.Array:
        """Return the contexts of ``events`` as a ``columns.TEXT_MAP``. ``numbers`` are from ``number_contexts``."""
        if not self._contexts or not len(events):
            return pa.nulls(len(numbers), columns.TEXT_MAP)
        indices = pa.array(numbers)
        values_by_name = {name: values.take(indices) for name, values in self._contexts.items()}
        for name, template in self._templates.items():
            if (texts := _select_texts(batch, name, events)) is not None:
                captured, placeholder = _capture_placeholder(template, texts), template.names[0]
                stated = values_by_name.get(placeholder)
                values_by_name[placeholder] = captured if stated is None else pc.coalesce(captured, stated)
        return build_text_maps(values_by_name)

    def _find_distinct(self, batch: EventBatch, events: Offsets) -> tuple[tuple[str, ...], list[Any], Offsets, Offsets]:
        """Return distinct combinations of the values of the attributes and properties that matter.

        The parts are: the names, the combinations of values, one event with each combination, and for each event the
        number of its combination.
        """
        parts: dict[str, tuple[Offsets, list[Any]]] = {}
        for name in (*batch.attributes, *batch.extensions):
            part = self._encode_attribute(batch, name, events)
            if part is not None:
                parts[name] = part
        for name in self._properties:
            parts[_PROPERTY + name] = self._encode_property(batch, name, events)
        combined, count = combine(parts.values(), len(events))
        samples = find_firsts(combined, count)
        columns = [[values[code] for code in codes[samples].tolist()] for codes, values in parts.values()]
        keys = list(zip(*columns, strict=True)) if columns else [()]
        return tuple(parts), keys, events[samples], combined

    def _encode_attribute(self, batch: EventBatch, name: str, events: Offsets) -> tuple[Offsets, list[Any]] | None:
        """Return the code of each event's value of an attribute, and values by code. ``None`` if it does not matter."""
        if name == "type" or (name not in self._declared and name not in _UNDECLARED):
            return None
        texts = _select_texts(batch, name, events) if name in self._templates else None
        if texts is not None:
            odd = ~self._match_template(name, texts)
            codes = odd.astype(np.int64)
            inner, values = encode_texts(texts.filter(pa.array(odd)))
            codes[odd] += inner
            return codes, [_FITS, *values]
        if name in batch.extensions:
            codes, values = batch.encode_attribute(name)
            return codes[events], [(value.__class__, value) for value in values]  # because True == 1
        if not self._is_presence(name):
            codes, values = batch.encode_attribute(name)
            return codes[events], values
        if not batch.attributes[name].null_count:
            return None
        absent = batch.attributes[name].take(pa.array(events)).is_null()
        return (absent.cast(pa.int64()).to_numpy(), [False, True]) if absent.true_count else None

    def _encode_property(self, batch: EventBatch, name: str, events: Offsets) -> tuple[Offsets, list[Any]]:
        """Return the code of each event's value of a protocol property, and the values by code, made hashable."""
        codes, values = batch.encode_property(name)
        codes, keys = codes[events], list(map(make_hashable, values))
        key = _PROPERTY + name
        if key not in self._templates:
            return codes, keys
        fits = self._match_template(key, batch.select_property_texts(name, events))
        return np.where(fits, len(keys), codes), [*keys, _FITS]

    def _match_template(self, name: str, texts: pa.StringArray) -> npt.NDArray[np.bool_]:
        """Return a mask: True for texts that certainly match the template called ``name``."""
        matches: npt.NDArray[np.bool_] = (
            _capture_placeholder(self._templates[name], texts).is_valid().to_numpy(zero_copy_only=False)
        )
        return matches

    def _is_presence(self, name: str) -> bool:
        declared = self._declared.get(name) or {}
        return name in _PRESENCE and declared.get("value") is None and declared.get("type") in _PRESENCE[name]

    def _read_properties(self, batch: EventBatch, number: int) -> dict[str, Any]:
        """Return the values of the checked protocol properties of one event. Properties that it lacks are left out."""
        columns = ((name, *batch.encode_property(name)) for name in self._properties)
        return {name: values[codes[number]] for name, codes, values in columns if values[codes[number]] is not None}

    def _check_event(self, batch: EventBatch, number: int) -> tuple[dict[str, str], tuple[Finding, ...]]:
        """Return the context of one event, and the violations of its attributes and properties."""
        context: dict[str, str] = {}
        attributes, place = batch.collect_attributes(number, self._names), self._read_properties(batch, number)
        findings = self._definition.check_event({**attributes, "specversion": SPECVERSION, "type": self._type}, context)
        checks = self._definition.protocol_checks if self._properties else ()
        return context, (*findings, *(finding for check in checks if (finding := check(place, context)) is not None))


def has_own_schema(batch: EventBatch, definition: CompiledDefinition, events: Offsets) -> npt.NDArray[np.bool_]:
    """Return a mask: True for events whose ``dataschema`` is the definition's own schema, or is missing (K-39)."""
    array = batch.attributes["dataschema"]
    if array.null_count == len(array):
        return np.ones(len(events), np.bool_)
    codes, names = batch.encode_attribute("dataschema")
    use, schema_for = definition.schema_use, definition.schema_for
    mine, places = np.unique(codes[events], return_inverse=True)
    schema_names = [names[code] for code in mine.tolist()]
    # Identity, not equality: another Version with the same text still has other columns, which the slow path resolves.
    is_own = np.array([name is None or schema_for(name) is use for name in schema_names], np.bool_)
    has_own: npt.NDArray[np.bool_] = is_own[places]
    return has_own
