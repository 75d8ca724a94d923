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
# What becomes of a message in memory is bounded by its values: an empty array is three bytes of text, and 64 decoded.
MAX_VALUES: Final = 4_000_000

_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
# A string, and whether it is the name of a member.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
# Bytes that are looked through at once.
_PIECE: Final = 1 << 18


# The names of numbers that JSON does not have, as ProtoJSON and Avro's own tools write them.
NONFINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class JSONError(ValueError):
    """Text that is no JSON, or is nested deeper than allowed. The message says what and where."""


class TooManyValues(JSONError):
    """JSON text with more than ``most`` values."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} values, by its commas and brackets")


# A float keeps all digits of a number that is written in at most so many characters, unless it has an exponent.
_FLOAT_CHARS: Final = 16
# Digits before the point, or zeros behind it, that a number may have: libraries write out all of them, and a billion
# take no more than ten characters of JSON. Python writes out integers of 4,300.
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

    With ``exact`` a number whose digits, or whose size, a float does not have becomes a ``Decimal``.

    Raises ``JSONError`` on broken JSON, invalid UTF-8, nesting beyond ``max_depth``, more than ``max_values``
    values, and if ``unique`` on a name that an object has twice: what that means no two programs agree on (RFC8259 4).
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
    # Fewer brackets than levels cannot be too deep: most texts are spared the walk.
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
    """The name of a number that JSON does not have, one of ``NONFINITE``."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def canonical_json(value: JSON) -> bytes:
    """Encode with sorted keys and no white space: equal values give equal bytes."""
    return _encode_canonically(value)


def fingerprint(value: JSON) -> str:
    """SHA-256 of the canonical JSON of ``value``, in lower-case hex."""
    return digest(canonical_json(value))


def digest(data: bytes) -> str:
    """SHA-256 of ``data``, in lower-case hex."""
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
    # In pieces: the strings of a large text, or what is between them, take many times its size all together.
    while start < len(text) and count <= most:
        piece = text[start : start + _PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = text[start : start + _PIECE + 1]  # with what the last backslash escapes
        parts = _ESCAPED.sub(b"", piece).split(b'"')
        count += count_separators(b"".join(parts[inside::2]))
        start, inside = start + len(piece), (inside + len(parts) - 1) % 2
    return count > most


def count_separators(text: bytes) -> int:
    """Commas and opening brackets, those in strings too: no text has more values, but for one that is no array."""
    return text.count(b",") + _count_brackets(text)


def step_into(value: JSON, token: str) -> JSON:
    """Return what one token of a JSON Pointer (RFC 6901) names in ``value``. Raises ``LookupError``."""
    name = token.replace("~1", "/").replace("~0", "~")
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, list) and name.isdecimal() and len(name) < 10:
        return value[int(name)]
    raise LookupError(name)


def deeper_than(value: JSON, depth: int) -> bool:
    """Return True if arrays and objects are nested more than ``depth`` deep."""
    # by recursion, which ``depth`` bounds: lists of all values of a level take longer to fill than to walk
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
    """A name that the outermost object of a JSON text has twice, and one that an object within has.

    ``value`` is what the text was decoded to, which has the last member of each name.
    """
    # Names in the text against names in the value: nearly all texts have none twice, and are looked at no further.
    if sum(map(bool, _STRING.findall(text))) == _count_names(value):
        return None, None
    names: list[str] = []
    outer: list[str] = []

    def member(pairs: list[tuple[str, JSON]]) -> None:
        seen: set[str] = set()
        # The outermost object is the last that is complete.
        outer.clear()
        for name, _ in pairs:
            if name in seen:
                outer.append(name)
            seen.add(name)
        names.extend(outer[:1])

    json.loads(text, object_pairs_hook=member, parse_int=len, parse_float=len)  # no number is worth reading here
    if not isinstance(value, dict) or not outer:
        return None, names[0] if names else None
    return outer[0], names[0] if len(names) > 1 else None


def said_twice(name: str) -> str:
    """Return the text for a name that comes twice."""
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
    """An RFC3339 timestamp as an aware UTC ``datetime``; without a zone it counts as UTC (core R7).

    Digits beyond microseconds are cut. Raises ``ValueError`` for anything else.
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


def format_timestamp(stamp: datetime) -> str:
    """RFC3339 in UTC with a ``Z``; fractions only where there are any. ``parse_timestamp`` reads it back equal."""
    utc = stamp if stamp.tzinfo is UTC else stamp.astimezone(UTC)
    return msgspec.json.encode(utc)[1:-1].decode("ascii")  # several times as fast as isoformat


def now() -> datetime:
    """The current instant, UTC, in microseconds."""
    return datetime.now(UTC)


Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding about a document, payload or definition.

    ``path`` is a JSON Pointer or dot path inside what was examined ("" is the whole), ``rule`` a stable machine name
    (``required``, ``type``, ``enum``, ...), ``message`` is for people. If two states were compared, ``old`` and ``new``
    are the values at the path, None for nothing. ``info`` is the severity of findings that are not wrong.
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
        """The form in which a server reports a finding; ``severity`` only where it is no error."""
        body: JSONObject = {"path": self.path, "rule": self.rule, "message": self.message}
        if self.severity != "error":
            body["severity"] = self.severity
        return body | {name: value for name, value in (("old", self.old), ("new", self.new)) if value is not None}

    @classmethod
    def from_json(cls, body: JSONObject) -> Self:
        """Read back what ``to_json`` wrote, or another server's words that are like it."""
        path, rule, message = (str(body.get(name, "")) for name in ("path", "rule", "message"))
        stated = body.get("severity")
        severity: Severity = stated if stated in ("warning", "info") else "error"
        return cls(path=path, rule=rule, message=message, severity=severity, old=body.get("old"), new=body.get("new"))
