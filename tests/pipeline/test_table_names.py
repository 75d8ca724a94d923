"""Tables are named by their definition, whatever its ids look like."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, build_table_name, escape, find_definition

IDS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("xid", "path"),
    [
        ("/messagegroups/shop/messages/order.placed", "shop/order.placed"),
        ("/messagegroups/com.example.shop/messages/com.example.order@v1", "com.example.shop/com.example.order@v1"),
        ("/endpoints/shop/messages/order.placed", "endpoints%2Fshop/order.placed"),
        ("/messagegroups/a:b/messages/_c", "a%3Ab/%5Fc"),
        ("/messagegroups/../messages/..", "%2E%2E/%2E%2E"),
        ("/messagegroups/con/messages/nul.x", "%63on/%6Eul.x"),
        ("/messagegroups/a\\b/messages/a=b c", "a%5Cb/a%3Db%20c"),
        ("/messagegroups/\x00/messages/ü", "%00/%C3%BC"),
        ("/messagegroups/signalbook/messages/dead_letters", "signalbook/%64ead_letters"),
        ("/messagegroups/shop/messages/order@2", "shop/order%402"),
        ("/messagegroups/shop/messages/order@0", "shop/order@0"),
    ],
)
def test_a_definition_has_a_table(xid: str, path: str) -> None:
    assert build_table_name(xid).path == path
    assert find_definition(build_table_name(xid)) == xid


@given(IDS, IDS)
def test_no_id_leaves_its_folder_and_every_name_reads_back(group: str, message: str) -> None:
    xid = f"/messagegroups/{group}/messages/{message}"
    name = build_table_name(xid)
    assert name != DEAD_LETTERS
    for part in (name.group, name.message):
        assert PurePosixPath(part).name == part
        assert not part.startswith((".", "_"))
        assert len(part) < 255
    assert find_definition(name) == xid
    assert (name.version, name.first, name.with_version(1)) == (1, name, name)
    second = name.with_version(2)
    assert (second.version, second.first, second.with_version(12).version) == (2, name, 12)
    assert find_definition(second) == xid
    assert second != build_table_name(f"{xid}@2")


def test_long_ids_are_truncated_and_unique() -> None:
    first, other = escape("ü" * 100 + "a"), escape("ü" * 100 + "b")
    assert first != other
    assert len(first) < 255


def test_names_read_like_sql() -> None:
    assert str(TableName("shop", "order.placed")) == "shop.order.placed"
