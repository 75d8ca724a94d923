"""Which table a message definition lands in: a reversible name that is safe as a folder and as a table.

Ids of the registry (core R25) come through as they are, but for ``:``, which Hadoop's paths do not take, and a leading
``_``, which makes Spark ignore a folder. Ids out of a document may be anything; whatever could leave its folder, or
mean something to a file system, is percent-encoded.

A definition whose columns change in a way that no table follows goes on in another: ``order.placed@2`` after
``order.placed``. An id that ends like that itself has its ``@`` percent-encoded, so that the two never meet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from signalbook.filenames import file_name

TABLES: Final = "tables"
"""The folder of tables, below the output folder."""
CATALOG_FILE: Final = "catalog.json"
"""What says there which catalog Iceberg tables are in."""
CATALOG_DATABASE: Final = "catalog.db"
"""Their catalog, where that is in the output folder."""

_MESSAGE_GROUPS: Final = "messagegroups"
_NUMBERED: Final = re.compile(r"@([1-9]\d{0,8})$", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The table of one definition's messages: ``group`` is folder and namespace, ``message`` the table in it."""

    group: str
    message: str

    @property
    def path(self) -> str:
        """The table's folder below the folder of tables."""
        return f"{self.group}/{self.message}"

    @property
    def version(self) -> int:
        """The number of the table among those of its definition, from 1."""
        match = _NUMBERED.search(self.message)
        return int(match[1]) if match else 1

    @property
    def first(self) -> TableName:
        """The first table of the same definition."""
        return TableName(self.group, _NUMBERED.sub("", self.message))

    def with_version(self, version: int) -> TableName:
        """Return the table of the same definition with this number."""
        first = self.first
        return first if version == 1 else TableName(first.group, f"{first.message}@{version}")

    def __str__(self) -> str:
        return f"{self.group}.{self.message}"


DEAD_LETTERS: Final = TableName("signalbook", "dead_letters")


def build_table_name(xid: str) -> TableName:
    """Return the table of the message definition ``xid``, such as ``/messagegroups/shop/messages/order.placed``.

    Groups of another type (an endpoint has messages too) carry their type in the name, so that no two meet.
    """
    _, group_type, group, _, message = xid.split("/")
    table = _NUMBERED.sub(r"%40\1", escape(message))
    name = TableName(escape(group if group_type == _MESSAGE_GROUPS else f"{group_type}/{group}"), table)
    return TableName(name.group, "%64ead_letters") if name == DEAD_LETTERS else name


def find_table_folder(table: TableName, table_format: str) -> str:
    """Return the folder of a table's files, below the output folder."""
    if table_format == "iceberg":
        return f"{TABLES}/{table.path}/data"
    if table == DEAD_LETTERS:
        return "dead_letters"
    # the library of Delta takes percent signs in the paths of tables for escapes
    return f"{TABLES}/{table.path.replace('%', '$') if table_format == 'delta' else table.path}"


def restore_name(folder: str) -> str:
    """Return the name for which ``find_table_folder`` made the folder of a Delta table."""
    return folder.replace("$", "%")


def find_definition(name: TableName) -> str:
    """Return the xid for which a table was named; wrong only for names that had to be cut."""
    group_type, _, group = unquote(name.group).rpartition("/")
    return f"/{group_type or _MESSAGE_GROUPS}/{group}/messages/{unquote(name.first.message)}"


def escape(text: str) -> str:
    """Return ``text`` as the name of a file or folder that Spark reads: it ignores those that begin with ``_``.

    ``urllib.parse.unquote`` restores ``text`` unless it was too long.
    """
    return file_name(text, not_first="._")


def quote_name(name: str) -> str:
    """Return a name as a quoted identifier."""
    return f"`{name.replace('`', '``')}`"
