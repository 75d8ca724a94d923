"""Index subscriptions by their interest, to find those that may want an event without testing each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from signalbook.events import filters
from signalbook.events.dialects import EventDialect, of_source
from signalbook.events.filters import Event, Filter
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.values import JSON

_INDEXED: Final = ("subject", "type")
"""The attributes that every event has, as strings."""


class EventKey(NamedTuple):
    """A condition on events: ``attribute`` equals ``value``, or begins with it if not ``exact``."""

    attribute: str
    exact: bool
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """The events for which ``wants`` returns True.

    Each of them has one of ``keys``; None means that no keys are known.
    """

    wants: Filter
    keys: frozenset[EventKey] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSelection:
    """The events of the outbox for a subscription: those in one API's ``dialect`` that match its ``interest``."""

    dialect: EventDialect
    interest: Interest


def select(subscription: Subscription, root: str) -> EventSelection:
    """Return the selection of a subscription. Raises ``SignalbookError``.

    ``root`` is the registry's URL if the subscription names no other.
    """
    events_of_interest = interest(subscription)
    root = subscription.root or root
    dialect = of_source(subscription.source, root)
    if dialect is None:
        raise SubscriptionError(f"/source: {subscription.source} is not of this registry, which is {root}")
    return EventSelection(dialect=dialect, interest=events_of_interest)


def interest(subscription: Subscription) -> Interest:
    """Return the interest of a subscription in the events of its source (D-28, D-29). Raises ``FilterError``."""
    types = frozenset(subscription.types)
    passes = filters.parse(list(subscription.filters))

    def wants(event: Event) -> bool:
        return (not types or event["type"] in types) and passes(event)

    choices = [_find_keys(entry) for entry in subscription.filters]
    if types:
        choices.append(frozenset(EventKey("type", True, entry) for entry in types))
    return Interest(wants=wants, keys=_choose_narrowest(choices))


def _find_keys(filter: JSON) -> frozenset[EventKey] | None:
    """Return the keys of a filter expression that is known to be well-formed."""
    ((dialect, content),) = filter.items()
    if dialect in ("exact", "prefix"):
        pairs = [EventKey(name, dialect == "exact", content[name]) for name in _INDEXED if name in content]
        return _choose_narrowest(frozenset([pair]) for pair in pairs)
    if dialect == "all":
        return _choose_narrowest(_find_keys(member) for member in content)
    if dialect == "any":
        members = [_find_keys(member) for member in content]
        key_sets = [keys for keys in members if keys is not None]
        return frozenset().union(*key_sets) if len(key_sets) == len(members) else None
    return None


def _choose_narrowest(choices: Iterable[frozenset[EventKey] | None]) -> frozenset[EventKey] | None:
    """Return the choice whose widest key is the narrowest, or None if no choice has keys.

    All choices hold for the same events, so any of them finds all events.
    """
    key_sets = [keys for keys in choices if keys]
    # The members of one choice are alternatives, so its widest key says how many events it lets in.
    return max(key_sets, key=lambda keys: min(map(_rank, keys)), default=None)


def _rank(key: EventKey) -> tuple[bool, bool, int]:
    return (key.attribute == "subject", key.exact, len(key.value))


T = TypeVar("T")


class InterestIndex(Generic[T]):
    """An index of members by the keys of events they want.

    Finding the members for an event takes one lookup for each length of prefix in the index, plus the members found.
    """

    def __init__(self) -> None:
        # Dictionaries without values are sets that keep their order.
        self._always: dict[T, None] = {}
        # By attribute and length of the prefix, 0 for whole values; then by value.
        self._places: dict[tuple[str, int], dict[str, dict[T, None]]] = {}

    def add(self, member: T, keys: frozenset[EventKey] | None) -> None:
        """Index ``member`` for events with one of ``keys``, or for all events if ``keys`` is None."""
        if keys is None:
            self._always[member] = None
            return
        for key in keys:
            self._places.setdefault(_index_of(key), {}).setdefault(key.value, {})[member] = None

    def remove(self, member: T, keys: frozenset[EventKey] | None) -> None:
        """Undo ``add``."""
        if keys is None:
            del self._always[member]
            return
        for key in keys:
            values = self._places[_index_of(key)]
            del values[key.value][member]
            if not values[key.value]:
                del values[key.value]
            if not values:
                del self._places[_index_of(key)]

    def candidates(self, event: Event) -> Iterable[T]:
        """Return the members that may want ``event``, each once."""
        candidates = dict(self._always)
        for (attribute, length), values in self._places.items():
            value = event[attribute]
            assert isinstance(value, str)
            members = values.get(value[:length] if length else value)
            if members:
                candidates.update(members)
        return candidates


def _index_of(key: EventKey) -> tuple[str, int]:
    return (key.attribute, 0 if key.exact else len(key.value))
