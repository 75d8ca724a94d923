"""Shapes are bounded."""

from __future__ import annotations

from signalbook.formats.shape import MAX_LEAVES, Anything, Field, ListOf, MapOf, Scalar, Struct, bounded, leaves

TEXT = Scalar(kind="string")


def struct(count: int) -> Struct:
    fields = (Field(name=f"f{i}", attribute=f"f{i}", shape=TEXT) for i in range(count))
    return Struct(fields=tuple(fields), nullable=True)


def test_counts_columns() -> None:
    assert leaves(struct(3)) == 3
    assert leaves(ListOf(item=struct(2))) == 2
    assert leaves(MapOf(value=Anything())) == 2


def test_too_many_columns_are_kept_as_text() -> None:
    assert bounded(struct(MAX_LEAVES)) == struct(MAX_LEAVES)
    assert bounded(struct(MAX_LEAVES + 1)) == Anything(nullable=True)
