"""Places whose objects have about the same members are one family."""

import pytest
from tests.pipeline.inference.conftest import summary

from signalbook.pipeline.inference.schemas import ENOUGH, ObjectFamilies

USER = {"id": 1, "login": "x", "name": "n", "url": "u"}


@pytest.mark.parametrize(
    ("other", "objects"),
    [
        (USER, 2),
        ({**USER, "site": True}, 2),
        ({"id": 1, "login": 1, "path": 1, "size": 1}, 1),
        ({"id": 1}, 1),
        ([USER, USER], 3),
    ],
    ids=["the same", "one more", "others", "few", "items"],
)
def test_families(other: object, objects: int) -> None:
    seen = summary({"a": USER, "b": other})
    family = ObjectFamilies([seen]).find_family(seen.members["a"])
    assert family is not None
    assert family.objects == objects


def test_objects_with_few_members_have_no_family() -> None:
    seen = summary({"a": {"id": 1}})
    assert ObjectFamilies([seen]).find_family(seen.members["a"]) is None


def test_positions_with_enough_values_need_no_family() -> None:
    seen = summary(*[USER] * ENOUGH)
    assert ObjectFamilies([seen]).find_family(seen) is None


def test_very_many_shapes_are_bounded() -> None:
    places = [summary({f"m{number}-{n}": 1 for n in range(5)}) for number in range(2000)]
    kin = ObjectFamilies(places)
    assert kin.find_family(places[0]) is not None
    assert kin.find_family(places[-1]) is None
