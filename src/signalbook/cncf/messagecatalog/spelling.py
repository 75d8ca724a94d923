"""One definition in the two drafts' spellings: fields as values (first draft) or as objects (0.1).

Everything else works on the spelling of 0.1, which says more (domain.md C-5).
"""

from __future__ import annotations

from collections.abc import Iterator

from signalbook.cncf.messagecatalog.metaschemas import METASCHEMAS, Section
from signalbook.cncf.messagecatalog.templates import plain
from signalbook.values import JSON, Finding, JSONObject

ENCODING = "amqpencoding"
SCHEMA = "dataschema"


def faults(format: str, definition: JSONObject) -> Iterator[Finding]:
    """Fields of the first draft that are neither text, number nor truth value (B-10, B-16)."""
    for name, section in _sections(format, definition):
        for field, value in section.items():
            if isinstance(value, dict | list):
                message = "it needs to be a value or a template in a string, not an object or an array"
                yield Finding(path=f"{name}.{field}", rule="spelling", message=message)


def lift(format: str, definition: JSONObject) -> JSONObject:
    """A definition of the first draft as 0.1 spells it; ``null`` is no field at all (B-11)."""
    lifted = dict(definition)
    for name, section in _sections(format, definition):
        lifted[name] = {
            field: value if field == ENCODING else {"value": value}
            for field, value in section.items()
            if value is not None
        }
    return lifted


def flatten(format: str, definition: JSONObject) -> JSONObject:
    """A definition of 0.1 as the first draft spells it: what is ``required``, descriptions and inline schemas go."""
    flat = dict(definition)
    for name, section in _sections(format, definition):
        flat[name] = {
            field: plain(value) if isinstance(value, dict) else value
            for field, value in section.items()
            if value is not None and not _only_inline(field, value)
        }
    return {name: section for name, section in flat.items() if section != {} or definition.get(name) == {}}


def sections_of(format: str) -> tuple[Section, ...]:
    """The sections of a predefined format, none of another."""
    return METASCHEMAS.get(format, ())


def _sections(format: str, definition: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    """Those sections of the metaschema that ``definition`` has as objects."""
    for section in sections_of(format):
        value = definition.get(section.name)
        if isinstance(value, dict):
            yield section.name, value


def _only_inline(field: str, value: JSON) -> bool:
    """Whether a data schema has no identity, so that the first draft has no way to say it."""
    return field == SCHEMA and isinstance(value, dict) and not value.get("value")
