"""The kinds of differences between JSON Schemas, by rule, and their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from signalbook.formats.base import shorten
from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.terms import Term
from signalbook.formats.jsonschema.document import make_public_uri
from signalbook.values import JSON, dump_json

_MAX_SHOWN_JSON_CHARS: Final = 300
_MAX_EXAMPLES: Final = 5

MESSAGES: Final[dict[str, str]] = {
    "type_changed": "the writer's values are of type {old}, and none of them is accepted here",
    "type_narrowed": "values of type {missing} may be written, but are not accepted here",
    "nothing_accepted": "nothing at all is accepted here, but there may be a value",
    "enum_added": "only listed values are accepted here, but others may be written",
    "enum_narrowed": "{values} may be written, but is not accepted here",
    "value_refused": "{values} may be written, but breaks `{broken}` here",
    "minimum_added": "numbers below {new} may be written, but are not accepted here",
    "minimum_increased": "numbers from {old} on may be written, but only those from {new} on are accepted here",
    "maximum_added": "numbers above {new} may be written, but are not accepted here",
    "maximum_decreased": "numbers up to {old} may be written, but only those up to {new} are accepted here",
    "multiple_of_added": "numbers that are no multiple of {new} may be written, but are not accepted here",
    "multiple_of_changed": "multiples of {old} may be written that are no multiple of {new}",
    "min_length_increased": "texts of {old} characters may be written, but at least {new} are needed here",
    "max_length_added": "texts of more than {new} characters may be written, but are not accepted here",
    "max_length_decreased": "texts of {old} characters may be written, but at most {new} are accepted here",
    "pattern_added": "texts that do not match {new} may be written, but are not accepted here",
    "pattern_changed": "texts that match {old} need not match {new}",
    "content_changed": "the encoding or media type of texts is another one here: {new}",
    "min_items_increased": "arrays of {old} items may be written, but at least {new} are needed here",
    "max_items_added": "arrays of more than {new} items may be written, but are not accepted here",
    "max_items_decreased": "arrays of {old} items may be written, but at most {new} are accepted here",
    "unique_items_added": "items may be written twice, but must differ from each other here",
    "contains_narrowed": "arrays may be written that do not contain what is needed here",
    "item_added_to_open_content_model": "item {name} is described here, but the writer lets it be anything",
    "item_removed_from_closed_content_model": "item {name} may be written, but there is no such item here",
    "additional_items_removed": "arrays may be written with more items than are accepted here",
    "min_properties_increased": "objects of {old} members may be written, but at least {new} are needed here",
    "max_properties_added": "objects of more than {new} members may be written, but are not accepted here",
    "max_properties_decreased": "objects of {old} members may be written, but at most {new} are accepted here",
    "required_added": (
        "member {name} is required here, but may be missing in what is written (a default does not help: validation "
        "fills nothing in)"
    ),
    "property_added_to_open_content_model": (
        "member {name} is described here, but the writer's objects are open: they may hold anything under that name"
    ),
    "property_added_to_partially_open_content_model": (
        "member {name} is described here in a way that does not cover what the writer allows for members of other names"
    ),
    "property_removed_from_closed_content_model": "member {name} may be written, but there is no such member here",
    "property_removed_from_partially_open_content_model": (
        "member {name} may be written, but is not described here, and members that are not may not hold all its values"
    ),
    "additional_properties_removed": (
        "members of any name may be written, but only the described ones are accepted here"
    ),
    "additional_properties_narrowed": "members of other names may be anything, but not all of that is accepted here",
    "pattern_property_added": "members whose name matches {name} may hold what is not accepted here",
    "property_names_narrowed": "members may be written whose names are not accepted here: {name}",
    "dependency_added": "where there is a member {name}, more is asked for here",
    "alternative_removed": "no alternative here accepts {old}",
    "not_narrowed": "values that match this may be written, but are refused here",
    "undecided": "it could not be shown that all that may be written is accepted here: {name}",
    "definition_removed": "the definition {name} is gone; what refers to it finds nothing",
}


def describe_difference(rule: str, term: Term, keyword: str = "", *, old: JSON = None, **words: object) -> Difference:
    """Return the difference ``rule`` at ``keyword`` of the reader's schema, or at the schema itself if it is empty.

    ``old`` is the writer's value. ``words`` are the other values in the message of the rule.
    """
    path = term.find_path(keyword) if keyword else term.path
    new = term.read_raw(keyword) if keyword else term.raw
    words_shown = {"old": format_value(old), "new": format_value(new), **words}
    return Difference(
        path=make_public_uri(path),
        rule=rule,
        old=abbreviate(old),
        new=abbreviate(new),
        message=shorten(MESSAGES[rule].format(**words_shown)),
    )


def make_undecided(term: Term, why: str, keyword: str = "") -> Difference:
    """Return the ``undecided`` difference at ``keyword`` of ``term``, with ``why`` as the reason."""
    return describe_difference("undecided", term, keyword, name=why)


def is_definite(differences: Iterable[Difference]) -> bool:
    """Return True if ``differences`` has one that is not ``undecided``."""
    return any(difference.rule != "undecided" for difference in differences)


def abbreviate(value: JSON) -> JSON:
    """Return ``value`` if it is small enough to display; otherwise the start of it, or a summary of its contents."""
    # Measure without serializing, because an enum may have megabytes of which only a line is displayed.
    if not isinstance(value, (dict, list, str)) or _measure(value, _MAX_SHOWN_JSON_CHARS) >= 0:
        return value
    if isinstance(value, str):
        return value[:_MAX_SHOWN_JSON_CHARS] + "…"
    return (
        f"{len(value)} items …" if isinstance(value, list) else f"{{{', '.join(value)}}}"[:_MAX_SHOWN_JSON_CHARS] + " …"
    )


def _measure(value: JSON, chars_left: int) -> int:
    """Return ``chars_left`` minus the approximate length of ``value`` as text; negative if ``value`` is longer."""
    if isinstance(value, (dict, list)):
        for name, item in value.items() if isinstance(value, dict) else (("", item) for item in value):
            chars_left = _measure(item, chars_left - 1 - len(name))
            if chars_left < 0:
                break
        return chars_left
    return chars_left - (len(value) if isinstance(value, str) else 8)


def format_value(value: JSON) -> str:
    """Return ``value`` as text for messages; None becomes "anything"."""
    abbreviated = abbreviate(value)
    return "anything" if value is None else abbreviated if abbreviated is not value else dump_json(value).decode()


def format_first(values: list[JSON]) -> str:
    """Return the first few of ``values`` as text, with the number of the remaining ones."""
    listed = ", ".join(format_value(value) if value is not None else "null" for value in values[:_MAX_EXAMPLES])
    return listed + (f" and {len(values) - _MAX_EXAMPLES} more" if len(values) > _MAX_EXAMPLES else "")
