"""Every verdict on random pairs of JSON Schemas is sound and every reason true, judged by the validator (G-30)."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final
from urllib.parse import unquote

from tests.formats.jsonschema.comparison.makers import Guide, Maker
from tests.formats.reasons import Tally, judge_pairs

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.comparison import compare
from signalbook.formats.jsonschema.comparison.wording import format_value
from signalbook.values import JSON, dump_json

DRAFT: Final = "JsonSchema/draft/2020-12"
# Rules that speak of a size, with the type that has it.
SIZES: Final[dict[str, type[str | list[Any] | dict[str, Any]]]] = {
    "min_length_increased": str, "max_length_decreased": str, "min_items_increased": list, "max_items_decreased": list,
    "min_properties_increased": dict, "max_properties_decreased": dict,
}  # fmt: skip
SKIPPED: Final = ("definition_removed",)
# A value that the reader rejects, with the places in the reader's document that reject a part of it, and these parts.
Rejection = tuple[JSON, list[tuple[str, JSON]]]


def at(value: Any, pointer: str) -> JSON:
    """The part of a value that a JSON Pointer leads to."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def describes(difference: Difference, rejection: Rejection) -> bool:
    """Return True if a difference is about a schema location that rejects a part of the value, and about that part."""
    # The validator does not say which part of an ``unevaluated...`` schema rejects a value.
    path, cut, _ = unquote(difference.path.lstrip("#")).partition("/unevaluated")
    parts = [part for place, part in rejection[1] if cut or place == path or place.startswith(f"{path}/")]
    if difference.rule == "required_added":  # the validator may report ``additionalProperties`` beside it instead
        schema = path.removesuffix("/required")
        objects = [part for place, part in rejection[1] if place.startswith(schema) and isinstance(part, dict)]
        name = difference.message.split()[1]
        return any(name not in object_ for object_ in objects)
    if difference.rule in SIZES:
        kind = SIZES[difference.rule]
        return any(len(object_) == difference.old for object_ in parts if isinstance(object_, kind))
    if difference.rule in ("enum_narrowed", "value_refused"):
        return any(("null" if object_ is None else format_value(object_)) in difference.message for object_ in parts)
    return bool(parts)


def judge(dice: Random, tally: Tally) -> None:
    wild = dice.random() < 0.3
    maker = Maker(dice, wild=wild)
    first = maker.document()
    second = maker.changed(first)
    old, new = (first, second) if dice.random() < 0.5 else (second, first)
    try:
        writer, reader = (FORMAT.parse(dump_json(schema), DRAFT) for schema in (old, new))
        accepts, validator = writer.validator.is_valid, reader.validator
    except SchemaError:
        tally.counts["no schema"] += 1
        return
    assert compare(reader.document, reader.document) == []
    differences = compare(reader.document, writer.document)
    guide = Guide(
        dice, old, new, [difference for difference in differences if difference.rule not in ("undecided", *SKIPPED)]
    )

    def rejections() -> Iterator[Rejection]:
        for _ in range(30 if not differences else 5000):
            value = guide.value()
            if accepts(value) and not validator.is_valid(value):
                nodes = (node for node in validator.evaluate(value).list()["details"] if not node["valid"])
                yield (
                    value,
                    [
                        (unquote(schema["schemaLocation"]).partition("#")[2], at(value, schema["instanceLocation"]))
                        for schema in nodes
                    ],
                )

    def shows(difference: Difference, rejection: Rejection) -> bool:
        if not describes(difference, rejection):
            return False
        guide.drop(difference)
        return True

    tally.add(
        f"{dump_json(old).decode()} read as {dump_json(new).decode()}",
        differences,
        rejections(),
        shows,
        strict=not wild,
    )


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs, SKIPPED)
