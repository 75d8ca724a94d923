"""Every verdict on random pairs of JSON Structure documents is sound and every reason true, judged by the validator."""

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

from tests.formats.jsonstructure.makers import Maker
from tests.formats.reasons import Tally, judge_pairs

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.formats.jsonstructure import FORMAT, JsonStructure
from signalbook.values import JSON, JSONObject, dump_json

DRAFT = "JsonStructure/draft-04"
# Types that are gone are missed by what refers to them, not by a value.
SKIPPED = ("definition_removed", "type_removed")
REMOVED = "property_removed_from_closed_content_model"
OF_TYPE = ("type", "choices", "tuple", "enum", "const", "maxLength", "precision", "scale", "contentEncoding")


def loosened(document: JSONObject, paths: Iterable[str]) -> JSONObject:
    """Return ``document`` without what it asks for at some places: a keyword is gone, a type is any."""
    changed = deepcopy(document)
    for path in dict.fromkeys(paths):  # one place may have several reasons
        nodes: list[Any] = [changed]
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        for part in parts:
            if not isinstance(nodes[-1], (dict, list)):  # the name of a type in a union, or a part of the writer's
                break
            nodes.append(nodes[-1].get(part) if isinstance(nodes[-1], dict) else nodes[-1][int(part)])
        if parts[-1] == "required" and len(nodes) > len(parts) and parts[-1] in nodes[-2]:
            del nodes[-2][parts[-1]]
        elif parts[-1] == "additionalProperties" and len(nodes) > len(parts):
            nodes[-2][parts[-1]] = {"type": "any"}
        else:
            at = max((at for at, node in enumerate(nodes) if at and is_type(node)), default=0)
            if at:
                nodes[at - 1][parts[at - 1]] = {"type": "any"}
    return changed


def is_around(path: str, inner: str) -> bool:
    """Return True if the place ``inner`` vanishes when the place ``path`` is loosened."""
    parent, _, last = path.rpartition("/")
    return inner == path or f"{inner}/".startswith(f"{parent if last in OF_TYPE else path}/")


def is_type(node: Any) -> bool:
    """Return True if a part of a document declares a type."""
    kind = node.get("type") if isinstance(node, dict) else None
    return isinstance(kind, (str, list)) or (isinstance(kind, dict) and "$ref" in kind)


def judge(dice: Random, tally: Tally) -> None:
    maker = Maker(dice)
    first = maker.document()
    second = maker.changed(first)
    old, new = (first, second) if dice.random() < 0.5 else (second, first)
    try:
        written, read = (FORMAT.parse(dump_json(schema), DRAFT) for schema in (old, new))
    except SchemaError:
        tally.counts["no schema"] += 1
        return
    reordered = {**dict(reversed(new.items())), "$id": "https://example.com/e"}
    reader, writer, same = (SchemaText(document=dump_json(schema), format=DRAFT) for schema in (new, old, reordered))
    assert FORMAT.differences(reader, same) == []
    differences = FORMAT.differences(reader, writer)

    def rejections() -> Iterator[JSON]:
        for _ in range(10_000 if differences else 30):
            value = maker.value(written.structure, written.schema)
            if not written.validate(value) and read.validate(value):
                yield value

    # A member that the reader's closed object lacks is accepted by an open one.
    paths_of_reader = [
        f"{difference.path.rpartition('/properties/')[0]}/additionalProperties"
        if difference.rule == REMOVED
        else difference.path
        for difference in differences
    ]

    @cache
    def without(*paths: str) -> JsonStructure | None:
        try:
            return FORMAT.parse(dump_json(loosened(new, paths)), DRAFT)
        except SchemaError:
            return None

    def describes(difference: Difference, value: JSON) -> bool:
        if difference.rule == REMOVED:  # its path is in the writer's document
            return any(f"'{name}'" in difference.message for name in re.findall(r"'(\w+)':", str(value)))
        other_paths = [path for path in dict.fromkeys(paths_of_reader) if not is_around(path, difference.path)]
        # A type that refers to the place may be around it, too.
        several: list[Iterable[str]] = [
            other_paths,
            [],
            *([path for path in other_paths if path != removed] for removed in other_paths),
            *combinations(other_paths, 1),
            *combinations(other_paths, 2),
        ]
        return any(changes(value, paths, difference.path) for paths in several)

    def changes(value: JSON, other_paths: Iterable[str], path: str) -> bool:
        before, after = without(*other_paths), without(*other_paths, path)
        return before is None or after is None or before.validate(value) != after.validate(value)

    tally.add(f"{dump_json(old).decode()} read as {dump_json(new).decode()}", differences, rejections(), describes)


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs, SKIPPED)
