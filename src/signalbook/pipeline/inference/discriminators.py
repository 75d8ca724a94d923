"""Choose what distinguishes the kinds of messages that are not CloudEvents: a header, a member or the topic alone."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.inference.summaries import DISCRIMINATORS
from signalbook.values import JSON, JSONObject

ANY_TOPIC: Final = "*"
"""The key, in place of a topic, of a member that is used for all topics."""
MAX_VALUES: Final = 500
"""The maximum number of values of a discriminator."""
MAX_VALUE_CHARS: Final = 128
# Larger numbers do not distinguish kinds, and Python refuses to format very long numbers.
_MAX_NUMBER: Final = 2**63
# A discriminator has to be seen with each of its values this often, on average.
_MESSAGES_PER_VALUE: Final = 10
# The share of the differences between messages that a member has to explain. Less is enough of a member whose name
# suggests that it distinguishes kinds.
_LEAST_SHARE: Final = 0.5
_LEAST_SHARE_OF_NAMED: Final = 0.2
# Members whose shares differ by less than this count as equal.
_TOLERANCE: Final = 0.02
_MAX_DEPTH: Final = 3
_MAX_FEATURES: Final = 300
# The members of an event of Debezium (https://debezium.io/documentation/reference/stable/connectors/).
_DEBEZIUM: Final = frozenset(("before", "after", "source", "op"))
_TABLE: Final = "source.table"


class Discriminator(msgspec.Struct, frozen=True):
    """The property that distinguishes the kinds of messages that are not CloudEvents.

    ``header`` (in lower case) is for HTTP requests. ``members`` has by topic ("" for messages without a topic) the
    member of payloads; dots lead into nested objects. If a topic has no member, all of its messages are of one kind,
    named after the topic, or ``name`` without a topic.
    """

    header: str = ""
    members: Mapping[str, str] = {}
    name: str = ""

    def find_member(self, topic: str) -> str:
        """Return the member that distinguishes the messages of ``topic``, "" if they are all of one kind."""
        return self.members.get(topic, self.members.get(ANY_TOPIC, ""))


class MemberChoice(msgspec.Struct, frozen=True):
    """A member chosen as a discriminator, its number of ``values``, and the ``share`` of differences it explains."""

    member: str
    values: int
    share: float


def find_member_text(payload: JSON, path: str) -> str:
    """Return the text or integer at ``path`` in ``payload`` as text; "" if there is no such value."""
    for name in path.split("."):
        payload = payload.get(name) if isinstance(payload, dict) else None
    if isinstance(payload, int) and not isinstance(payload, bool) and abs(payload) < _MAX_NUMBER:
        return str(payload)
    return payload if isinstance(payload, str) else ""


def check_member(member: str, payloads: Iterable[JSONObject]) -> None:
    """Raise ``PipelineError`` if ``member`` has more than ``MAX_VALUES`` distinct values in ``payloads``."""
    if len({find_member_text(payload, member) for payload in payloads}) > MAX_VALUES:
        raise PipelineError(
            f"the member {member!r} has more than {MAX_VALUES} values among the first messages, and each would be a "
            "kind of message: choose another one by --by"
        )


def choose_member(payloads: Sequence[JSONObject]) -> MemberChoice | None:
    """Return the member whose values best predict the shapes of ``payloads``; None if no member predicts enough.

    Half of the payloads are used to learn the shape for each value, and the other half to measure the errors.
    """
    if not payloads:
        return None
    # Shuffled, because kinds may alternate, so that halves by position would contain different kinds.
    payloads = random.Random(0).sample(payloads, len(payloads))  # noqa: S311 - no secret
    shapes = [_build_shape(payload) for payload in payloads]
    base = _count_errors([""] * len(shapes), shapes)
    if not base:
        return None
    choices: list[MemberChoice] = []
    for member in _find_candidates(payloads):
        texts = [find_member_text(payload, member) for payload in payloads]
        share = 1 - _count_errors(texts, shapes) / base
        is_named = member == _TABLE or _find_last_name(member) in DISCRIMINATORS
        if share >= (_LEAST_SHARE_OF_NAMED if is_named else _LEAST_SHARE):
            choices.append(MemberChoice(member, len(set(texts)), share))
    if not choices:
        return None
    best = max(choice.share for choice in choices)
    return min((choice for choice in choices if choice.share >= best - _TOLERANCE), key=_rank)


def _rank(choice: MemberChoice) -> tuple[int, int, int, str]:
    name = _find_last_name(choice.member)
    name_rank = DISCRIMINATORS.index(name) if name in DISCRIMINATORS else len(DISCRIMINATORS)
    return choice.member.count("."), name_rank, choice.values, choice.member


def _find_last_name(member: str) -> str:
    return member.rpartition(".")[2]


def _find_candidates(payloads: Sequence[JSONObject]) -> list[str]:
    """Return the members that every payload has, with few values. For Debezium's events only the table name is used."""
    is_debezium = all(payload.keys() >= _DEBEZIUM for payload in payloads)
    names = [_TABLE] if is_debezium else [*_find_text_paths(payloads[0])]
    return [name for name in names if _has_few_values([find_member_text(payload, name) for payload in payloads])]


