"""What generated Python packages run on: messages built of typed payloads, and read back.

Binding, matching and validation are those of ``signalbook.messages``: a generated package has the definitions and the
types, and no rules of its own.
"""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from signalbook.errors import SignalbookError
from signalbook.messages import (
    Accepted,
    CloudEvent,
    CompiledDefinition,
    Contract,
    Message,
    Outbound,
    Policy,
    Rejected,
    build,
)
from signalbook.messages.payload import UNSET
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSON
from signalbook.xid import group_of

__all__ = [
    "MessageHandlers",
    "MessageType",
    "OnUnexpected",
    "Outbound",
    "PackagedDefinitions",
    "TypedMessage",
    "UnexpectedMessage",
]
P = TypeVar("P")


class UnexpectedMessage(SignalbookError):
    """A message that is not of the definition it was read by, or of none; ``rejected`` says why, if it was."""

    def __init__(self, text: str, rejected: Rejected | None = None) -> None:
        self.rejected = rejected
        super().__init__(text)


class PackagedDefinitions:
    """The definitions of a generated package, read when the first message is built or read."""

    def __init__(self, package: str, name: str = "definitions.json") -> None:
        self._package = package
        self._name = name
        self._alone: dict[str, Contract] = {}

    @cached_property
    def _snapshot(self) -> Snapshot:
        return Snapshot.from_json((files(self._package) / self._name).read_bytes())

    def contract(self, *groups: str) -> Contract:
        """Return the contract of message groups or endpoints (by xid), or of all; compiled on first use."""
        snapshot = self._snapshot
        return self._compile_contract([xid for xid in snapshot.selected if not groups or group_of(xid) in groups])

    def alone(self, xid: str) -> Contract:
        """Return the contract of one definition, without others that would fit a message."""
        if xid not in self._alone:
            self._alone[xid] = self._compile_contract([xid])
        return self._alone[xid]

    def _compile_contract(self, xids: Sequence[str]) -> Contract:
        chosen = set(xids)
        outlines = tuple(outline for outline in self._snapshot.outlines if outline.xid in chosen)
        return replace(self._snapshot, selected=tuple(xids), outlines=outlines).compile(Policy())


@dataclass(frozen=True, slots=True)
class TypedMessage(Generic[P]):
    """A message that conforms to its definition.

    ``payload`` is typed; ``data`` is the same as it was decoded, with members that no type has. ``context`` has the
    values of placeholders, ``event`` the CloudEvent, if it is one.
    """

    payload: P
    data: JSON
    context: Mapping[str, str]
    event: CloudEvent | None
    message: Message
    definition: str


@dataclass(frozen=True, slots=True)
class MessageType(Generic[P]):
    """A message definition and the type of its payload; ``Any`` without a schema that has types."""

    xid: str
    payload: Any
    definitions: PackagedDefinitions

    @property
    def definition(self) -> CompiledDefinition:
        """The definition, compiled."""
        return self.definitions.alone(self.xid).definitions[self.xid]

    def build(self, payload: P, context: Mapping[str, str | None], values: Mapping[str, Any]) -> Outbound:
        """A message. Raises ``OutboundError`` with all that the definition has against it, each with its path."""
        data = UNSET if payload is None and self.definition.schema_use.schema is None else to_data(payload)
        placeholders = {name: value for name, value in context.items() if value is not None}
        return build(self.definition, placeholders, data, values)

    def parse(self, message: Message) -> TypedMessage[P]:
        """Parse a message of this definition. Raises ``UnexpectedMessage`` for any other, and for several."""
        accepted = list(_list_accepted(self.definitions.alone(self.xid), message))
        if len(accepted) != 1:
            raise UnexpectedMessage(f"{len(accepted)} messages in one, where one of {self.xid} is expected")
        return self.typed(accepted[0])

    def typed_of(self, data: JSON) -> P:
        """A decoded payload, which has to conform to the schema, as a value of its type."""
        payload: P = from_data(self.payload, data)
        return payload

    def typed(self, accepted: Accepted) -> TypedMessage[P]:
        """An accepted message of this definition with its payload typed."""
        data = accepted.payload() if accepted.data is UNSET else accepted.data
        return TypedMessage(self.typed_of(data), data, accepted.context, accepted.event, accepted.message, self.xid)


