"""Contexts and subjects, and the schema groups and schemas that they are (docs/decisions/145-confluent-api.md).

A subject has the id of a schema if that can be one; else the schema has an id made of it, and says its name in the
attribute ``subject``. Which of the two it is also depends on what is there: ids are unique whatever their case.
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
"""What the URL of a registry begins with that is to be spoken to by Confluent's API."""
SUBJECT: Final = "subject"
"""The attribute of a Version with the name of its subject, where its schema's id is another."""
GROUPS: Final = "schemagroups"
SCHEMAS: Final = "schemas"
MAX_SUBJECT: Final = 4096
"""Characters of a name."""
_QUALIFIED: Final = re.compile(r":(\.[^:]*)(?::(.*))?", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_COLON: Final = "="
"""Stands for a colon of a group id in the name of its context: no id has it, and URLs carry it as it is."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_BEGINNING: Final = 80
_DIGEST_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject by its context, as ``.name``, ``.`` for the default one, and its name in there."""

    context: str
    name: str

    def __str__(self) -> str:
        # A name of the default context that could be taken for a subject of another context is written with its own.
        plain = self.context == DEFAULT_CONTEXT and not self.name.startswith(":.")
        return self.name if plain else f":{self.context}:{self.name}"


def parse_subject(text: str, context: str = DEFAULT_CONTEXT, default_group: str = "") -> Subject:
    """Return the subject that a client names, in ``context`` unless the name begins with another one."""
    match = _QUALIFIED.fullmatch(text)
    if match is None:
        return Subject(context, text)
    return Subject(_replace_default_group(match[1], default_group), match[2] or "")


def parse_context(text: str, default_group: str = "") -> str:
    """Return the context that a path or a parameter names: ``.NAME``, ``NAME`` or ``:.NAME:``.

    A colon in NAME is taken for itself here, since nothing follows that it could separate.
    """
    name = text[1:].removesuffix(":") if text.startswith(":") else text
    name = name.replace(":", _COLON)
    return _replace_default_group(name if name.startswith(".") else f".{name}", default_group)


def _replace_default_group(context: str, default_group: str) -> str:
    return DEFAULT_CONTEXT if default_group and group_id(context, "") == default_group else context


def is_global(context: str) -> bool:
    """Return True for the context that stands for all contexts. Like the ids of groups, its name has no case."""
    return context.lower() == GLOBAL_CONTEXT.lower()


def is_subject(name: str) -> bool:
    """Return True if a subject can have this name."""
    return 0 < len(name) <= MAX_SUBJECT and "\0" not in name and name not in ("__GLOBAL", "__EMPTY")


def has_control_character(name: str) -> bool:
    """Return True for a name that only subjects may have that exist already."""
    return _CONTROL.search(name) is not None


def group_id(context: str, default_group: str) -> str | None:
    """Return the id of the schema group that a context is; None if it can be none.

    ``context_of`` is the way back. No two contexts are the same group but ``.DEFAULTGROUP``, which ``parse_subject``
    and ``parse_context`` read as the default context.
    """
    if context == DEFAULT_CONTEXT:
        return default_group
    name = context.removeprefix(".")
    # With a plain colon the context could not be told from the subject behind it.
    return name.replace(_COLON, ":") if ":" not in name and ID.fullmatch(name.replace(_COLON, ":")) else None


def context_of(group: str, default_group: str) -> str:
    """Return the context that the schema group with this id is."""
    return DEFAULT_CONTEXT if group == default_group else f".{group.replace(':', _COLON)}"


def list_schema_ids(name: str) -> tuple[str, ...]:
    """Return the ids that the schema of a subject may have, in the order in which they are looked for."""
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
    """Return the xid whose rights a subject has: its name in its group, whether or not the name can be an id.

    None if there can be no such subject.
    """
    group = group_id(subject.context, default_group)
    return Xid((GROUPS, group, SCHEMAS, subject.name)) if group and list_schema_xids(subject, default_group) else None


def is_made(id: str) -> bool:
    """Return True if a schema with this id may belong to a subject with another name."""
    return "~" in id


def id_beginning(name: str) -> str:
    """Return the beginning of the ids of all schemas whose subjects' names begin with ``name``, as far as known."""
    safe = _SAFE.match(name[:_BEGINNING])
    return safe[0].rstrip(".-") if safe else ""


def read_subject_name(schema: Xid, attributes: Mapping[str, JSON]) -> str:
    """Return the name of the subject that a schema is, by the attributes of a Version."""
    stated = attributes.get(SUBJECT)
    return stated if isinstance(stated, str) and schema.id in list_schema_ids(stated) else schema.id
