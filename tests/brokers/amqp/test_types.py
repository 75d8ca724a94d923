"""The type system of AMQP 1.0: encodings of the standard, every value back, and texts that are none."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.brokers.amqp.messages import (
    AMQPError,
    DescribedValue,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    decode,
    decode_first,
    encode,
)

names = st.text(st.characters(codec="ascii"), max_size=300)
simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.uuids(),
    names.map(Symbol),
    st.integers(0, 2**8 - 1).map(Ubyte),
    st.integers(0, 2**16 - 1).map(Ushort),
    st.integers(0, 2**32 - 1).map(Uint),
    st.integers(0, 2**64 - 1).map(Ulong),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
)
anything = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=20),
        st.dictionaries(names.map(Symbol), inner, max_size=20),
        st.builds(DescribedValue, st.integers(0, 2**64 - 1).map(Ulong), inner),
    ),
    max_leaves=30,
)


def kinds(value: Any) -> Any:
    """The types in a value: numbers of different types are equal in Python."""
    match value:
        case DescribedValue():
            return DescribedValue(kinds(value.descriptor), kinds(value.value))
        case list():
            return [kinds(part) for part in value]
        case dict():
            return {key: kinds(part) for key, part in value.items()}
    return type(value)


@given(anything)
def test_values_survive_a_round_trip(value: Any) -> None:
    (decoded,) = decode(encode(value))
    assert decoded == value
    assert kinds(decoded) == kinds(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "40"),
        (True, "41"),
        (False, "42"),
        (Uint(0), "43"),
        (Uint(255), "52ff"),
        (Uint(256), "7000000100"),
        (Ulong(0), "44"),
        (Ulong(0x70), "5370"),
        (Ulong(2**32), "800000000100000000"),
        (-1, "55ff"),
        (128, "810000000000000080"),
        (1.5, "823ff8000000000000"),
        (Timestamp(0), "830000000000000000"),
        ("ä", "a102c3a4"),
        (Symbol("ab"), "a3026162"),
        (b"\0", "a00100"),
        (b"x" * 256, "b000000100" + "78" * 256),
        ([], "45"),
        ([None, True], "c0030240" + "41"),
        ({Symbol("a"): None}, "c10502a3016140"),
        (DescribedValue(Ulong(0x24), []), "00532445"),
        (UUID(int=1), "98" + "00" * 15 + "01"),
    ],
)
def test_the_encodings_of_the_standard(value: Any, written: str) -> None:
    assert encode(value).hex() == written


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5601", True),
        ("51ff", -1),
        ("54ff", -1),
        ("61ffff", -1),
        ("71ffffffff", -1),
        ("723fc00000", 1.5),
        ("73000000e4", "ä"),
        ("7400000001", b"\0\0\0\x01"),
        ("d00000000800000002" + "40" + "a10161", [None, "a"]),
        ("d10000000800000002a10161" + "41", {"a": True}),
        ("e00602a301610162", [Symbol("a"), Symbol("b")]),
        ("e0020340", [None, None, None]),
    ],
)
def test_alternative_encodings_are_decoded(written: str, value: Any) -> None:
    assert decode(bytes.fromhex(written)) == [value]


@pytest.mark.parametrize(
    "written",
    [
        "",
        "01",
        "3f",
        "70000000",
        "a1056162",
        "a102c3",
        "a101ff",
        "a301ff",
        "73ffffffff",
        "c0",
        "c0ff02" + "4040",
        "c00205" + "40",
        "c003014040",
        "c10201" + "40",
        "c10302" + "4540",
        "d0ffffffff00000001" + "40",
        "d000000005ffffffff" + "40",
        "f000000005ffffffff40",
        "e0030100" + "5340",
        "00" * 100,
        "c00401c00201" * 60 + "40",
    ],
)
def test_invalid_encoding_is_rejected(written: str) -> None:
    with pytest.raises(AMQPError):
        decode_first(bytes.fromhex(written))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        decode(data)
    except AMQPError:
        return


@pytest.mark.parametrize("value", [Ubyte(256), Uint(-1), Ulong(2**64), 2**63, Symbol("ä"), "\ud800", object(), {1, 2}])
def test_unsupported_value_is_rejected(value: Any) -> None:
    with pytest.raises(AMQPError):
        encode(value)
