"""An Iceberg catalog that needs nothing but a store, and the file access of pyiceberg for stores.

Tables have the layout of Hadoop's catalog, ``<group>/<message>/metadata/v<N>.metadata.json``, which Spark, DuckDB and
Trino read without a server. Hadoop's catalog commits by a rename. This catalog creates the next metadata file only if
it does not exist, which stores guarantee to be atomic.
"""

from __future__ import annotations

import io
from typing import Any, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from signalbook.pipeline.places import Place, Storage, place_of, run_in_parallel
from signalbook.pipeline.tables.iceberg_metadata import (
    RememberingCatalog,
    build_commit_response,
    parse_metadata,
    remember,
)

HINT: Final = "version-hint.text"
_SETTING: Final = "signalbook.storage."


def build_io_properties(storage: Storage) -> dict[str, str]:
    """Return the properties that make pyiceberg use ``PlaceFileIO`` with the settings of ``storage``."""
    implementation = f"{PlaceFileIO.__module__}.{PlaceFileIO.__name__}"
    return {"py-io-impl": implementation, **{f"{_SETTING}{name}": value for name, value in storage.options}}


class PlaceFileIO(FileIO):
    """The file access of pyiceberg through the pipeline's own places."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        settings = {name.removeprefix(_SETTING): str(value) for name, value in properties.items() if _SETTING in name}
        self._storage = Storage.of(settings)

    def find_place(self, location: str) -> Place:
        """Return the place at ``location``, a path or URL."""
        return place_of(location, self._storage)

    def new_input(self, location: str) -> InputFile:
        """Return the file at ``location`` for reading."""
        return _Input(location, self.find_place(location))

    def new_output(self, location: str) -> OutputFile:
        """Return the file at ``location`` for writing."""
        return _Output(location, self.find_place(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file if it exists."""
        self.find_place(location if isinstance(location, str) else location.location).delete()


class _Input(InputFile):
    def __init__(self, location: str, place: Place) -> None:
        super().__init__(location)
        self._place = place

    def __len__(self) -> int:
        return self._place.find_size()

    def exists(self) -> bool:
        return self._place.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002
        # Only the footer of data files is read. Metadata is read completely, by one request instead of many.
        return self._place.open() if self.location.endswith(".parquet") else io.BytesIO(self._place.read())


class _Output(OutputFile):
    def __init__(self, location: str, place: Place) -> None:
        super().__init__(location)
        self._place = place

    def __len__(self) -> int:
        return self._place.find_size()

    def exists(self) -> bool:
        return self._place.exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._place)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Writing(self._place, overwrite=overwrite)


class _Writing(io.BytesIO):
    """A buffer that is written durably when it is closed. After an error in its context, nothing is written.

    The content is held in memory, because metadata is never large.
    """

    def __init__(self, place: Place, *, overwrite: bool) -> None:
        super().__init__()
        self._place = place
        self._overwrite = overwrite

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None:
            super().close()
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        content = self.getvalue()
        super().close()
        self._place.parent.make()
        if self._overwrite:
            self._place.replace(content)
        elif not self._place.create(content):
            raise FileExistsError(17, "already there", str(self._place))


class StoreCatalog(RememberingCatalog):
    """A catalog of the tables in the folder ``tables``. Each of its subfolders is a namespace."""

    def __init__(self, name: str, tables: Place) -> None:
        super().__init__(name, **build_io_properties(tables.storage), warehouse=str(tables))
        self._tables = tables

    def _find_folder(self, identifier: str | Identifier) -> Place:
        *namespace, table = self.identifier_to_tuple(identifier)
        return self._tables / ".".join(namespace) / table / "metadata"

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table with its newest metadata. Raises ``NoSuchTableError`` if it has none."""
        version = self._find_version(identifier)
        if not version:
            raise NoSuchTableError(f"there is no table {self.identifier_to_tuple(identifier)}")
        place = self._find_folder(identifier) / _format_name(version)
        metadata = parse_metadata(place.read(), str(place))
        return self._open_table(identifier, metadata, str(place))

    def _open_table(self, identifier: str | Identifier, metadata: TableMetadata, location: str) -> Table:
        opened = self.load_io(location, metadata.properties)
        return Table(self.identifier_to_tuple(identifier), metadata, location, opened, self)

    def _find_version(self, identifier: str | Identifier) -> int:
        """Return the number of the table's newest metadata file; 0 without such a file."""
        folder = self._find_folder(identifier)
        try:
            version = int((folder / HINT).read())
        except (FileNotFoundError, ValueError):
            version = 0
        # The hint may be too old: it is written after the metadata, and a slow program may overwrite a newer hint.
        while (folder / _format_name(version + 1)).exists():
            version += 1
        return version

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Create the next metadata file of a table.

        Raises ``CommitFailedException``, or for a new table ``TableAlreadyExistsError``, if another program was faster.
        """
        identifier = table.name()
        version = self._find_version(identifier)
        current = self.load_table(identifier) if version else None
        staged = self.stage_update(current, identifier, requirements, updates)
        if current is not None and staged.metadata == current.metadata:
            return build_commit_response(current.metadata, current.metadata_location)
        folder = self._find_folder(identifier)
        folder.make()
        place = folder / _format_name(version + 1)
        content = staged.metadata.model_dump_json(exclude_none=True).encode()
        if not place.create(content):
            if current is None:
                raise TableAlreadyExistsError(f"table {identifier} was made by someone else")
            raise CommitFailedException(f"table {identifier} was changed by someone else")
        (folder / HINT).write(str(version + 1).encode())
        return build_commit_response(remember(content, staged.metadata, str(place)), str(place))

    def list_names(self, namespace: str | Identifier) -> set[str]:
        """Return the names of the folders in a namespace. A folder without metadata is not a table yet."""
        return set((self._tables / ".".join(self.identifier_to_tuple(namespace))).list_folders())

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables of a namespace that have metadata."""
        levels = self.identifier_to_tuple(namespace)
        folder = self._tables / ".".join(levels)
        names = folder.list_folders()
        inside = run_in_parallel(folder, lambda name: (folder / name).list_folders(), names)
        return [(*levels, name) for name, folders in zip(names, inside, strict=True) if "metadata" in folders]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return a namespace for each folder. Namespaces have no children."""
        return [] if namespace else [(name,) for name in self._tables.list_folders()]

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:  # noqa: ARG002
        """Return no properties: a folder has none."""
        return {}

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Do nothing, because a namespace exists once it has a table."""

    def drop_table(self, identifier: str | Identifier) -> None:
        """Remove the metadata of a table. Raises ``NoSuchTableError`` if it has none."""
        if not self._find_version(identifier):
            raise NoSuchTableError(f"there is no table {self.identifier_to_tuple(identifier)}")
        self._find_folder(identifier).clear()

    def create_table(self, identifier: str | Identifier, *args: Any, **options: Any) -> Table:
        """Create and return a table without files."""
        return self.create_table_transaction(identifier, *args, **options).commit_transaction()

    def _raise_unsupported(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("tables in a store's own catalog are made, read, changed and dropped, and no more")

    register_table = rename_table = drop_namespace = update_namespace_properties = _raise_unsupported
    register_view = load_view = drop_view = _raise_unsupported

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:  # noqa: ARG002
        """Return no views."""
        return []

    def view_exists(self, identifier: str | Identifier) -> bool:  # noqa: ARG002
        """Return False: there are no views."""
        return False


def _format_name(version: int) -> str:
    return f"v{version}.metadata.json"
