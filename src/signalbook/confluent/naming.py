"""Map contexts and subjects to schema groups and schemas (docs/decisions/145-confluent-api.md).

The id of a schema is the name of its subject if the name is a valid id. Otherwise the schema has a generated id, and
the attribute ``subject`` has the name. A generated id is also used if another id differs from the name only in case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.values import JSON, digest
from signalbook.xid import ID, Xid

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
"""The context for settings of all contexts. It has no subjects."""
ALL_CONTEXTS: Final = ":*:"
URL_PREFIX: Final = "confluent+"
"""The prefix of URLs of registries that are accessed through Confluent's API."""
SUBJECT: Final = "subject"
"""The attribute of a Version with the name of its subject, if the schema has another id."""
GROUPS: Final = "schemagroups"
SCHEMAS: Final = "schemas"
MAX_SUBJECT: Final = 4096
"""The maximum number of characters in a name."""
_QUALIFIED: Final = re.compile(r":(\.[^:]*)(?::(.*))?", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_COLON: Final = "="
"""Replaces the colons of a group id in the name of its context. No id contains it, and URLs need not escape it."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_BEGINNING: Final = 80
_DIGEST_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject: its context (``.name``, or ``.`` for the default context), and its name in the context."""

    context: str
    name: str

    def __str__(self) -> str:
        # In the default context, a name that looks like a subject of another context is written with its context.
        plain = self.context == DEFAULT_CONTEXT and not self.name.startswith(":.")
        return self.name if plain else f":{self.context}:{self.name}"


def parse_subject(text: str, context: str = DEFAULT_CONTEXT, default_group: str = "") -> Subject:
    """Return the subject that a client names. It is in ``context`` unless the name begins with another context."""
    match = _QUALIFIED.fullmatch(text)
    if match is None:
        return Subject(context, text)
    return Subject(_replace_default_group(match[1], default_group), match[2] or "")


def parse_context(text: str, default_group: str = "") -> str:
    """Return the context in a path or parameter: ``.NAME``, ``NAME`` or ``:.NAME:``.

    A colon in NAME is part of the name, because nothing follows it.
    """
    name = text[1:].removesuffix(":") if text.startswith(":") else text
    name = name.replace(":", _COLON)
    return _replace_default_group(name if name.startswith(".") else f".{name}", default_group)


def _replace_default_group(context: str, default_group: str) -> str:
    return DEFAULT_CONTEXT if default_group and group_id(context, "") == default_group else context


def is_global(context: str) -> bool:
    """Return True for the context that stands for all contexts. Its name is case-insensitive, like ids of groups."""
    return context.lower() == GLOBAL_CONTEXT.lower()


def is_subject(name: str) -> bool:
    """Return True if a subject can have this name."""
    return 0 < len(name) <= MAX_SUBJECT and "\0" not in name and name not in ("__GLOBAL", "__EMPTY")


def has_control_character(name: str) -> bool:
    """Return True if ``name`` has a control character, which is allowed only for subjects that exist already."""
    return _CONTROL.search(name) is not None


def group_id(context: str, default_group: str) -> str | None:
    """Return the id of the schema group for a context, or None if it cannot have one.

    ``context_of`` is the inverse. Every context has its own group, except that ``.DEFAULTGROUP`` has the group of the
    default context. ``parse_subject`` and ``parse_context`` read it as the default context.
    """
    if context == DEFAULT_CONTEXT:
        return default_group
    name = context.removeprefix(".")
    # A plain colon would separate the context from the subject.
    return name.replace(_COLON, ":") if ":" not in name and ID.fullmatch(name.replace(_COLON, ":")) else None


def context_of(group: str, default_group: str) -> str:
    """Return the context for the schema group with this id."""
    return DEFAULT_CONTEXT if group == default_group else f".{group.replace(':', _COLON)}"


def list_schema_ids(name: str) -> tuple[str, ...]:
    """Return the ids that the schema of a subject may have, in the order in which they are looked up."""
    generated = f"{_FOREIGN.sub('-', name).strip('.-')[:_BEGINNING] or 'subject'}~"
    name_digest = digest(name.encode("utf-8", "surrogatepass"))[:_DIGEST_CHARS]
    generated = f"{generated if generated[0].isalnum() else '_' + generated}{name_digest}"
    return (name, generated) if ID.fullmatch(name) else (generated,)


def list_schema_xids(subject: Subject, default_group: str) -> tuple[Xid, ...]:
    """Return the possible xids of a subject's schema, in the order in which they are tried."""
    group = group_id(subject.context, default_group)
    if group is None or is_global(subject.context) or not is_subject(subject.name):
        return ()
    return tuple(Xid((GROUPS, group, SCHEMAS, schema_id)) for schema_id in list_schema_ids(subject.name))


def name_xid(subject: Subject, default_group: str) -> Xid | None:
    """Return the xid by which access to a subject is checked, or None if there can be no such subject.

    Its last part is the name of the subject, even if the name is not a valid id.
    """
    group = group_id(subject.context, default_group)
    return Xid((GROUPS, group, SCHEMAS, subject.name)) if group and list_schema_xids(subject, default_group) else None


def is_made(id: str) -> bool:
    """Return True if the id may be a generated one, whose subject has another name."""
    return "~" in id


def id_beginning(name: str) -> str:
    """Return a prefix of the ids of all schemas whose subjects' names begin with ``name``. It may be empty."""
    safe = _SAFE.match(name[:_BEGINNING])
    return safe[0].rstrip(".-") if safe else ""


def read_subject_name(schema: Xid, attributes: Mapping[str, JSON]) -> str:
    """Return the name of the subject for a schema. ``attributes`` are those of one of its Versions."""
    stated = attributes.get(SUBJECT)
    return stated if isinstance(stated, str) and schema.id in list_schema_ids(stated) else schema.id