def _list_accepted(contract: Contract, message: Message) -> Iterator[Accepted]:
    """Yield the events in a message. Raises ``UnexpectedMessage`` for one that is not accepted."""
    for outcome in contract.process(message):
        if isinstance(outcome, Rejected):
            why = "; ".join(map(str, outcome.violations))
            raise UnexpectedMessage(f"{outcome.reason.value}: {why}", outcome)
        if isinstance(outcome, Accepted):
            yield outcome


Handler: TypeAlias = Callable[[TypedMessage[P]], None]
OnUnexpected: TypeAlias = Callable[[Message, UnexpectedMessage], None]


class MessageHandlers:
    """Functions by the definition of the messages that they take."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._handlers: dict[str, Callable[[Accepted], None]] = {}

    def on(self, kind: MessageType[P]) -> Callable[[Handler[P]], Handler[P]]:
        """Register a function for the messages of a type. The last one counts."""

        def register(handler: Handler[P]) -> Handler[P]:
            self._handlers[kind.xid] = lambda accepted: handler(kind.typed(accepted))
            return handler

        return register

    def dispatch(self, message: Message) -> int:
        """Call the handler of each event in a message; how many were called. All events are accepted before one is.

        Messages of a type without a handler are passed over. Raises ``UnexpectedMessage``, and what handlers raise.
        """
        called = 0
        for accepted in list(_list_accepted(self._contract, message)):
            handler = self._handlers.get(accepted.definition.xid)
            if handler is not None:
                handler(accepted)
                called += 1
        return called

    def receive(self, message: Message, on_unexpected: OnUnexpected | None) -> None:
        """Dispatch a message; ``on_unexpected`` gets one that fits no definition."""
        try:
            self.dispatch(message)
        except UnexpectedMessage as error:
            if on_unexpected is None:
                raise
            on_unexpected(message, error)


@dataclass(frozen=True, slots=True)
class _Member:
    attribute: str
    wire: str
    required: bool
    null_is_absent: bool


@dataclass(frozen=True, slots=True)
class _Record:
    """The generated class of an object: its members, and the attribute for undeclared members."""

    kind: type
    members: tuple[_Member, ...]
    extra: str


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(sys.modules.get(kind.__module__), "WIRE_NAMES")


@cache
def _describe_record(kind: Any) -> _Record:
    if hasattr(kind, "model_rebuild"):
        kind.model_rebuild()  # until then pydantic does not know members whose types come later in the module
    module: Any = sys.modules[kind.__module__]
    wires, extra = module.WIRE_NAMES.get(kind.__name__, {}), module.EXTRA_MEMBERS.get(kind.__name__, "")
    members = tuple(
        _Member(name, wires.get(name, name), parameter.default is parameter.empty, parameter.default is None)
        for name, parameter in inspect.signature(kind).parameters.items()
        if name != extra
    )
    return _Record(kind, members, extra)


@cache
def _find_hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def to_data(value: Any) -> JSON:
    """A payload as ``Schema.encode`` takes it."""
    if isinstance(value, list | tuple):
        return [to_data(item) for item in value]
    if isinstance(value, dict):
        return {name: to_data(item) for name, item in value.items()}
    kind: Any = type(value)
    if not _is_record(kind):
        return value
    record = _describe_record(kind)
    members = {} if not record.extra else dict(to_data(getattr(value, record.extra) or {}))
    for member in record.members:
        item = getattr(value, member.attribute)
        if item is not msgspec.UNSET and not (item is None and member.null_is_absent):
            members[member.wire] = to_data(item)
    return members


def from_data(kind: Any, data: JSON) -> Any:
    """Convert data from ``Schema.decode`` to the type of an annotation. Undescribed data stay as they are."""
    if _is_record(kind):
        return _build_object(_describe_record(kind), data) if isinstance(data, dict) else data
    origin = get_origin(kind)
    if origin is list and isinstance(data, list):
        (item,) = get_args(kind)
        return [from_data(item, part) for part in data]
    if origin is dict and isinstance(data, dict):
        inner = get_args(kind)[1]
        return {name: from_data(inner, part) for name, part in data.items()}
    if origin in _UNIONS:
        return from_data(_choose_branch(get_args(kind), data), data)
    # JSON Schema takes 1.0 for an integer.
    return int(data) if kind is int and isinstance(data, float) and data.is_integer() else data


def _build_object(record: _Record, data: dict[str, JSON]) -> Any:
    hints = _find_hints(record.kind)
    attributes = {
        member.attribute: from_data(hints[member.attribute], data[member.wire])
        for member in record.members
        if member.wire in data
    }
    if record.extra:
        wire_names = {member.wire for member in record.members}
        inner = get_args(get_args(hints[record.extra])[0])[1]
        extra = {name: from_data(inner, item) for name, item in data.items() if name not in wire_names}
        attributes |= {record.extra: extra} if extra else {}
    return record.kind(**attributes)


_UNIONS: Final = frozenset({Union, types.UnionType})


def _choose_branch(branches: tuple[Any, ...], data: JSON) -> Any:
    """The branch of a union that loses nothing of a value, or least; of several that which says most, or the first."""
    return min(branches, key=lambda each: _measure_fit(each, data))


# Members of a value that an annotation does not describe, and, negative, those that it does; deep.
_Fit: TypeAlias = tuple[float, int]
_UNFIT: Final[_Fit] = (math.inf, 0)
_FITS: Final[_Fit] = (0, 0)


def _measure_fit(kind: Any, data: JSON) -> _Fit:
    """Return how badly an annotation describes a value: less is better."""
    origin = get_origin(kind)
    if _is_record(kind):
        return _measure_record(_describe_record(kind), data) if isinstance(data, dict) else _UNFIT
    if origin is Literal:
        return (0, -1) if any(option == data and type(option) is type(data) for option in get_args(kind)) else _UNFIT
    if origin in _UNIONS:
        return min(_measure_fit(option, data) for option in get_args(kind))
    if origin is list:
        return (
            _sum_fits(_measure_fit(get_args(kind)[0], option) for option in data) if isinstance(data, list) else _UNFIT
        )
    if origin is dict:
        inner = get_args(kind)[1]
        return _sum_fits(_measure_fit(inner, option) for option in data.values()) if isinstance(data, dict) else _UNFIT
    return _FITS if kind is Any or _is_of(kind, data) else _UNFIT


def _sum_fits(fits: Iterable[_Fit]) -> _Fit:
    lost, described = 0.0, 0
    for fit in fits:
        lost, described = lost + fit[0], described + fit[1]
    return lost, described


def _measure_record(record: _Record, data: dict[str, JSON]) -> _Fit:
    hints = _find_hints(record.kind)
    if any(member.required and member.wire not in data for member in record.members):
        return _UNFIT
    declared = {member.wire: hints[member.attribute] for member in record.members}
    fits = [_measure_fit(declared[name], item) for name, item in data.items() if name in declared]
    undeclared = [item for name, item in data.items() if name not in declared]
    if record.extra:
        inner = get_args(get_args(hints[record.extra])[0])[1]
        return _sum_fits([*fits, *(_measure_fit(inner, item) for item in undeclared), (0, -len(fits))])
    return _sum_fits([*fits, (len(undeclared), -len(fits))])


def _is_of(kind: Any, data: JSON) -> bool:
    if kind is float:
        return isinstance(data, float)
    if kind is int:
        return not isinstance(data, bool) and (isinstance(data, int) or (isinstance(data, float) and data.is_integer()))
    return isinstance(kind, type) and isinstance(data, kind)
