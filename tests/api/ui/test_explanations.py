"""Every reason, and every rule that the code can give, has its sentence; and pages show it without scripts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

import signalbook
from signalbook.api.ui.explanations import ATTRIBUTES, REASONS, RULES, WORDS
from signalbook.messages.message import Reason

from ..conftest import Client
from .conftest import show

SOURCE = Path(signalbook.__file__).parent
DOCS = Path(__file__).parents[3] / "docs"
AREAS = ("messages", "formats", "pipeline/landing", "pipeline/sources")
"""Whose findings pages show."""
_PARTS = {"max_items", "max_length", "max_properties"}
"""What the code makes two rules of."""


def test_every_reason_has_its_sentence_in_pages_and_documentation() -> None:
    assert set(REASONS) == set(Reason)
    text = (DOCS / "dead-letters.md").read_text(encoding="utf-8")
    for reason, meaning in REASONS.items():
        assert f"| `{reason}` | {meaning}" in text, reason


def constants(trees: list[ast.Module]) -> dict[str, str]:
    """Texts that modules give a name."""
    found = {}
    for node in (each for tree in trees for each in tree.body if isinstance(each, ast.AnnAssign)):
        if isinstance(node.target, ast.Name) and isinstance(node.value, ast.Constant):
            found[node.target.id] = str(node.value.value)
    return found


def given(trees: list[ast.Module]) -> Iterator[ast.expr]:
    """Whatever is given for a parameter called ``rule``, by name or in its place."""
    places: dict[str, set[int]] = defaultdict(set)
    nodes = [each for tree in trees for each in ast.walk(tree)]
    for made in (each for each in nodes if isinstance(each, ast.FunctionDef)):
        names = [each.arg for each in made.args.args if each.arg not in ("self", "cls")]
        places[made.name] |= {names.index("rule")} if "rule" in names else set()
    for call in (each for each in nodes if isinstance(each, ast.Call)):
        yield from (each.value for each in call.keywords if each.arg == "rule")
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        yield from (call.args[place] for place in places.get(name, ()) if place < len(call.args))


@pytest.mark.parametrize("area", AREAS)
def test_every_rule_that_the_code_names_has_its_sentence(area: str) -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / area).rglob("*.py")]
    named = constants(trees)
    found = set()
    for each in given(trees):
        for part in (each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,):
            text = named.get(part.id) if isinstance(part, ast.Name) else getattr(part, "value", None)
            found |= {text} if isinstance(text, str) else set()
    assert found, "the code gives rules"
    assert found - RULES.keys() - _PARTS == set()


def test_every_rule_of_the_validator_and_of_the_documentation_has_its_sentence() -> None:
    text = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    settings = {"default_compatibility", "incompatible_changes", "compatibility_violation", "compatibility_unknown"}
    assert {each for each in rules if not each.endswith("_transitive")} - settings - RULES.keys() == set()
    kinds = {each for each in dir(jsonschema_rs.ValidationErrorKind) if each[0].isupper()}
    spelt = {"OneOfMultipleValid": "oneOf", "OneOfNotValid": "oneOf", "Constant": "const"}
    # Neither is met behind a schema that could be read.
    kinds -= {"Referencing", "RegexEngineFailure"}
    assert {spelt.get(each, each[0].lower() + each[1:]) for each in kinds} - RULES.keys() == set()


def test_each_is_one_plain_sentence() -> None:
    for name, meaning in [*REASONS.items(), *RULES.items(), *WORDS.items(), *ATTRIBUTES.items()]:
        assert re.fullmatch(r"[A-Z][^.]+\.", meaning.replace("application/json.", "json.")), name
        assert len(meaning) < 200, name


def test_a_page_has_the_sentence_where_the_name_stands(explorer: Client) -> None:
    page = show(explorer, "/schemagroups/shop/schemas/order")
    terms = {"".join(each[0].itertext()): "".join(each[1].itertext()) for each in page.all("details") if len(each) == 2}
    assert terms["epoch"] == WORDS["epoch"]
    assert terms["contenttype"] == ATTRIBUTES["contenttype"], sorted(terms)
