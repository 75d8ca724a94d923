"""What a new Protobuf document must not do to an old one (G-30)."""

import pytest

from signalbook.formats.compatibility import Difference, SchemaText, list_differences
from signalbook.formats.protobuf import FORMAT

THREE = 'syntax = "proto3"; '


def text(document: str) -> SchemaText:
    whole = document if document.startswith("syntax") else f"{THREE}message M {{ {document} }}"
    return SchemaText(document=whole.encode(), format="Protobuf")


def hazards(old: str, new: str) -> list[Difference]:
    return FORMAT.hazards(new=text(new), old=text(old))


FREED = [("M.a", "field_number_not_reserved"), ("M.a", "field_name_not_reserved")]
TABLE: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "a field more": ("int32 a = 1;", "int32 a = 1; int32 b = 2;", []),
    "a field less": ("int32 a = 1;", "", FREED),
    "a field less, reserved": ("int32 a = 1;", 'reserved 1; reserved "a";', []),
    "only the number": ("int32 a = 1;", "reserved 1;", FREED[1:]),
    "only the name": ("int32 a = 1;", 'reserved "a";', FREED[:1]),
    "a range holds the number": ("int32 a = 7;", 'reserved 2, 5 to 9; reserved "a";', []),
    "no range holds the number": ("int32 a = 4;", 'reserved 2, 5 to 9; reserved "a";', FREED[:1]),
    "up to the last": ("int32 a = 7;", 'reserved 5 to max; reserved "a";', []),
    "a field renamed": ("int32 a = 1;", "int32 b = 1;", []),
    "a field renumbered": ("int32 a = 1;", "int32 a = 2;", FREED[:1]),
    "a reserved number used": ("reserved 1;", "int32 a = 1;", [("M.a", "reserved_number_used")]),
    "a reserved name used": ('reserved "a";', "int32 a = 1;", [("M.a", "reserved_name_used")]),
    "a reservation dropped": ("reserved 1;", "", [("M", "reservation_dropped")]),
    "a reserved name dropped": ('reserved "a";', "", [("M", "reservation_dropped")]),
    "a reservation widened": ("reserved 3 to 5;", "reserved 1 to 9;", []),
    "a reservation split": ("reserved 1 to 4;", "reserved 1 to 2, 3 to 4;", []),
    "a field inside a message inside": ("message I { int32 a = 1; }", "message I {}",
        [("M.I.a", "field_number_not_reserved"), ("M.I.a", "field_name_not_reserved")]),
    "an enum's value less": ("enum E { Z = 0; A = 1; }", "enum E { Z = 0; }",
        [("M.E.A", "enum_value_number_not_reserved"), ("M.E.A", "enum_value_name_not_reserved")]),
    "an enum's value less, reserved": ("enum E { Z = 0; A = 1; }", 'enum E { Z = 0; reserved 1; reserved "A"; }', []),
    "an enum's reserved range has its end": (
        "enum E { Z = 0; A = 3; }", 'enum E { Z = 0; reserved 1 to 3; reserved "A"; }', [],
    ),
    "an enum's reserved number used": ("enum E { Z = 0; reserved -2 to -1; }", "enum E { Z = 0; A = -1; reserved -2; }",
        [("M.E.A", "reserved_number_used")]),
    "an enum outside a message": (
        f"{THREE}enum E {{ Z = 0; A = 1; }}", f'{THREE}enum E {{ Z = 0; reserved 1; reserved "A"; }}', [],
    ),
    "a message gone": (f"{THREE}message M {{}} message N {{ message I {{}} }}", "", [("N", "message_removed")]),
    "a message inside gone": ("message I {}", "", [("M.I", "message_removed")]),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), TABLE.values(), ids=TABLE)
def test_removed_numbers_and_names_must_be_reserved(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    """A removed or reserved number or name cannot be reused (G-30)."""
    assert [(hazard.path, hazard.rule) for hazard in hazards(old, new)] == expected


def test_dropped_parts_of_a_reservation_are_listed() -> None:
    """The numbers that are free again: those not reserved any more, and in no use."""
    found_hazards = hazards("reserved 1 to 10;", "reserved 2 to 3, 6; int32 a = 9;")
    expected = [[1, 1], [4, 5], [7, 8], [10, 10]]
    assert [hazard.old for hazard in found_hazards if hazard.rule == "reservation_dropped"] == expected


def test_the_number_of_hazards_is_bounded() -> None:
    assert len(hazards(" ".join(f"int32 f{number} = {number};" for number in range(1, 300)), "")) == 100


@pytest.mark.parametrize("rule", ["backward", "forward", "full_transitive"])
def test_every_rule_asks_for_reservations(rule: str) -> None:
    """Numbers are unique in every direction of data; a repeated finding is reported once (G-27, G-30)."""
    differences = list_differences(rule, text(""), text("int32 a = 1;"))
    assert [difference.rule for _, difference in differences] == [
        "field_number_not_reserved",
        "field_name_not_reserved",
    ]
    removed = list_differences(rule, text(f"{THREE}message N {{}}"), text(f"{THREE}message M {{}} message N {{}}"))
    assert [difference.rule for _, difference in removed] == ["message_removed"]
