"""Names in generated files: legal in their language, and one for each thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from keyword import iskeyword, issoftkeyword
from typing import Final

from signalbook.pipeline.table_names import escape

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MAX_NAME_CHARS: Final = 80


def words(text: str) -> list[str]:
    """The words of a name, such as ``order``, ``placed`` of ``order.placed`` and of ``OrderPlaced``; ASCII alone."""
    return _WORDS.findall(text.encode("ascii", "ignore").decode()[:_MAX_NAME_CHARS])


def underscored(text: str, fallback: str) -> str:
    """Words in lower case with underscores between them, which may be one that a language has a use for."""
    name = "_".join(word.lower() for word in words(text)) or fallback
    return f"n_{name}" if name[0].isdigit() else name


def snake(text: str, fallback: str = "value") -> str:
    """A name as a function or variable of Python has it."""
    name = underscored(text, fallback)
    return f"{name}_" if iskeyword(name) or issoftkeyword(name) else name


def pascal(text: str, fallback: str = "Value") -> str:
    """A name as a class has it."""
    name = "".join(word[:1].upper() + word[1:] for word in words(text)) or fallback
    name = f"N{name}" if name[0].isdigit() else name
    return f"{name}_" if iskeyword(name) else name


def last_part(xid: str) -> str:
    """The id of the entity that an xid names."""
    return xid.rpartition("/")[2]


def constant_name(xid: str) -> str:
    """The name of a constant that stands for a message."""
    return snake(last_part(xid), "message").upper()


def group_files(groups: Iterable[str]) -> dict[str, str]:
    """The name of each group's file, without a suffix: its id, with its type before it unless that is the usual one."""
    return unique(groups, _group_file)


def _group_file(group: str) -> str:
    _, kind, name = group.split("/", 2)
    return escape(name if kind == "messagegroups" else f"{kind}.{name}")


def unique(
    keys: Iterable[str], name: Callable[[str], str], reserved: Iterable[str] = (), before_number: str = "_"
) -> dict[str, str]:
    """Return a name for each of ``keys``, in their order. Names that collide, whatever their case, get a number."""
    used = {text.lower() for text in reserved}
    names: dict[str, str] = {}
    for key in keys:
        stem = candidate = name(key)
        number = 1
        while candidate.lower() in used:
            number += 1
            candidate = f"{stem}{before_number}{number}"
        used.add(candidate.lower())
        names[key] = candidate
    return names
