"""Frozen values shared by every layer: JSON, timestamps, findings."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, Self

import msgspec

# A JSON value as decoded. `Any` inside, because a recursive alias makes every caller cast.
JSON = Any
JSONObject = dict[str, Any]

MAX_DEPTH: Final = 64
# The number of values limits the memory that a decoded message takes: an empty array has 3 bytes of text, but 64 bytes
# of memory.
MAX_VALUES: Final = 4_000_000

_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
# A string, and whether it is the name of a member.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
# The number of bytes that are searched at once.
_PIECE: Final = 1 << 18


# The names of numbers that JSON does not have, as ProtoJSON and Avro's own tools write them.
NONFINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class JSONError(ValueError):
    """The error for text that is not JSON, or is nested too deeply. The message contains the reason and the place."""


class TooManyValues(JSONError):
    """The error for JSON text with more than ``most`` values."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} values, by its commas and brackets")


# A float can represent all digits of a number that has at most this many characters and no exponent.
_FLOAT_CHARS: Final = 16
# The largest number of digits before the point, or of zeros after it. Libraries write out all of these digits, and ten
# characters of JSON with an exponent can stand for a billion digits. Python's own limit for integers is 4,300 digits.
_MAX_MAGNITUDE: Final = 4000


def _read_float(text: str) -> float | Decimal:
    number = float(text)
    if len(text) <= _FLOAT_CHARS and "e" not in text and "E" not in text:
        return number
    exact = Decimal(text)
    if math.isfinite(number) and Decimal(repr(number)) == exact:
        return number
    if abs(exact.adjusted()) > _MAX_MAGNITUDE:
        raise InvalidOperation
    return exact


_decode: Final = msgspec.json.Decoder().decode
_decode_exactly: Final = msgspec.json.Decoder(float_hook=_read_float).decode


