"""The error catalogue against the specification's list, and what an error says."""

import re
from pathlib import Path
from typing import Any

import pytest

from signalbook.errors import CATALOGUE, RegistryError
from signalbook.values import Finding

# Code, status, document and title of every error of xRegistry 1.0-rc4 (core/spec.md and core/http.md).
PINNED = Path(__file__).parent / "data" / "errors.tsv"


def catalogue() -> set[tuple[str, ...]]:
    return {(row.code, str(row.status), row.document, row.title) for row in CATALOGUE.values()}


def test_the_catalogue_is_the_specifications() -> None:  # R278, R279
    assert catalogue() == {tuple(line.split("\t")) for line in PINNED.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_error_can_be_raised(code: str) -> None:  # R280
    arguments: dict[str, Any] = {name: f"the {name}" for name in CATALOGUE[code].arguments}
    error = RegistryError(code, subject="/x", **arguments)
    assert not re.search(r"<[a-z_]+>", error.title)
    assert all(value in error.title for value in arguments.values())
    assert error.status == CATALOGUE[code].status
    assert error.definition.type.endswith(f"#{code}")


def test_arguments_are_those_of_the_titles() -> None:  # R279, R280
    for line in PINNED.read_text(encoding="utf-8").splitlines():
        code, _, _, title = line.split("\t")
        assert set(re.findall(r"<([a-z_]+)>", title)) - {"subject"} == set(CATALOGUE[code].arguments), code


def test_argument_names_are_legal() -> None:  # R280
    for row in CATALOGUE.values():
        assert all(re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name) for name in row.arguments)


def test_an_error_needs_its_own_arguments() -> None:
    with pytest.raises(TypeError, match="bad_flag takes"):
        RegistryError("bad_flag", subject="/")
    with pytest.raises(TypeError, match="not_found takes"):
        RegistryError("not_found", subject="/", id="x")
    with pytest.raises(KeyError):
        RegistryError("no_such_error", subject="/")


def test_error_lists_all_faults() -> None:
    faults = [
        Finding(path="a.b", rule="type", message="is no string"),
        Finding(path="", rule="size", message="is large"),
    ]
    error = RegistryError("not_found", subject="/dirs/d", detail="Look elsewhere", faults=faults)
    assert str(error).splitlines() == [
        "The targeted entity (/dirs/d) cannot be found.",
        "Look elsewhere",
        "  a.b: is no string [type]",
        "  /: is large [size]",
    ]


def test_a_detail_that_ends_in_a_dot_ends_the_title_once() -> None:
    assert RegistryError("bad_request", subject="/", error_detail="No.").title == "No."