def _find_text_paths(payload: JSONObject) -> Iterator[str]:
    """Yield the paths of members with texts or integers, at most two names long."""
    for name, value in payload.items():
        if "." in name:
            continue
        inner = value if isinstance(value, dict) else {}
        for path in (name, *(f"{name}.{inner_name}" for inner_name in inner if "." not in inner_name)):
            if find_member_text(payload, path):
                yield path


def _has_few_values(texts: Sequence[str]) -> bool:
    values = set(texts)
    return (
        1 < len(values) <= min(MAX_VALUES, len(texts) // _MESSAGES_PER_VALUE)
        and "" not in values
        and max(map(len, values)) <= MAX_VALUE_CHARS
    )


_Shape: TypeAlias = frozenset[str]


def _count_errors(texts: Sequence[str], shapes: Sequence[_Shape]) -> int:
    """Return the number of members in which every second shape differs from its prediction.

    The prediction is the common shape of the other half's payloads with the same text.
    """
    common = _find_common(shapes[::2])
    by_text: dict[str, list[_Shape]] = defaultdict(list)
    for text, shape in zip(texts[::2], shapes[::2], strict=True):
        by_text[text].append(shape)
    predicted = {text: _find_common(alike) for text, alike in by_text.items()}
    pairs = Counter(zip(texts[1::2], shapes[1::2], strict=True))
    return sum(len(shape ^ predicted.get(text, common)) * count for (text, shape), count in pairs.items())


def _find_common(shapes: Sequence[_Shape]) -> _Shape:
    """Return the members that most of ``shapes`` have."""
    counts: Counter[str] = Counter()
    for shape, count in Counter(shapes).items():
        for member in shape:
            counts[member] += count
    return frozenset(member for member, count in counts.items() if 2 * count > len(shapes))


def _build_shape(payload: JSONObject) -> _Shape:
    """Return the paths of the payload's members that are not null, each with its type."""
    return frozenset(islice(_iterate_paths(payload, "", 1), _MAX_FEATURES))


def _iterate_paths(value: JSONObject, prefix: str, depth: int) -> Iterator[str]:
    for name, member in value.items():
        if member is not None:
            yield f"{prefix}{name}:{_find_type_name(member)}"
            if isinstance(member, dict) and depth < _MAX_DEPTH:
                yield from _iterate_paths(member, f"{prefix}{name}.", depth + 1)


def _find_type_name(value: JSON) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return "object"
    return "list" if isinstance(value, list) else "number"


def choose_members(payloads: Iterable[tuple[str, JSONObject]]) -> dict[str, MemberChoice]:
    """Return the member chosen for each topic of ``payloads``, which are pairs of topic and payload.

    Topics for which no member is chosen are missing.
    """
    by_topic: dict[str, list[JSONObject]] = defaultdict(list)
    for topic, payload in payloads:
        by_topic[topic].append(payload)
    choices = {topic: choose_member(alike) for topic, alike in by_topic.items()}
    return {topic: choice for topic, choice in choices.items() if choice is not None}
