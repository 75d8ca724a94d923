"""Variables in cases: ``{name}`` in any text, filled in from what the run knows and earlier answers gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from signalbook.values import JSON

Variables = dict[str, JSON]
"""Names to values: paths and type names of the run, and what a case captured."""

_NAME: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def fill(value: JSON, variables: Mapping[str, JSON]) -> JSON:
    """``value`` with its variables replaced, in keys too; a text that is one variable alone takes its value as is.

    Names that are no variable stay as they are: a document may well hold braces.
    """
    if isinstance(value, str):
        return _text(value, variables)
    if isinstance(value, dict):
        return {str(_text(key, variables)): fill(member, variables) for key, member in value.items()}
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    return value


def names(value: JSON) -> Iterator[str]:
    """What looks like a variable anywhere in ``value``."""
    if isinstance(value, str):
        yield from _NAME.findall(value)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _NAME.findall(key)
            yield from names(member)
    elif isinstance(value, list):
        for item in value:
            yield from names(item)


def _text(text: str, variables: Mapping[str, JSON]) -> JSON:
    alone = _NAME.fullmatch(text)
    if alone and alone[1] in variables:
        return variables[alone[1]]
    return _NAME.sub(lambda found: str(variables.get(found[1], found[0])), text)
