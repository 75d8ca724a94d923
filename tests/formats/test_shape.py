from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.formats.shape import MAX_LEAVES, count_leaves, limit_columns, list_narrowed_members

TEXT = Scalar(kind="string")


def struct(count: int) -> Struct:
    fields = (Field(name=f"f{i}", attribute=f"f{i}", shape=TEXT) for i in range(count))
    return Struct(fields=tuple(fields), nullable=True)


def test_counts_columns() -> None:
    assert count_leaves(struct(3)) == 3
    assert count_leaves(ListOf(item=struct(2))) == 2
    assert count_leaves(MapOf(value=Anything())) == 2


def test_too_many_columns_are_kept_as_text() -> None:
    assert limit_columns(struct(MAX_LEAVES)) == struct(MAX_LEAVES)
    assert limit_columns(struct(MAX_LEAVES + 1)) == struct(MAX_LEAVES + 1)  # each of which the schema names


def test_the_widest_members_become_text() -> None:
    """The last ones among equally wide members become text, so that an additional member does not change the others."""
    shapes: list[Shape] = [TEXT, struct(4000), ListOf(item=struct(5000)), MapOf(value=struct(4000)), TEXT]
    names = ["a", "b", "c", "d", "e"]
    fields = [Field(name=name, attribute=name, shape=shape) for name, shape in zip(names, shapes, strict=True)]
    result = limit_columns(Struct(fields=tuple(fields)))
    expected = [*(TEXT, struct(4000), ListOf(item=Anything(nullable=True)), MapOf(value=struct(4000)), TEXT)]
    assert [field.shape for field in result.fields] == expected
    assert result.fields[2].description.startswith("(JSON text")
    assert list(list_narrowed_members(MapOf(value=result))) == ["c"]
    alike = tuple(Field(name=f"m{number}", attribute=f"m{number}", shape=struct(100)) for number in range(101))
    narrowed = [field.name for field in limit_columns(Struct(fields=alike)).fields if isinstance(field.shape, Anything)]
    assert narrowed == ["m99", "m100"]
