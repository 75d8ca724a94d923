"""Request flags: reading the query string, what is switched off, ``specversion``."""

import pytest

from signalbook.api.xregistry.requests import NOTHING, QueryFlags, check_specversion, parse_flags
from signalbook.engine import capabilities
from signalbook.errors import RegistryError
from signalbook.xid import Xid


def code(query: bytes) -> str:
    with pytest.raises(RegistryError) as caught:
        parse_flags(query, subject="/x")
    return caught.value.code


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", NOTHING),
        (b"doc", QueryFlags(doc=True)),
        (b"doc=&binary=true&collections", QueryFlags(doc=True, binary=True, collections=True)),
        (b"doc=false", NOTHING),
        (b"inline", QueryFlags(inline=("",))),
        (b"inline=a,b&inline=c", QueryFlags(inline=("a,b", "c"))),
        (b"inline=a%2Cb%2E%2A", QueryFlags(inline=("a,b.*",))),
        (b"epoch=3", QueryFlags(epoch=3)),
        (b"ignore", QueryFlags(ignore=("",))),
        (b"ignore=id,epoch&ignore=readonly", QueryFlags(ignore=("id", "epoch", "readonly"))),
        (b"setdefaultversionid=", QueryFlags(setdefaultversionid="")),
        (b"setdefaultversionid=null", QueryFlags(setdefaultversionid="null")),
        (b"specversion=1.0-RC4", QueryFlags(specversion="1.0-RC4")),
        (b"filter=a=1,b&filter=c", QueryFlags(filter=("a=1,b", "c"))),
        (b"sort=name=desc&limit=5", QueryFlags(sort="name=desc", limit="5")),
        (b"cursor=x", QueryFlags(cursor="x")),
        (b"Doc&unknown=1&Limit=c", NOTHING),
    ],
)
def test_flags(query: bytes, expected: QueryFlags) -> None:
    """The names are in lower case, and unknown flags are ignored (R136, R175)."""
    assert parse_flags(query, subject="/x") == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"epoch=1&epoch=1", "bad_flag"),
        (b"specversion=1&specversion=2", "bad_flag"),
        (b"sort=a&sort=b", "bad_flag"),
        (b"limit=1&limit=2", "bad_flag"),
        (b"epoch=-1", "bad_request"),
        (b"epoch=x", "bad_request"),
        (b"epoch=", "bad_request"),
        (b"epoch=%B2", "bad_request"),
        (b"inline=%FF", "bad_request"),
        (b"inline=\xff", "bad_request"),
        (b"&".join([b"inline=a"] * 1001), "bad_request"),
    ],
)
def test_invalid_flags_are_rejected(query: bytes, expected: str) -> None:
    """R175, R179."""
    assert code(query) == expected


def test_flags_switched_off_are_ignored() -> None:
    """Flags that the capabilities omit are ignored (R119)."""
    some = {**capabilities.list_initial(), "flags": ["inline"]}
    assert QueryFlags(doc=True, epoch=3, inline=("a",)).supported(some) == QueryFlags(inline=("a",))
    assert QueryFlags(doc=True).supported(capabilities.list_initial()) == QueryFlags(doc=True)


def test_paging_is_a_capability_of_its_own() -> None:
    """R122, R285."""
    paged = QueryFlags(limit="5", filter=("a",))
    assert paged.supported({**capabilities.list_initial(), "flags": []}) == QueryFlags(limit="5")
    assert paged.supported({**capabilities.list_initial(), "pagination": False}) == QueryFlags(filter=("a",))


def test_ignore_means_all_unless_named() -> None:
    """The flag ``ignore`` without a value means all values (R204)."""
    everything = capabilities.list_initial()
    assert NOTHING.for_write(everything, Xid()).ignore == frozenset()
    assert QueryFlags(ignore=("",)).for_write(everything, Xid()).ignore == frozenset(capabilities.IGNORES)
    assert QueryFlags(ignore=("epoch",)).for_write(everything, Xid()).ignore == {"epoch"}
    with pytest.raises(RegistryError) as caught:
        QueryFlags(ignore=("nope",)).for_write(everything, Xid())
    assert caught.value.code == "bad_ignore"


@pytest.mark.parametrize("version", [None, "1.0-rc4", "1.0-RC4", "1.0.7-rc4", "v1.0-rc4"])
def test_specversions_spoken(version: str | None) -> None:
    """The patch number is ignored, the suffix is not (R180)."""
    check_specversion(version, ["1.0-rc4"], subject="/")


@pytest.mark.parametrize("version", ["1.0", "1.0-rc2", "2.0-rc4", "", "x"])
def test_unsupported_specversion_is_rejected(version: str) -> None:
    """Versions other than the supported ones are rejected (R180)."""
    with pytest.raises(RegistryError) as caught:
        check_specversion(version, ["1.0-rc4"], subject="/")
    assert caught.value.code == "unsupported_specversion"