def parse_json(
    data: bytes | str,
    *,
    max_depth: int = MAX_DEPTH,
    max_values: int | None = None,
    unique: bool = False,
    exact: bool = False,
) -> JSON:
    """Decode JSON text. Numbers without fraction or exponent become ``int``, others ``float``.

    With ``exact``, a number that a float cannot represent exactly becomes a ``Decimal``.

    Raises ``JSONError`` on broken JSON, invalid UTF-8, nesting beyond ``max_depth``, and more than ``max_values``
    values. With ``unique``, also raises it for an object with two members of the same name, because programs disagree
    on the meaning of such an object (RFC8259 4).
    """
    if max_values is not None and len(data) > max_values and _has_more(data, max_values):
        raise TooManyValues(max_values)
    try:
        value = _decode_exactly(data) if exact else _decode(data)
    except RecursionError:
        raise JSONError(f"nested deeper than {max_depth} levels") from None
    except InvalidOperation:
        raise JSONError(f"a number has an exponent beyond {_MAX_MAGNITUDE}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise JSONError(str(error)) from None
    # A text with at most ``max_depth`` opening brackets cannot be too deep. So most values need not be walked.
    if _count_brackets(data) > max_depth and deeper_than(value, max_depth):
        raise JSONError(f"nested deeper than {max_depth} levels")
    if unique:
        for name in repeated_names(data.encode("utf-8") if isinstance(data, str) else data, value):
            if name is not None:
                raise JSONError(said_twice(name))
    return value


_encode: Final = msgspec.json.Encoder(decimal_format="number").encode
_encode_canonically: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic").encode


def dump_json(value: JSON, *, indent: int | None = None) -> bytes:
    """Encode as compact UTF-8 JSON, or indented by ``indent`` spaces. A ``Decimal`` is a number with all its digits."""
    text = _encode(value)
    return text if indent is None else msgspec.json.format(text, indent=indent)


def nonfinite_name(number: float) -> str:
    """Return the name of a number that JSON cannot represent. The name is a key of ``NONFINITE``."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def canonical_json(value: JSON) -> bytes:
    """Encode with sorted keys and no white space: equal values give equal bytes."""
    return _encode_canonically(value)


def fingerprint(value: JSON) -> str:
    """Return the SHA-256 digest of the canonical JSON of ``value``, in lower-case hex."""
    return digest(canonical_json(value))


def digest(data: bytes) -> str:
    """Return the SHA-256 digest of ``data``, in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def _count_brackets(data: bytes | str) -> int:
    if isinstance(data, str):
        return data.count("[") + data.count("{")
    return data.count(b"[") + data.count(b"{")


def _has_more(data: bytes | str, most: int) -> bool:
    """Return True if there are more than ``most`` commas and brackets outside strings."""
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if count_separators(text) <= most:
        return False
    count = start = inside = 0
    # Work in pieces, because a list of all strings of a large text takes many times the memory of the text.
    while start < len(text) and count <= most:
        piece = text[start : start + _PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = text[start : start + _PIECE + 1]  # include the character after the last backslash
        parts = _ESCAPED.sub(b"", piece).split(b'"')
        count += count_separators(b"".join(parts[inside::2]))
        start, inside = start + len(piece), (inside + len(parts) - 1) % 2
    return count > most


def format_count(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 message", "1,200 messages". The default ``plural`` has an ``s`` at the end."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def count_separators(text: bytes) -> int:
    """Return the number of commas and opening brackets, including those in strings.

    An array or object does not have more values than this number.
    """
    return text.count(b",") + _count_brackets(text)


def step_into(value: JSON, token: str) -> JSON:
    """Return the member or item of ``value`` that one token of a JSON Pointer names (RFC 6901).

    Raises ``LookupError`` if it does not exist.
    """
    name = token.replace("~1", "/").replace("~0", "~")
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, list) and name.isdecimal() and len(name) < 10:
        return value[int(name)]
    raise LookupError(name)


def deeper_than(value: JSON, depth: int) -> bool:
    """Return True if arrays and objects are nested more than ``depth`` deep."""
    # Recursion is limited by ``depth``, and faster than building a list of all values of each level.
    if value.__class__ is dict:
        value = value.values()
    elif value.__class__ is not list:
        return False
    if depth == 0:
        return True
    for item in value:  # noqa: SIM110
        if (item.__class__ is dict or item.__class__ is list) and deeper_than(item, depth - 1):
            return True
    return False


def repeated_names(text: bytes, value: JSON) -> tuple[str | None, str | None]:
    """Return a name that the outermost object of ``text`` has twice, and one that an inner object has twice.

    Either is None if there is no such name. ``value`` is the decoded text, which has only the last member of each name.
    """
    # If text and value have equally many names, no name is repeated. This is the case for nearly all texts.
    if sum(map(bool, _STRING.findall(text))) == _count_names(value):
        return None, None
    names: list[str] = []
    outer: list[str] = []

    def member(pairs: list[tuple[str, JSON]]) -> None:
        seen: set[str] = set()
        # The outermost object is completed last.
        outer.clear()
        for name, _ in pairs:
            if name in seen:
                outer.append(name)
            seen.add(name)
        names.extend(outer[:1])

    json.loads(text, object_pairs_hook=member, parse_int=len, parse_float=len)  # number values do not matter
    if not isinstance(value, dict) or not outer:
        return None, names[0] if names else None
    return outer[0], names[0] if len(names) > 1 else None


def said_twice(name: str) -> str:
    """Return the error message for an object that has ``name`` twice."""
    return f"an object has the name {name[:100]!r} twice"


def _count_names(value: JSON) -> int:
    count, level = 0, [value]
    while level:
        below: list[JSON] = []
        for parent in level:
            if isinstance(parent, dict):
                count += len(parent)
                below += [item for item in parent.values() if isinstance(item, (dict, list))]
            elif isinstance(parent, list):
                below += [item for item in parent if isinstance(item, (dict, list))]
        level = below
    return count


def parse_timestamp(text: str) -> datetime:
    """Parse an RFC3339 timestamp to a ``datetime`` in UTC. A timestamp without a zone is taken as UTC (core R7).

    Digits beyond microseconds are cut off. Raises ``ValueError`` for any other text.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC3339 timestamp such as 2030-12-19T06:00:00Z")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    leap = second == "60"
    stamp = datetime(
        int(year), int(month), int(day), int(hour), int(minute), 59 if leap else int(second),
        int((fraction or "0").ljust(6, "0")[:6]), tzinfo=UTC,
    )  # fmt: skip
    shift = int(leap)
    if zone and zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 23 or minutes > 59:
            raise ValueError(f"{text!r} has no valid time zone offset")
        offset = 60 * (60 * hours + minutes)
        shift += -offset if zone[0] == "+" else offset
    try:
        return stamp + timedelta(seconds=shift) if shift else stamp
    except OverflowError:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999") from None


def format_scalar(value: JSON) -> str:
    """Return a scalar as text: a string as it is, other values as in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def can_parse_timestamp(text: str) -> bool:
    """Return True if ``parse_timestamp`` accepts ``text``."""
    try:
        parse_timestamp(text)
    except ValueError:
        return False
    return True


def format_timestamp(stamp: datetime) -> str:
    """Format a time as an RFC3339 timestamp in UTC with ``Z``, with a fraction only if it is not zero.

    ``parse_timestamp`` returns the same time.
    """
    utc = stamp if stamp.tzinfo is UTC else stamp.astimezone(UTC)
    return msgspec.json.encode(utc)[1:-1].decode("ascii")  # several times as fast as isoformat


def now() -> datetime:
    """Return the current time in UTC, with microseconds."""
    return datetime.now(UTC)


Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding about a document, payload or definition.

    ``path`` is a JSON Pointer or dotted path in the examined value (``""`` is the whole value). ``rule`` is a stable
    name for programs (``required``, ``type``, ``enum``, ...), and ``message`` is for people. If two states were
    compared, ``old`` and ``new`` are the values at the path, or None if there is no value. A finding with the severity
    ``info`` is not a problem.
    """

    path: str
    rule: str
    message: str
    severity: Severity = "error"
    old: JSON = None
    new: JSON = None

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message} [{self.rule}]"

    def to_json(self) -> JSONObject:
        """Return the finding as a server reports it. ``severity`` is left out if it is ``error``."""
        body: JSONObject = {"path": self.path, "rule": self.rule, "message": self.message}
        if self.severity != "error":
            body["severity"] = self.severity
        return body | {name: value for name, value in (("old", self.old), ("new", self.new)) if value is not None}

    @classmethod
    def from_json(cls, body: JSONObject) -> Self:
        """Read a finding from the form of ``to_json``. Missing or unknown members get default values."""
        path, rule, message = (str(body.get(name, "")) for name in ("path", "rule", "message"))
        stated = body.get("severity")
        severity: Severity = stated if stated in ("warning", "info") else "error"
        return cls(path=path, rule=rule, message=message, severity=severity, old=body.get("old"), new=body.get("new"))
