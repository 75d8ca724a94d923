"""Connect to the Iceberg catalog of an output: the catalog in its folder, or any catalog that pyiceberg supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pydantic
import requests
from pyiceberg.catalog import TYPE, Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NotInstalledError,
    RESTError,
    ValidationError,
    ValidationException,
)
from pyiceberg.utils.config import Config, merge_config
from requests import RequestException
from requests.adapters import HTTPAdapter

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.places import Place, Storage, Where, place_of
from signalbook.pipeline.table_names import CATALOG_DATABASE, TABLES
from signalbook.pipeline.tables.base import Outdated
from signalbook.pipeline.tables.catalogs import (
    NAME,
    VARIABLE,
    CatalogChoice,
    find_secrets,
    read_catalog_choice,
    substitute_variables,
)
from signalbook.pipeline.tables.iceberg_internals import OpenRestCatalog
from signalbook.pipeline.tables.iceberg_sql import RememberingSqlCatalog
from signalbook.pipeline.tables.iceberg_store import StoreCatalog, build_io_properties

_KEPT: Final = "a batch that was under way is kept, and the next run goes on with it"


@contextmanager
def convert_catalog_errors(description: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Convert errors of catalogs to ``PipelineError``. ``description`` names the catalog or table.

    The ``secrets`` are masked in the text.
    """
    try:
        yield
    except _NAMED as error:
        raise _build_catalog_error(description, error, mask(str(error), secrets)) from error
    except Exception as error:
        # SQL catalogs use SQLAlchemy, whose errors wrap the errors of the database.
        if type(error).__module__ != "sqlalchemy.exc":
            raise
        reason = mask(str(error.__cause__ or error), secrets)
        raise PipelineError(
            f"{description} cannot be used: {reason}. Another program may hold it: run again when it is done"
        ) from error


_NAMED: Final = (
    CommitFailedException,
    FileNotFoundError,
    NotInstalledError,
    RESTError,
    RequestException,
    TypeError,
    ValidationError,
    ValidationException,
    ValueError,
)


def _build_catalog_error(description: str, error: Exception, reason: str) -> PipelineError:
    match error:
        case CommitFailedException() | CommitStateUnknownException() | ValidationException():
            return PipelineError(f"{description} was changed by someone else at the same moment ({reason}): run again")
        case RequestException() | pydantic.ValidationError():
            return PipelineError(
                f"{description}: there is no answer of an Iceberg catalog ({reason}). Run again; {_KEPT}"
            )
        case RESTError() | NotInstalledError():
            return PipelineError(f"{description}: {reason}; {_KEPT}")
        case FileNotFoundError():
            return PipelineError(
                f"{description} has lost a file that its catalog names ({reason}). Put it back, or drop the table from "
                "the catalog: the next run of this output makes a new one and goes on"
            )
    return Outdated(
        f"{description} was changed by someone else and does not take the batch: {reason}. Undo that, or rename the "
        "table: the next run of this output makes a new one and goes on"
    )


def mask(text: str, secrets: Sequence[str]) -> str:
    """Return ``text`` with each of ``secrets`` replaced by asterisks."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text


# The timeouts of a REST catalog in seconds: to accept a connection, and to respond.
_PATIENCE: Final = (30.0, 120.0)
# Load all snapshots, because earlier snapshots show which batches were committed.
_ALL: Final = {"snapshot-loading-mode": "all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConnection:
    """A connected catalog. The namespaces of message groups are below ``namespace``.

    ``owner`` identifies this output in a shared catalog, and is empty if the catalog belongs to the output. ``secrets``
    must not appear in any message.
    """

    catalog: Catalog
    namespace: tuple[str, ...] = ()
    owner: str = ""
    secrets: tuple[str, ...] = ()


def connect(where: Where) -> CatalogConnection:
    """Connect to the catalog of the output ``where``. Raises ``PipelineError`` if it is missing or unusable."""
    output = place_of(where)
    choice = read_catalog_choice(output)
    return _open_own(output) if choice is None else _open_chosen(choice, output)


def _open_own(output: Place) -> CatalogConnection:
    """Return the catalog in the output itself, which is created at first use.

    In a folder it is a database. A store is its own catalog. Raises ``PipelineError`` if the database was lost.
    """
    if output.folder is None:
        return CatalogConnection(catalog=StoreCatalog(NAME, output / TABLES), secrets=output.storage.secrets)
    path = output / CATALOG_DATABASE
    if not path.exists() and next(Journal(output).list_names(), None) is not None:
        raise PipelineError(
            f"the catalog {path} is gone, and with it what the tables in {output} hold: put it back, "
            "or choose another output; a batch that was under way is kept"
        )
    with convert_catalog_errors(f"the catalog {path}"):
        # ``PlaceFileIO`` syncs files to disk: the database must not refer to metadata that is lost in a crash.
        properties = {
            "uri": f"sqlite:///{path}",
            "warehouse": f"file://{output}/{TABLES}",
            **build_io_properties(Storage()),
        }
        return CatalogConnection(catalog=RememberingSqlCatalog(NAME, **properties))


def _open_chosen(choice: CatalogChoice, output: Place) -> CatalogConnection:
    chosen_properties = {
        name: substitute_variables(f"catalog.{name}", value) for name, value in choice.properties.items()
    }
    # Files in a store are accessed with the job's own storage settings, wherever the catalog is.
    files = build_io_properties(output.storage) if output.folder is None else {}
    properties = merge_config(Config().get_catalog_config(choice.name) or {}, {**_ALL, **chosen_properties, **files})
    secrets = tuple({*_iterate_secrets(properties), *_iterate_variables(choice), *output.storage.secrets})
    with convert_catalog_errors(f"the catalog {choice}", secrets):
        try:
            catalog = _load(choice.name, properties)
        except pydantic.ValidationError:  # an invalid response of a server
            raise
        except (ValueError, TypeError, KeyError) as error:
            raise PipelineError(
                f"the catalog {choice} is not described in a way that pyiceberg knows: {mask(str(error), secrets)}"
            ) from error
    return CatalogConnection(catalog=catalog, namespace=choice.namespace, owner=choice.owner, secrets=secrets)


def _load(name: str, properties: dict[str, Any]) -> Catalog:
    kind = CatalogType(str(properties[TYPE]).lower()) if TYPE in properties else infer_catalog_type(name, properties)
    match kind:
        case CatalogType.REST:
            return PatientRestCatalog(name, **properties)
        case CatalogType.SQL:
            return RememberingSqlCatalog(name, **properties)
    return load_catalog(name, **properties)


class PatientRestCatalog(OpenRestCatalog):
    """A REST catalog whose requests have timeouts."""

    def create_session(self) -> requests.Session:
        """Return a new HTTP session whose requests have timeouts."""
        session = super().create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Timed())
        return session


class _Timed(HTTPAdapter):
    """An HTTP adapter with a default timeout."""

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Send a request like the base class, with the default timeout unless another is given."""
        return super().send(request, *args, **{**options, "timeout": options.get("timeout") or _PATIENCE})


def _iterate_secrets(properties: Mapping[str, Any]) -> Iterable[str]:
    """Yield all secrets in the properties of a catalog, at any depth."""
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _iterate_secrets(value)
        else:
            yield from find_secrets(name, str(value))


def _iterate_variables(choice: CatalogChoice) -> Iterable[str]:
    """Yield the values of all environment variables that ``choice`` refers to. All are treated as secrets."""
    for name, value in choice.properties.items():
        for match in VARIABLE.finditer(value):
            yield substitute_variables(name, match[0])
