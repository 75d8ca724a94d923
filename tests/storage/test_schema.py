from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.storage.base import Row
from signalbook.storage.schema import COLUMNS, dump, load, position
from signalbook.xid import Xid

STAMPS = st.datetimes(timezones=st.just(UTC))
IDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._~:@-]{0,10}", fullmatch=True)
XIDS = st.lists(IDS, max_size=3).map(
    lambda ids: Xid(tuple(part for pair in zip(("groups", "things", "versions"), ids, strict=False) for part in pair))
)
INTEGERS = st.integers(0, 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"))
ATTRIBUTES = st.dictionaries(TEXTS, st.none() | st.booleans() | INTEGERS | TEXTS)


@given(
    st.builds(
        Row,
        key=INTEGERS,
        parent=INTEGERS,
        xid=XIDS,
        epoch=INTEGERS,
        createdat=STAMPS,
        modifiedat=STAMPS,
        attributes=ATTRIBUTES,
        defaultversionid=st.none() | IDS,
        defaultversionsticky=st.booleans(),
        versioncounter=INTEGERS,
        xref=st.none() | XIDS,
        ancestorid=st.none() | IDS,
        document=st.none() | IDS,
        settled=st.none() | IDS,
        rank=st.none() | IDS,
    )
)
def test_load_undoes_dump(row: Row) -> None:
    columns = dump(row)
    assert load(tuple(columns[column.name] for column in COLUMNS)) == row


@pytest.mark.parametrize(
    ("xid", "expected"),
    [("/", ("", "")), ("/gs/Gid", ("gs", "gid")), ("/gs/g/rs/r/versions/V.1~X", ("versions", "v.1~x"))],
)
def test_position_among_siblings(xid: str, expected: tuple[str, str]) -> None:
    assert position(Xid.parse(xid)) == expected
