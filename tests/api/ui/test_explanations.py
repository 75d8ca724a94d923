"""Every reason, and every rule that the code can give, has its sentence; and pages show it without scripts."""

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
AREAS = ("messages", "formats", "pipeline")
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
    values = {}
    for node in (statement for tree in trees for statement in tree.body if isinstance(statement, ast.AnnAssign)):
        if isinstance(node.target, ast.Name) and isinstance(node.value, ast.Constant):
            values[node.target.id] = str(node.value.value)
    return values


def given(trees: list[ast.Module]) -> Iterator[ast.expr]:
    """Whatever is given for a parameter called ``rule``, by name or in its place."""
    places: dict[str, set[int]] = defaultdict(set)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    for function in (node for node in nodes if isinstance(node, ast.FunctionDef)):
        names = [node.arg for node in function.args.args if node.arg not in ("self", "cls")]
        places[function.name] |= {names.index("rule")} if "rule" in names else set()
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        yield from (node.value for node in call.keywords if node.arg == "rule")
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        yield from (call.args[place] for place in places.get(name, ()) if place < len(call.args))


@pytest.mark.parametrize("area", AREAS)
def test_every_rule_in_the_code_has_its_sentence(area: str) -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / area).rglob("*.py")]
    names = constants(trees)
    rules = set()
    for expression in given(trees):
        for part in (expression.body, expression.orelse) if isinstance(expression, ast.IfExp) else (expression,):
            text = names.get(part.id) if isinstance(part, ast.Name) else getattr(part, "value", None)
            rules |= {text} if isinstance(text, str) else set()
    assert rules, "the code gives rules"
    assert rules - RULES.keys() - _PARTS == set()


def test_every_rule_of_the_validator_has_its_sentence() -> None:
    text = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    settings = {"default_compatibility", "incompatible_changes", "compatibility_violation", "compatibility_unknown"}
    assert {kind for kind in rules if not kind.endswith("_transitive")} - settings - RULES.keys() == set()
    kinds = {kind for kind in dir(jsonschema_rs.ValidationErrorKind) if kind[0].isupper()}
    spelt = {"OneOfMultipleValid": "oneOf", "OneOfNotValid": "oneOf", "Constant": "const"}
    # Neither is met behind a schema that could be read.
    kinds -= {"Referencing", "RegexEngineFailure"}
    assert {spelt.get(kind, kind[0].lower() + kind[1:]) for kind in kinds} - RULES.keys() == set()


def test_meanings_are_plain_sentences() -> None:
    for name, meaning in [*REASONS.items(), *RULES.items(), *WORDS.items(), *ATTRIBUTES.items()]:
        assert re.fullmatch(r"[A-Z][^.]+\.", meaning.replace("application/json.", "json.")), name
        assert len(meaning) < 200, name


def test_page_explains_a_rule_next_to_its_name(explorer: Client) -> None:
    page = show(explorer, "/schemagroups/shop/schemas/order")
    terms = {
        "".join(details[0].itertext()): "".join(details[1].itertext())
        for details in page.all("details")
        if len(details) == 2
    }
    assert terms["epoch"] == WORDS["epoch"]
    assert terms["contenttype"] == ATTRIBUTES["contenttype"], sorted(terms)
