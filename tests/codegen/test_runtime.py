"""What generated packages run on: handlers, and the branches of unions."""

from pathlib import Path
from typing import Any

import pytest
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.packages import generated, imported

from signalbook.codegen.runtime import UnexpectedMessage, to_data
from signalbook.messages import Message, bind

SHAPE: dict[str, Any] = {"anyOf": [
    {"type": "object", "required": ["r"], "properties": {"r": {"type": "number"}}},
    {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "box"}, "w": {"type": "number"}}},
    {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "line"}, "w": {"type": "number"}}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "null"},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"r": 1.5}, "Shape1"),
        ({"kind": "box", "w": 1}, "Shape2"),
        ({"kind": "line", "w": 1}, "Shape3"),
        ([1, 2], "list"),
        (None, "NoneType"),
    ],
)
def test_matching_branch_of_a_union_is_chosen(data: Any, name: str, tmp_path: Path) -> None:
    message = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": SHAPE}
    generated(tmp_path, {"messagegroups": {"g": {"messages": {"shape": message}}}})
    with imported(tmp_path) as modules:
        value = modules["/messagegroups/g/messages/shape"].MESSAGE.typed_of(data)
        assert type(value).__name__ == name
        assert to_data(value) == data


def test_handlers(tmp_path: Path) -> None:
    generated(tmp_path, DOCUMENT)
    with imported(tmp_path) as modules:
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        placed, image = modules[GROUP + "order.placed"], modules[GROUP + "image"]
        seen: list[Any] = []
        table = handlers()
        table.on(placed.MESSAGE)(lambda message: seen.append(message.payload.total))
        order = placed._types.OrderPlaced(kind="new", total=3)
        batch = [placed.build(order, shop=shop).event for shop in "78"]
        assert table.dispatch(bind(placed.build(order, shop="7"), {"protocol": "HTTP"})) == 1
        assert table.dispatch(Message(content_type="application/cloudevents-batch+json", body=_json(batch))) == 2
        assert table.dispatch(bind(image.build(b""))) == 0  # nobody asked for it
        assert seen == [3, 3, 3]
        with pytest.raises(UnexpectedMessage, match="schema_violation: /total") as caught:
            table.dispatch(
                Message(content_type="application/cloudevents+json", body=_json(batch[0]).replace(b"3", b"-3"))
            )
        assert caught.value.rejected is not None


def _json(event: Any) -> bytes:
    from signalbook.messages.eventformats.base import JSON_EVENTS

    if isinstance(event, list):
        return b"[" + b",".join(map(JSON_EVENTS.encode, event)) + b"]"
    return JSON_EVENTS.encode(event)
