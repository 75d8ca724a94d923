"""Which Iceberg catalog the tables of an output are in, where it is not the one in the folder itself.

The choice is kept in the output folder, for the commands that are given nothing but the folder. It holds no secret:
those come from environment variables, or from pyiceberg's own configuration.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.places import Where, place_of
from signalbook.pipeline.tables.table_names import CATALOG_FILE

VARIABLE: Final = re.compile(r"\$\{(\w+)\}", re.ASCII)


def substitute_variables(name: str, value: str | float | bool) -> str:
    """Return the option ``name`` with its variables replaced. Raises ``PipelineError`` for unset variables."""

    def read_variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise PipelineError(f"the option {name} wants the environment variable {match[1]}, which is not set")
        return os.environ[match[1]]

    return VARIABLE.sub(read_variable, as_text(value))


def as_text(value: str | float | bool) -> str:
    """An option as text, as connectors and catalogs take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# The name that pyiceberg takes where none is given.
NAME: Final = "default"
_SECRET: Final = re.compile(
    "token|credential|secret|passw|pwd|authorization|cookie|api-key|auth-key|account-key|sas|connection-string"
)
# What is behind a colon up to an at sign, but for a port and a path.
_LOGIN: Final = re.compile(r"://[^/@:\[]*:(?!\d*/)([^@]+)@")
_ARGUMENT: Final = re.compile(r"[?&;]([^=&;]+)=([^&;]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChoice:
    """A catalog by its ``name`` in pyiceberg's configuration, and ``properties`` beside what that says of it.

    Namespaces of groups are below ``namespace``. Tables say by ``owner`` which output they belong to: a catalog may
    have tables of several. Values may have ``${NAME}`` in them for environment variables.
    """

    name: str = NAME
    namespace: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""

    def __str__(self) -> str:
        """Return the name, and the address if a job states it."""
        place = self.properties.get("uri")
        below = f", below {'.'.join(self.namespace)}" if self.namespace else ""
        return f"{self.name}{f' at {place}' if place else ''}{below}"


def parse_catalog(section: Mapping[str, str | float | bool]) -> CatalogChoice | None:
    """Parse the section ``catalog`` of a job file. Raises ``PipelineError`` for a secret in it."""
    if not section:
        return None
    texts = {name: as_text(value) for name, value in section.items()}
    namespace = texts.pop("namespace", "")
    levels = tuple(namespace.split(".")) if namespace else ()
    if not all(levels):
        raise PipelineError(f"the namespace of a catalog is names with dots between them, not {namespace!r}")
    for name, value in texts.items():
        _check_open(name, value)
    return CatalogChoice(name=texts.pop("name", NAME), namespace=levels, properties=texts)


def build_catalog_section(text: str) -> dict[str, str]:
    """Return the section for ``--catalog``: a name in pyiceberg's configuration, or the URL of a REST catalog."""
    return {"type": "rest", "uri": text} if text.startswith(("http://", "https://")) else {"name": text}


def find_secrets(name: str, value: str) -> list[str]:
    """Return the secret parts of a catalog's property: all of it, or parts of a URL."""
    if _is_secret(name):
        return [value] if value else []
    arguments = [secret for argument, secret in _ARGUMENT.findall(value) if _is_secret(argument)]
    return _LOGIN.findall(value) + arguments


def read_catalog_choice(output: Where) -> CatalogChoice | None:
    """Return the choice recorded in an output folder. Raises ``PipelineError`` if it cannot be read."""
    place = place_of(output) / CATALOG_FILE
    if not place.exists():
        return None
    try:
        return msgspec.json.decode(place.read(), type=CatalogChoice)
    except (OSError, msgspec.DecodeError) as error:
        raise PipelineError(f"cannot read {place}, which says what catalog the tables here are in: {error}") from error


def set_catalog(journal: Journal, choice: CatalogChoice | None) -> None:
    """Make ``choice`` the catalog of an output, or raise ``PipelineError`` if its tables are in another.

    None stands for the one they are in.
    """
    existing = read_catalog_choice(journal.output)
    if choice is None or (existing is not None and replace(choice, owner=existing.owner) == existing):
        return
    if journal.find_table_format() is not None or journal.list_unfinished():
        where = f"the catalog {existing}" if existing else "a catalog in that folder"
        raise PipelineError(
            f"the tables in {journal.output} are in {where}, not in {choice}: leave the catalog out, or choose another "
            f"output; if the catalog moved, say so in {journal.output / CATALOG_FILE}"
        )
    owner = existing.owner if existing else secrets.token_hex(8)
    chosen = replace(choice, owner=owner)
    (journal.output / CATALOG_FILE).replace(msgspec.json.format(msgspec.json.encode(chosen)))


def _check_open(name: str, value: str) -> None:
    """Raise for a property that would be written down with a secret in it."""
    if any(VARIABLE.fullmatch(secret) is None for secret in find_secrets(name, value)):
        raise PipelineError(
            f"the catalog's {name} would be written to the output folder: say ${{NAME}} there and set that environment "
            "variable, or leave it to pyiceberg's own configuration"
        )


def _is_secret(name: str) -> bool:
    return _SECRET.search(name.lower()) is not None
