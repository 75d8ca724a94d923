"""Lookup of schemas in the index by the names that other schemas use.

The rules are in docs/references.md. ``formats.references`` applies them to loaded schemas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, TypeAlias

from signalbook.formats.imports import ROOT_LABEL, is_built_in
from signalbook.formats.references import (
    ReferableSchema,
    SchemaNames,
    find_identity,
    index_keys,
    is_referable,
    lookup_keys,
)
from signalbook.storage.base import Reader, Row
from signalbook.storage.index import IndexReader
from signalbook.values import JSON, JSONObject
from signalbook.work import spend
from signalbook.xid import ROOT, Kind, Xid

NAME: Final = "name"
"""The kind of the links that state by which names schemas can refer to an entity."""
_SCHEMAS_PER_PAGE: Final = 500
"""The number of schemas matching a lookup that are read together."""
_STEPS_PER_SCHEMA: Final = 50
"""The number of work units (see ``work``) that reading one schema takes."""
NameLookup: TypeAlias = tuple[Xid, str]
"""The Group to search, or the root for all Groups, and the name that a document uses."""
AsWritten: TypeAlias = Callable[[NameLookup, Iterable[ReferableSchema]], list[ReferableSchema]]


def list_name_keys(row: Row, identities: Iterable[str]) -> set[str]:
    """Return the keys by which a Version, or a Resource that is a cross reference, can be looked up by name."""
    if row.xid.kind is Kind.VERSION and is_referable(str(row.attributes.get("format", ""))):
        return index_keys(make_referable_schema(row.xid.resource, row.attributes, {}, identities))
    if row.xref is not None:
        # The format of the target may change, so the file ending of any format is possible.
        formats = ("Avro", "JsonSchema", "Protobuf", "XSD")
        return {key for format_name in formats for key in index_keys(ReferableSchema(str(row.xid), format_name))}
    return set()


def make_referable_schema(
    xid: Xid, attributes: Mapping[str, JSON], group: JSONObject, identities: Iterable[str] = ()
) -> ReferableSchema:
    """Return the names of a Resource whose default Version has ``attributes``.

    ``group`` are the attributes of its Group, ``identities`` the names that its document declares for itself.
    """
    name, format = (str(attributes.get(key) or "") for key in ("name", "format"))  # noqa: A001  the spec's name
    return ReferableSchema(str(xid), format, name, import_root(group), tuple(identities))


def import_root(group: JSONObject) -> str:
    """Return the import root in the labels of a Group with these attributes, or an empty string."""
    return str((group.get("labels") or {}).get(ROOT_LABEL, ""))


def load_named(
    index: IndexReader, reader: Reader, lookups: Collection[NameLookup]
) -> dict[NameLookup, list[ReferableSchema]]:
    """Return for each lookup all schemas that may be meant and that ``reader`` shows.

    Takes five queries for each Group that is searched, however many names there are, and four for each further page of
    schemas. There is no limit on matches, because hidden schemas could then change the result; instead the work of the
    request is limited. Raises ``TooComplex``.
    """
    schemas: dict[NameLookup, list[ReferableSchema]] = {lookup: [] for lookup in lookups}
    by_scope: dict[Xid, list[str]] = defaultdict(list)
    for scope, name in lookups:
        by_scope[scope].append(name)
    for scope, names in by_scope.items():
        keys = {name: lookup_keys(name) for name in names}
        links = groupby(index.named(NAME, set().union(*keys.values()), scope), itemgetter(0))
        matches = ((xid, {key for _, key in links_of_xid}) for xid, links_of_xid in links)
        while page := dict(islice(matches, _SCHEMAS_PER_PAGE)):
            spend(_STEPS_PER_SCHEMA * len(page))
            for xid, schema in _read_named(reader, page):
                for name in names:
                    if page[xid] & keys[name]:
                        schemas[scope, name].append(schema)
    return schemas


def _read_named(reader: Reader, matches: Mapping[Xid, Collection[str]]) -> Iterator[tuple[Xid, ReferableSchema]]:
    """Yield the schemas that match, except Versions that are not the default Version. ``matches`` has keys by xid."""
    resources = {xid.resource for xid in matches}
    rows = reader.get_many({*matches, *resources, *(xid.owner for xid in resources)})
    targets = reader.get_many({row.xref for row in rows.values() if row.xref is not None}) if rows else {}
    default_xids = {row.default_version for row in targets.values() if row.defaultversionid} - rows.keys()
    rows = rows | targets | (reader.get_many(default_xids) if default_xids else {})
    for xid, keys in matches.items():
        resource, group = rows.get(xid.resource), rows.get(xid.resource.owner)
        target = rows.get(resource.xref) if resource is not None and resource.xref is not None else resource
        version = None if target is None else rows.get(target.default_version)
        if version is None or group is None or (xid.kind is Kind.VERSION and version.xid != xid):
            continue
        identities = filter(None, map(find_identity, keys))
        yield xid, make_referable_schema(xid.resource, version.attributes, group.attributes, identities)


class StoredNames:
    """The schemas that were looked up by name. Lookups that are not loaded yet are collected in ``missing``."""

    def __init__(self) -> None:
        self.missing: set[NameLookup] = set()
        self._loaded: dict[NameLookup, list[ReferableSchema]] = {}

    def load(self, schemas: Mapping[NameLookup, list[ReferableSchema]]) -> None:
        """Add the results of ``load_named``."""
        self._loaded |= schemas

    def find(self, name: str, referring: Xid, as_written: AsWritten) -> Xid | None:
        """Return the schema that the schema ``referring`` calls ``name``.

        None if there is none or it is not loaded yet. ``as_written`` returns stored schemas with the changes of a
        write. The Group of ``referring`` is searched separately, because other Groups may have very many schemas of
        that name.
        """
        group = referring.resource.owner
        lookups = [(group, name)] if is_built_in(name) else [(group, name), (ROOT, name)]
        missing = [lookup for lookup in lookups if lookup not in self._loaded]
        if missing:
            self.missing.update(missing)
            return None
        for lookup in lookups:
            xid = SchemaNames(as_written(lookup, self._loaded[lookup])).find(name, str(group))
            if xid is not None:
                return Xid.parse(xid)
        return None
