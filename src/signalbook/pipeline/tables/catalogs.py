"""The choice of an external Iceberg catalog for the tables of an output, instead of the catalog in the output itself.

The choice is stored in the output folder, for commands whose only argument is the folder. It contains no secrets:
secrets come from environment variables, or from pyiceberg's own configuration.
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
from signalbook.pipeline.table_names import CATALOG_FILE

VARIABLE: Final = re.compile(r"\$\{(\w+)\}", re.ASCII)


def substitute_variables(name: str, value: str | float | bool) -> str:
    """Return ``value`` with each ``${NAME}`` replaced by the environment variable.

    Raises ``PipelineError`` with the name of the option, ``name``, if a variable is not set.
    """

    def read_variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise PipelineError(f"the option {name} wants the environment variable {match[1]}, which is not set")
        return os.environ[match[1]]

    return VARIABLE.sub(read_variable, format_option(value))


def format_option(value: str | float | bool) -> str:
    """Return the value of an option as text for connectors and catalogs: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# The name of pyiceberg's default catalog.
NAME: Final = "default"
_SECRET: Final = re.compile(
    "token|credential|secret|passw|pwd|authorization|cookie|api-key|auth-key|account-key|sas|connection-string"
)
# The password in a URL: the text between a colon and an at sign, unless it is a port with a path.
_LOGIN: Final = re.compile(r"://[^/@:\[]*:(?!\d*/)([^@]+)@")
_ARGUMENT: Final = re.compile(r"[?&;]([^=&;]+)=([^&;]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChoice:
    """A catalog by its ``name`` in pyiceberg's configuration, with additional ``properties``.

    The namespaces of message groups are below ``namespace``. ``owner`` identifies the output in the properties of
    tables, because several outputs may share a catalog. Values may contain ``${NAME}`` for environment variables.
    """

    name: str = NAME
    namespace: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""

    def __str__(self) -> str:
        """Return the name, and the address and namespace if they are set."""
        place = self.properties.get("uri")
        below = f", below {'.'.join(self.namespace)}" if self.namespace else ""
        return f"{self.name}{f' at {place}' if place else ''}{below}"


def parse_catalog(section: Mapping[str, str | float | bool]) -> CatalogChoice | None:
    """Parse the section ``catalog`` of a job file; None if it is empty.

    Raises ``PipelineError`` for an invalid namespace, and for a secret in plain text.
    """
    if not section:
        return None
    texts = {name: format_option(value) for name, value in section.items()}
    namespace = texts.pop("namespace", "")
    levels = tuple(namespace.split(".")) if namespace else ()
    if not all(levels):
        raise PipelineError(f"the namespace of a catalog is names with dots between them, not {namespace!r}")
    for name, value in texts.items():
        _check_open(name, value)
    return CatalogChoice(name=texts.pop("name", NAME), namespace=levels, properties=texts)


def build_catalog_section(text: str) -> dict[str, str]:
    """Return the section ``catalog`` for ``text``, a name in pyiceberg's configuration, or a URL of a REST catalog."""
    return {"type": "rest", "uri": text} if text.startswith(("http://", "https://")) else {"name": text}


def find_secrets(name: str, value: str) -> list[str]:
    """Return the secret parts of a catalog's property: all of ``value``, or passwords and arguments in a URL."""
    if _is_secret(name):
        return [value] if value else []
    arguments = [secret for argument, secret in _ARGUMENT.findall(value) if _is_secret(argument)]
    return _LOGIN.findall(value) + arguments


def read_catalog_choice(output: Where) -> CatalogChoice | None:
    """Return the choice recorded in ``output``, or None. Raises ``PipelineError`` if it cannot be read."""
    place = place_of(output) / CATALOG_FILE
    if not place.exists():
        return None
    try:
        return msgspec.json.decode(place.read(), type=CatalogChoice)
    except (OSError, msgspec.DecodeError) as error:
        raise PipelineError(f"cannot read {place}, which says what catalog the tables here are in: {error}") from error


def set_catalog(journal: Journal, choice: CatalogChoice | None) -> None:
    """Record ``choice`` as the catalog of an output. Raises ``PipelineError`` if its tables are in another catalog.

    None means to keep the current catalog.
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
    """Raise ``PipelineError`` for a property that would be written to the output folder with a secret in it."""
    if any(VARIABLE.fullmatch(secret) is None for secret in find_secrets(name, value)):
        raise PipelineError(
            f"the catalog's {name} would be written to the output folder: say ${{NAME}} there and set that environment "
            "variable, or leave it to pyiceberg's own configuration"
        )


def _is_secret(name: str) -> bool:
    return _SECRET.search(name.lower()) is not None
