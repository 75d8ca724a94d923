"""Generated packages: imported, type-checked, used."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.hostile import HOSTILE, document, entity_id, texts
from tests.codegen.packages import generated, imported, type_errors

from signalbook.codegen.base import GeneratorError, printable
from signalbook.codegen.runtime import to_data
from signalbook.messages import OutboundError, bind

STYLES = ["dataclass", "msgspec", "pydantic"]


@pytest.fixture(params=STYLES)
def modules(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, ModuleType]]:
    """The modules of the package of ``DOCUMENT`` in each style."""
    generated(tmp_path, DOCUMENT, style=str(request.param))
    with imported(tmp_path) as imported_modules:
        yield imported_modules


def order(modules: dict[str, ModuleType], **more: Any) -> Any:
    types = modules[GROUP + "order.placed"]._types
    return types.OrderPlaced(**{"kind": "new", "total": 5, "buyer": types.Buyer(e_mail="a@b"), **more})


def test_a_message_is_built_and_read_back(modules: dict[str, ModuleType]) -> None:
    placed = modules[GROUP + "order.placed"]
    outbound = placed.build(order(modules), shop="7")
    assert outbound.event.attributes["source"] == "/shops/7"
    read = placed.parse(bind(outbound, {"protocol": "HTTP"}))
    assert read.payload == order(modules)
    assert read.data == {"kind": "new", "total": 5, "buyer": {"e-mail": "a@b"}}
    assert (read.context, read.definition) == ({"shop": "7"}, GROUP + "order.placed")


def test_invalid_payload_is_not_built(modules: dict[str, ModuleType]) -> None:
    """Constraints that the payload classes lack are checked too, and the error has the path."""
    placed = modules[GROUP + "order.placed"]
    with pytest.raises(OutboundError) as caught:
        placed.build(order(modules, total=-1), shop="7")
    assert [finding.path for finding in caught.value.findings] == ["data/total"]
    with pytest.raises(TypeError, match="shop"):
        placed.build(order(modules))
    with pytest.raises(Exception, match=r"kind|Required|required"):  # as each style says it
        type(order(modules))(total=1)


STRICT: dict[str, Any] = {
    "type": "object", "additionalProperties": False, "patternProperties": {"^x-": {"type": "integer"}},
    "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}, "tags": {
        "type": "array", "items": {"type": "string"}, "uniqueItems": True, "contains": {"const": "x"}}},
    "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": {"required": ["n"]},
    "dependentRequired": {"tags": ["n"]}, "not": {"properties": {"n": {"const": 13}}, "required": ["n"]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ({"kind": "a"}, "required"),
        ({"n": 13}, "not"),
        ({"tags": ["x"]}, "required"),
        ({"n": 1, "tags": ["x", "x"]}, "uniqueItems"),
        ({"n": 1, "tags": ["y"]}, "contains"),
        ({"kind": "b", "n": 1, "tags": ["x"]}, None),
    ],
)
def test_rules_that_classes_have_no_form_for_hold(data: dict[str, Any], rule: str | None, tmp_path: Path) -> None:
    """The package checks the rules that datamodel-code-generator ignores."""
    message = {"dataschemaformat": "JsonSchema/draft/2020-12", "dataschema": STRICT}
    generated(tmp_path, {"messagegroups": {"g": {"messages": {"m": message}}}})
    with imported(tmp_path) as modules:
        module = modules["/messagegroups/g/messages/m"]
        payload = module.MESSAGE.typed_of(data)
        if rule is None:
            assert module.parse(bind(module.build(payload))).data == data
        else:
            with pytest.raises(OutboundError) as caught:
                module.build(payload)
            assert [finding.rule for finding in caught.value.findings] == [rule]


def test_messages_of_another_kind_are_not_read(modules: dict[str, ModuleType]) -> None:
    outbound = modules[GROUP + "order.placed"].build(order(modules), shop="7")
    with pytest.raises(Exception, match=r"no_match|metadata_violation"):
        modules[GROUP + "class"].parse(bind(outbound, {"protocol": "KAFKA", "protocoloptions": {"topic": "x"}}))


def test_payloads_without_types(modules: dict[str, ModuleType]) -> None:
    image = modules[GROUP + "image"]
    assert image.parse(bind(image.build(b"\x89PNG"))).payload == b"\x89PNG"


def test_package_contains_its_definitions(tmp_path: Path) -> None:
    """The package needs no registry: the definitions that it needs, and no others, are in it."""
    package = generated(tmp_path, DOCUMENT)
    assert list(package.left_out) == [GROUP + "broken"]
    data = (tmp_path / "messages" / "definitions.json").read_text()
    assert "shop/schemas/parcel" in data
    assert "broken" not in data


@pytest.mark.merge
def test_strict_type_checkers_accept_the_package(tmp_path: Path) -> None:
    """The type checkers reject what the definition forbids, as far as types can express it."""
    for style in STYLES:
        generated(tmp_path, DOCUMENT, style=style, package=f"in_{style}")
    program = tmp_path / "program.py"
    program.write_text(
        "from in_dataclass.payloads.order_placed_2 import Buyer, OrderPlaced\n"
        "from in_dataclass.shop_orders import order_placed_2\n"
        'order = OrderPlaced(kind="new", total=1, buyer=Buyer())\n'
        'reveal_type(order_placed_2.parse(order_placed_2.build(order, shop="1").anything).payload)\n'
        'OrderPlaced(kind="old", total=1)\n'
        "order_placed_2.build(order)\n"
    )
    errors = type_errors(tmp_path, *(f"in_{style}" for style in STYLES), "program.py")
    assert {line.partition(":")[0] for line in errors} == {"program.py"}, errors
    assert [line.split(":")[1] for line in errors if ": error:" in line] == ["4", "5", "6"]
    assert any('Revealed type is "in_dataclass.payloads.order_placed_2.OrderPlaced"' in line for line in errors)


def test_colliding_definitions_get_distinct_names(tmp_path: Path) -> None:
    """Names that are keywords, no identifiers, or names of the package itself, in groups and messages."""
    schema = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "object", "properties": {"a": True}}}
    names = ["class", "Class.", "CLASS-", "1", "日本", "__init__", "a b", "a.b", "a/b"[:1], "None"]
    groups = {group: {"messages": dict.fromkeys(names, schema)} for group in ("payloads", "definitions", "import", "é")}
    package = generated(tmp_path, {"messagegroups": groups})
    assert package.left_out == {}
    with imported(tmp_path) as modules:
        assert len(modules) == len(names) * len(groups)
        for module in modules.values():
            module.build(module._types.__dict__[module.Payload.__name__]())


@pytest.mark.parametrize("name", ["my-package", "1x", "a.b", "class", "../x"])
def test_package_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="package is a name such as shop_messages"):
        generated(tmp_path, DOCUMENT, package=name)


@pytest.mark.parametrize("style", STYLES)
def test_every_kind_of_hostile_text_is_data(style: str) -> None:
    check_texts(HOSTILE, style)


@settings(max_examples=5)
@given(texts=texts())
def test_hostile_texts_are_data(texts: list[str]) -> None:
    check_texts(texts, "dataclass")


def check_texts(texts: Sequence[str], style: str) -> None:
    """Import the package, and look for the texts in names, documentation and types, and in a payload."""
    with tempfile.TemporaryDirectory() as name:
        generated(Path(name), document(texts), style=style)
        with imported(Path(name)) as modules:
            for text in texts:
                xid = f"/messagegroups/{entity_id(text)}/messages/{entity_id(text)}"
                check_module(modules[xid], xid, text)


def check_module(module: ModuleType, xid: str, text: str) -> None:
    payload, wire_names = module.Payload, module._types.WIRE_NAMES
    assert module.MESSAGE.xid == xid
    assert (module.__doc__ or "") == " ".join(printable(text).split())
    names = wire_names.get(payload.__name__, {})
    hints = {names.get(attribute, attribute): hint for attribute, hint in get_type_hints(payload).items()}
    assert {text, "choice 0"} <= hints.keys()
    assert set(get_args(hints["choice 0"])) == {text, "other"}
    nested = next(part for part in get_args(hints[text]) if isinstance(part, type) and part is not type(None))
    inner = wire_names.get(nested.__name__, {})
    members = {inner.get(attribute, attribute): hint for attribute, hint in get_type_hints(nested).items()}
    assert members.keys() >= {text, "fixed member", "chosen member"}
    literals = [part for part in get_args(members["fixed member"]) if get_origin(part) is Literal]
    assert [get_args(literal) for literal in literals] == [(text,)]
    attributes = {wire: attribute for attribute, wire in names.items()}
    data = {attributes.get("choice 0", "choice 0"): text, attributes.get(text, text): nested()}
    assert to_data(payload(**data)) == {"choice 0": text, text: {}}
