"""The names of the tables in which message definitions land: reversible, and safe as names of folders and tables.

Ids of the registry (core R25) are used unchanged, except for ``:``, which is invalid in Hadoop's paths, and a leading
``_``, which makes Spark ignore a folder. Ids from a document may contain anything. Characters that could leave the
folder, or have a meaning in a file system, are percent-encoded.

If the columns of a definition change so that its table cannot follow, the definition continues in a new table:
``order.placed@2`` after ``order.placed``. If an id itself ends like that, its ``@`` is percent-encoded, so that names
never collide.
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
"""The file in the output folder that records which catalog the Iceberg tables are in."""
CATALOG_DATABASE: Final = "catalog.db"
"""The database of the Iceberg catalog, if the catalog is in the output folder."""

_MESSAGE_GROUPS: Final = "messagegroups"
_NUMBERED: Final = re.compile(r"@([1-9]\d{0,8})$", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The name of a table for messages of one definition.

    ``group`` is its folder and namespace, ``message`` its name.
    """

    group: str
    message: str

    @property
    def path(self) -> str:
        """The table's folder below the folder of tables."""
        return f"{self.group}/{self.message}"

    @property
    def version(self) -> int:
        """The number of this table among the tables of its definition, from 1."""
        match = _NUMBERED.search(self.message)
        return int(match[1]) if match else 1

    @property
    def first(self) -> TableName:
        """The first table of the same definition."""
        return TableName(self.group, _NUMBERED.sub("", self.message))

    def with_version(self, version: int) -> TableName:
        """Return the table of the same definition with the number ``version``."""
        first = self.first
        return first if version == 1 else TableName(first.group, f"{first.message}@{version}")

    def __str__(self) -> str:
        return f"{self.group}.{self.message}"


DEAD_LETTERS: Final = TableName("signalbook", "dead_letters")


def build_table_name(xid: str) -> TableName:
    """Return the first table of the message definition ``xid``, such as ``/messagegroups/shop/messages/order.placed``.

    For groups of another type, such as endpoints, the name contains the type, so that names never collide.
    """
    _, group_type, group, _, message = xid.split("/")
    table = _NUMBERED.sub(r"%40\1", escape(message))
    name = TableName(escape(group if group_type == _MESSAGE_GROUPS else f"{group_type}/{group}"), table)
    return TableName(name.group, "%64ead_letters") if name == DEAD_LETTERS else name


def find_table_folder(table: TableName, table_format: str) -> str:
    """Return the path of the folder with the files of ``table``, below the output folder."""
    if table_format == "iceberg":
        return f"{TABLES}/{table.path}/data"
    if table == DEAD_LETTERS:
        return "dead_letters"
    # Delta's library interprets percent signs in the paths of tables as escapes.
    return f"{TABLES}/{table.path.replace('%', '$') if table_format == 'delta' else table.path}"


def restore_name(folder: str) -> str:
    """Return the group or message of the table whose Delta folder has this name: undo ``find_table_folder``."""
    return folder.replace("$", "%")


def find_definition(name: TableName) -> str:
    """Return the xid of the definition whose table has this name. The xid is wrong only if the name had to be cut."""
    group_type, _, group = unquote(name.group).rpartition("/")
    return f"/{group_type or _MESSAGE_GROUPS}/{group}/messages/{unquote(name.first.message)}"


def escape(text: str) -> str:
    """Return ``text`` as a safe name of a file or folder. It does not begin with ``.`` or ``_``, which Spark ignores.

    ``urllib.parse.unquote`` restores ``text`` unless it was too long.
    """
    return file_name(text, not_first="._")


def quote_name(name: str) -> str:
    """Return ``name`` as a quoted identifier of Spark SQL."""
    return f"`{name.replace('`', '``')}`"
