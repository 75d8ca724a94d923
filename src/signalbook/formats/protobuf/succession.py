"""What a new Protobuf document must not do to an old one, whoever reads what: numbers and names are used once.

A field that goes leaves its number and its name reserved, or one day somebody gives them to another field, and messages
that are still around are misread. Two documents that are read by each other do not show it; which one is newer does.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor

from signalbook.formats.base import MAX_FINDINGS, shorten
from signalbook.formats.compatibility import Difference
from signalbook.formats.protobuf.comparison import relative, with_nested

# Numbers from the first up to, not including, the second.
_Range = tuple[float, float]


def hazards(new: FileDescriptor, old: FileDescriptor) -> list[Difference]:
    """Every number or name of ``old`` that ``new`` leaves without a use or a reservation, or uses again."""
    return list(islice(_hazards(new, old), MAX_FINDINGS))


def _hazards(new: FileDescriptor, old: FileDescriptor) -> Iterator[Difference]:
    messages = {relative(message): message for message in with_nested(new.message_types_by_name.values())}
    for message in with_nested(old.message_types_by_name.values()):
        here = messages.get(relative(message))
        outer = message.containing_type
        if here is not None:
            yield from _compare(_of_message(here), _of_message(message))
        elif outer is None or relative(outer) in messages:
            what = "the message is gone, and with it what links to it"
            yield _difference(message.full_name, "message_removed", message.full_name, None, what)
    enums = {relative(enum): enum for enum in _enums(new)}
    for enum in _enums(old):
        if relative(enum) in enums:
            yield from _compare(_of_enum(enums[relative(enum)]), _of_enum(enum))


def _enums(file: FileDescriptor) -> Iterator[EnumDescriptor]:
    yield from file.enum_types_by_name.values()
    for message in with_nested(file.message_types_by_name.values()):
        yield from message.enum_types


class _Numbered:
    """A message or an enum as what is used of its numbers and names, and what is reserved."""

    def __init__(
        self, name: str, what: str, used: Iterable[tuple[str, int]], ranges: Iterable[_Range], reserved: Iterable[str]
    ) -> None:
        self.name = name
        self.what = what
        self.used = list(used)
        self.numbers = {number for _, number in self.used}
        self.names = {name for name, _ in self.used}
        self.ranges = sorted(ranges)
        self.reserved = set(reserved)

    def reserves(self, number: int) -> bool:
        """Whether a number is reserved; ranges of one type never overlap, or it would not compile."""
        before = bisect_right(self.ranges, (number, math.inf))
        return before > 0 and number < self.ranges[before - 1][1]


def _of_message(descriptor: Descriptor) -> _Numbered:
    proto = descriptor_pb2.DescriptorProto()
    descriptor.CopyToProto(proto)
    used = ((field.name, field.number) for field in proto.field)
    ranges = ((part.start, part.end) for part in proto.reserved_range)
    return _Numbered(descriptor.full_name, "field", used, ranges, proto.reserved_name)


def _of_enum(descriptor: EnumDescriptor) -> _Numbered:
    proto = descriptor_pb2.EnumDescriptorProto()
    descriptor.CopyToProto(proto)
    used = ((value.name, value.number) for value in proto.value)
    ranges = ((part.start, part.end + 1) for part in proto.reserved_range)  # an enum's range includes its end
    return _Numbered(descriptor.full_name, "enum_value", used, ranges, proto.reserved_name)


def _compare(new: _Numbered, old: _Numbered) -> Iterator[Difference]:
    for name, number in old.used:
        path = f"{old.name}.{name}"
        if number not in new.numbers and not new.reserves(number):
            what = f"the number {number} of {name} is neither used nor reserved, so another may get it"
            yield _difference(path, f"{new.what}_number_not_reserved", number, None, what)
        if name not in new.names and number not in new.numbers and name not in new.reserved:
            what = f"the name {name} is neither used nor reserved, so JSON may get another meaning"
            yield _difference(path, f"{new.what}_name_not_reserved", name, None, what)
    for name, number in new.used:
        if old.reserves(number):
            what = f"the number {number} was reserved, so that messages with an old meaning are not misread"
            yield _difference(f"{new.name}.{name}", "reserved_number_used", None, number, what)
        if name in old.reserved:
            yield _difference(f"{new.name}.{name}", "reserved_name_used", None, name, f"the name {name} was reserved")
    for first, end in _left(old.ranges, [*new.ranges, *((number, number + 1) for number in new.numbers)]):
        what = "numbers that were reserved are free again"
        yield _difference(new.name, "reservation_dropped", [int(first), int(end) - 1], None, what)
    for name in sorted(old.reserved - new.reserved - new.names):
        yield _difference(
            new.name, "reservation_dropped", name, None, f"the name {name} was reserved and is free again"
        )


def _left(ranges: Iterable[_Range], taken: Iterable[_Range]) -> Iterator[_Range]:
    """What remains of ``ranges``, which are in order, without ``taken``."""
    others = deque(sorted(taken))
    for first, end in ranges:
        while others and others[0][0] < end:
            start, stop = others[0]
            if first < start:
                yield first, start
            first = max(first, stop)
            if stop > end:
                break
            others.popleft()
        if first < end:
            yield first, end


def _difference(path: str, rule: str, old: object, new: object, message: str) -> Difference:
    return Difference(path=path, rule=rule, old=old, new=new, message=shorten(message))
