"""Find and list subjects and their versions, as they are stored in the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from signalbook.access.base import Action
from signalbook.api.confluent.versions import SchemaVersion, parse_version
from signalbook.cncf.lookup import find_latest_number
from signalbook.confluent.errors import (
    context_not_empty,
    invalid_subject,
    subject_not_found,
    version_not_found,
)
from signalbook.confluent.naming import (
    DEFAULT_CONTEXT,
    GROUPS,
    SCHEMAS,
    Subject,
    context_of,
    group_id,
    has_control_character,
    id_beginning,
    is_made,
    list_schema_ids,
    list_schema_xids,
    name_xid,
    parse_subject,
    read_subject_name,
)
from signalbook.confluent.settings import (
    OVERRIDING,
    Stored,
    effective,
    find_alias,
    find_effective_mode,
    rule,
    scope_of,
    scopes,
    stated,
)
from signalbook.engine.read.view import View
from signalbook.storage.base import BEHIND, LAST, Row
from signalbook.storage.confluent import SoftDeleted
from signalbook.storage.schema import load_json
from signalbook.values import JSONObject
from signalbook.xid import Xid, version_number

_PAGE_VERSIONS: Final = 1000


class Subjects:
    """The subjects in a view of the registry. ``default_group`` is the Group of the default context.

    The rights on a subject are those on its name, ``/schemagroups/GROUP/schemas/NAME``, whatever the id of its schema
    is. A subject that the caller cannot read is treated as missing.
    """

    def __init__(self, view: View, default_group: str) -> None:
        self.view = view
        self._hides = not view.access.reads_everything
        self.default_group = default_group
        self._found: dict[Subject, Row | None] = {}
        self._new: dict[Subject, Xid | None] = {}
        self._settings: dict[tuple[str, str], JSONObject] = {}
        self._asked: set[str] = set()

    def group(self, context: str) -> Xid | None:
        """Return the xid of the Group for a context, whether the Group exists or not; None if the context has no valid
        Group id."""
        name = group_id(context, self.default_group)
        return None if name is None else Xid((GROUPS, name))

    def is_readable(self, subject: Subject) -> bool:
        """Return True if the subject can be read, whether it exists or not."""
        xid = name_xid(subject, self.default_group)
        return xid is not None and (not self._hides or self.view.access.is_readable(xid))

    def contexts(self) -> Iterator[str]:
        """Yield all readable contexts, the default context first."""
        yield DEFAULT_CONTEXT
        for name in self.view.list_group_ids(Xid((GROUPS,))):
            if name != self.default_group and self.view.access.is_readable(Xid((GROUPS, name))):
                yield context_of(name, self.default_group)

    def namesakes(self, subject: Subject, *, deleted: bool = False) -> Iterator[Subject]:
        """Yield the subjects of other contexts with the same name as ``subject``, which must be in the default context.

        Clients that do not name a context mean these subjects, too. With ``deleted``, soft-deleted subjects are
        included.
        """
        if subject.context != DEFAULT_CONTEXT or not subject.name:
            return
        others = [Subject(context, subject.name) for context in self.contexts() if context != DEFAULT_CONTEXT]
        schemas = self.schemas(others)
        groups = {
            namesake: group.id.lower() for namesake in others if deleted and (group := self.group(namesake.context))
        }
        rows = self.view.confluent.soft_deleted(groups.values(), list_schema_ids(subject.name)) if groups else []
        deleted_groups = {row.group for row in rows}
        yield from (
            namesake
            for namesake in others
            if namesake in schemas or (groups.get(namesake) in deleted_groups and self.deleted(namesake))
        )

    def parse(self, text: str, context: str) -> Subject:
        """Return the subject that a client names by ``text``. Raises 42208 for a NUL, which no database can store."""
        if "\0" in text:
            raise invalid_subject(text)
        return parse_subject(text, context, self.default_group)

    def config(self, subject: Subject) -> JSONObject:
        """Return the configuration in force for a subject, each setting from the nearest scope. It always contains a
        compatibility level."""
        return effective(self._load_settings("config", subject), subject)

    def stated(self, subject: Subject) -> JSONObject:
        """Return the configuration for a subject as ``config``, but without a level if none was set."""
        return stated(self._load_settings("config", subject), subject)

    def find_stated_rule(self, schema: Xid, attributes: JSONObject) -> str | None:
        """Return the rule of the compatibility level that was set for the subject of a schema, its context or the
        registry, or None. ``attributes`` are those of a Version of the schema."""
        return rule(self.stated(self._build_subject(schema, attributes)).get("compatibilityLevel", "NONE"))

    def mode(self, subject: Subject) -> str:
        """Return the mode in force for a subject."""
        return find_effective_mode(self._load_settings("mode", subject), subject)

    def alias(self, subject: Subject) -> str | None:
        """Return the subject that ``subject`` is an alias of, or None if it is no alias."""
        return find_alias(self._load_settings("config", subject), subject)

    def _load_settings(self, kind: str, subject: Subject) -> Stored:
        missing = {*scopes(subject), *OVERRIDING} - self._asked
        if missing:
            self._settings |= self.view.confluent.in_force(missing)
            self._asked.update(missing)
        # The settings of a hidden subject would reveal that it exists.
        hidden = scope_of(subject) if self._hides and subject.name and not self.is_readable(subject) else None
        return lambda scope: None if scope == hidden else self._settings.get((kind, scope))

    def schema(self, subject: Subject) -> Xid | None:
        """Return the xid of a subject's schema, or None. The result is cached, so a schema written later is
        not found."""
        row = self._find_row(subject)
        return None if row is None else row.xid

    def _find_row(self, subject: Subject) -> Row | None:
        if subject not in self._found:
            self._found[subject] = self.schemas([subject]).get(subject)
        return self._found[subject]

    def new_schema(self, subject: Subject) -> Xid | None:
        """Return the xid of the schema that a subject has or would get; None if there is no possible id. Cached as
        ``schema``."""
        if subject not in self._new:
            self._new[subject] = self._new_schema(subject)
        return self._new[subject]

    def _new_schema(self, subject: Subject) -> Xid | None:
        xid = self.schema(subject)
        if xid is not None:
            return xid
        places = () if has_control_character(subject.name) else list_schema_xids(subject, self.default_group)
        if places and not self.is_readable(subject):
            return places[0]  # a check for a vacant id would reveal whether the subject exists
        row = self.view.reader.get(places[0].parent.owner) if places else None
        for place in places:
            # An id that differs in case only belongs to another subject.
            is_vacant = row is None or self.view.reader.is_vacant(row.key, SCHEMAS, place.id)
            if is_vacant and not self._is_kept_for_another(place, subject):
                return place
        return None

    def _is_kept_for_another(self, schema: Xid, subject: Subject) -> bool:
        """Return True if this schema id has soft-deleted versions of another subject, including hidden subjects."""
        if not is_made(schema.id):
            return False
        rows = self.view.confluent.soft_deleted([schema.group_id.lower()], [schema.id])
        return any(read_subject_name(schema, row.attributes) != subject.name for row in rows)

    def live(self, subject: Subject) -> list[SchemaVersion]:
        """Return the versions of a subject that are not deleted, by number."""
        xid = self.schema(subject)
        row = None if xid is None else self.view.reader.get(xid)
        return [] if row is None else self.versions(self.view.reader.children([row.key], "versions"))

    def latest(self, subject: Subject) -> SchemaVersion | None:
        """Return the version of a subject with the highest number, or None. Deleted versions are left out."""
        row = self._find_latest(subject)
        return None if row is None else self.versions([row])[0]

    def latest_attributes(self, subject: Subject) -> JSONObject | None:
        """Return the attributes of the latest version of a subject, or None if it has no version."""
        row = self._find_latest(subject)
        return None if row is None else row.attributes

    def _find_latest(self, subject: Subject) -> Row | None:
        schema = self._find_row(subject)
        if schema is None or schema.xref is not None:
            return None
        # The version with the last assigned number nearly always exists.
        last = self.view.reader.get(schema.xid / "versions" / str(schema.versioncounter))
        if last is None:
            last = self.view.reader.get(schema.xid / "versions" / str(find_latest_number(self.view, schema.xid)))
        # Versions of other formats are not versions of a subject.
        numbered = _list_numbered([] if last is None else [last]) or _list_numbered(
            self.view.reader.children([schema.key], "versions")
        )
        return max(numbered, key=itemgetter(0))[1] if numbered else None

    def with_content(
        self, subject: Subject, content: str, document: bytes, *, deleted: bool = False
    ) -> SchemaVersion | None:
        """Return the newest version of a subject with this ``content``, or None. ``document`` is the document of that
        content.

        With ``deleted``, soft-deleted versions are included.
        """
        schema = self.schema(subject)
        if schema is None and not deleted:
            return None
        group = self.group(subject.context)
        numbers = [] if group is None else self.view.confluent.all_ids(group.id.lower(), content)
        if not numbers:
            return None
        places = [] if schema is None else [(schema, number) for number in numbers]
        rows = [row for place in places for row in self.view.reader.numbered(*place, _PAGE_VERSIONS)]
        versions = [self._build_version(version, row, document) for version, row in _list_numbered(rows)]
        if deleted:
            versions += [version for version in self.deleted(subject) if version.id in numbers]
        return max(versions, key=lambda version: version.version, default=None)

    def at(self, version: Xid) -> SchemaVersion:
        """Return the subject's version for the xid of a Version, which must exist."""
        row = self.view.reader.get(version)
        assert row is not None, "it was written before"
        return self.versions([row])[0]

    def deleted(self, subject: Subject) -> list[SchemaVersion]:
        """Return the soft-deleted versions of a subject, by number."""
        group = self.group(subject.context)
        if group is None:
            return []
        rows = self.view.confluent.soft_deleted([group.id.lower()], list_schema_ids(subject.name))
        return [version for version in self._select_readable(group, rows) if version.subject == subject]

    def deleted_at(self, version: Xid) -> list[SchemaVersion]:
        """Return the soft-deleted version that had the xid ``version``, as a list of at most one, if it can be read."""
        rows = self.view.confluent.soft_deleted([version.group_id.lower()], [version.resource.id])
        group = version.resource.parent.owner
        return self._select_readable(group, (row for row in rows if str(row.version) == version.id))

    def all(self, subject: Subject) -> list[SchemaVersion]:
        """Return all versions of a subject by number, including soft-deleted versions."""
        return sorted(self.live(subject) + self.deleted(subject), key=lambda version: version.version)

    def require_versions(self, subject: Subject, *, deleted: bool = False) -> list[SchemaVersion]:
        """Return the versions of a subject. Raises 40401 if there are none. With ``deleted``, soft-deleted versions are
        included."""
        versions = self.all(subject) if deleted else self.live(subject)
        if not versions:
            raise subject_not_found(subject)
        return versions

    def version(self, subject: Subject, text: str, *, deleted: bool = False) -> SchemaVersion:
        """Return a version of a subject by its number, ``latest`` or -1. Raises 40401, 40402 and 42202."""
        number = parse_version(text)
        match = None if number is None else self.find(subject, number)
        if match is not None:
            return match
        versions = self.require_versions(subject, deleted=deleted)
        if number is None:
            return versions[-1]
        matches = [candidate for candidate in versions if candidate.version == number]
        if not matches:
            raise version_not_found(number)
        return matches[0]

    def find(self, subject: Subject, number: int) -> SchemaVersion | None:
        """Return a version of a subject by its number, or None. Deleted versions are left out."""
        xid = self.schema(subject)
        row = None if xid is None else self.view.reader.get(xid / "versions" / str(number))
        return None if row is None else next(iter(self.versions([row])), None)

    def with_id(self, context: str, id: int, limit: int = _PAGE_VERSIONS) -> list[SchemaVersion]:
        """Return the versions in a context with the schema id ``id``; soft-deleted versions come last."""
        group = self.group(context)
        if group is None:
            return []
        # More rows are read, since some of the first rows may be hidden.
        limit = limit if self._is_open(context) else max(limit, _PAGE_VERSIONS)
        live = self.versions(self.view.reader.numbered(group, id, limit))
        soft = self.view.confluent.soft_deleted_with(group.id.lower(), id, limit)
        return live + self._select_readable(group, soft)

    def may_show(self, context: str, id: int) -> bool:
        """Return True unless a schema id of a context may belong to hidden schemas only."""
        return self._is_open(context) or bool(self.with_id(context, id, 1))

    def names(
        self, context: str, beginning: str = "", *, offset: int = 0, limit: int | None = None
    ) -> Iterator[Subject]:
        """Yield the subjects of a context that have versions and whose names start with ``beginning``, by schema id.

        ``offset`` is the number of schemas to skip, ``limit`` the number of schemas to read. Both also count schemas
        that are left out afterwards, because their ids match ``beginning`` but the names of their subjects do not.
        """
        if self._is_open(context):
            return self._list_names(context, beginning, offset=offset, limit=limit)
        readable = filter(self.is_readable, self._list_names(context, beginning))
        return islice(readable, offset, None if limit is None else offset + limit)

    def _is_open(self, context: str) -> bool:
        """Return True if the caller can read everything in a context."""
        group = self.group(context)
        return not self._hides or (group is not None and self.view.access.allows_everything_below(Action.READ, group))

    def _list_names(
        self, context: str, beginning: str = "", *, offset: int = 0, limit: int | None = None
    ) -> Iterator[Subject]:
        group = self.group(context)
        row = None if group is None else self.view.reader.get(group)
        if row is None or group is None:
            return
        first, remaining = id_beginning(beginning), limit
        last = first + LAST
        while remaining is None or remaining > 0:
            size = _PAGE_VERSIONS if remaining is None else min(remaining, _PAGE_VERSIONS)
            rows = self.view.reader.schemas(row.key, first=first, last=last, offset=offset, limit=size)
            for name, attributes in rows:
                # Schemas without a generated id are named like their subject.
                is_generated = is_made(name)
                subject = read_subject_name(group / SCHEMAS / name, load_json(attributes)) if is_generated else name
                if subject.startswith(beginning):
                    yield Subject(context, subject)
            if len(rows) < size:
                return
            first, offset, remaining = rows[-1][0] + BEHIND, 0, None if remaining is None else remaining - size

    def count(self, context: str) -> int:
        """Return the number of subjects of a context that have versions."""
        if not self._is_open(context):
            return sum(1 for _ in self.names(context))
        group = self.group(context)
        row = None if group is None else self.view.reader.get(group)
        return 0 if row is None else self.view.reader.count_schemas(row.key)

    def load_live_rows(self, subjects: Sequence[Subject]) -> list[list[Row]]:
        """Return for each subject its rows of Versions that are not deleted, by number. ``load_versions`` converts
        them."""
        schemas = self.schemas(subjects)
        by_owner: dict[int, list[tuple[int, Row]]] = {row.key: [] for row in schemas.values()}
        for number, row in _list_numbered(self.view.reader.children(list(by_owner), "versions")):
            by_owner[row.parent].append((number, row))
        numbered = [by_owner[schemas[subject].key] if subject in schemas else [] for subject in subjects]
        return [[row for _, row in sorted(rows, key=itemgetter(0))] for rows in numbered]

    def load_versions(self, rows: Sequence[Row]) -> list[SchemaVersion]:
        """Return the versions for these rows, in the same order."""
        by_xid = {version.xid: version for version in self.versions(rows)}
        return [by_xid[row.xid] for row in rows]

    def deleted_names(self, context: str) -> Iterator[Subject]:
        """Yield the subjects of a context that have soft-deleted versions."""
        group = self.group(context)
        after = ""
        while group is not None:
            rows = self.view.confluent.soft_deleted_of(group.id.lower(), after, _PAGE_VERSIONS)
            if not rows:
                return
            yield from dict.fromkeys(version.subject for version in self._select_readable(group, rows))
            after = rows[-1].schema

    def last_number(self, subject: Subject) -> int:
        """Return the highest version number of a subject, or 0.

        Soft-deleted versions count, too, and Versions of the schema that are not versions of the subject.
        """
        schema = self.schema(subject)
        live = None if schema is None else find_latest_number(self.view, schema)
        return max(live or 0, *(version.version for version in self.deleted(subject)), 0)

    def is_taken(self, subject: Subject, number: int) -> bool:
        """Return True if the schema of a subject has a Version with this number."""
        schema = self.schema(subject)
        return schema is not None and self.view.exists(schema / "versions" / str(number))

    def check_empty(self, context: str) -> None:
        """Raise 42211 if a context has subjects, including soft-deleted subjects."""
        if next(self.names(context), None) is not None or next(self.deleted_names(context), None) is not None:
            raise context_not_empty(context)

    def schemas(self, subjects: Iterable[Subject]) -> dict[Subject, Row]:
        """Return the rows of the schemas of ``subjects``, for subjects that exist and can be read."""
        places = {
            subject: list_schema_xids(subject, self.default_group) for subject in subjects if self.is_readable(subject)
        }
        # Read the Groups first: a write that has read them also learns which places in them are vacant.
        self.view.reader.get_many({xid.parent.owner for xids in places.values() for xid in xids})
        rows = self.view.reader.get_many([xid for xids in places.values() for xid in xids])
        return {
            subject: rows[xid]
            for subject, xids in places.items()
            for xid in reversed(xids)
            if xid in rows and self._is_schema_of(rows[xid], subject)
        }

    def _is_schema_of(self, schema: Row, subject: Subject) -> bool:
        """Return True if a schema at one of the possible places of a subject belongs to this subject.

        The id alone does not decide: anybody with rights on an id can write a schema with it. A subject whose name
        equals the id generated from another name does not get the other subject, either.
        """
        if schema.xid.id == subject.name and not is_made(subject.name):
            return True
        version = None if schema.xref is not None else self.view.reader.get(schema.default_version)
        name = schema.xid.id if version is None else read_subject_name(schema.xid, version.attributes)
        return name == subject.name

    def shows(self, version: Row) -> bool:
        """Return True if the caller can read the subject of a readable Version."""
        is_generated = self._hides and is_made(version.xid.resource.id)
        return not is_generated or self.is_readable(self._build_subject(version.xid.resource, version.attributes))

    def versions(self, rows: Iterable[Row]) -> list[SchemaVersion]:
        """Return the subjects' versions for these rows, by subject and number. Rows of hidden subjects are left out."""
        counted = [(number, row) for number, row in _list_numbered(rows) if self.shows(row)]
        documents = self.view.reader.documents([row.document for _, row in counted if row.document is not None])
        return [
            self._build_version(number, row, documents[row.document or ""])
            for number, row in sorted(counted, key=lambda pair: (pair[1].xid.parts[:4], pair[0]))
        ]

    def _build_version(self, number: int, row: Row, document: bytes) -> SchemaVersion:
        return SchemaVersion(
            subject=self._build_subject(row.xid.resource, row.attributes),
            schema=row.xid.resource,
            version=number,
            id=row.schemaid or 0,
            attributes=row.attributes,
            document=document,
            written=row.createdat,
            xid=row.xid,
        )

    def _select_readable(self, group: Xid, rows: Iterable[SoftDeleted]) -> list[SchemaVersion]:
        """Return the soft-deleted versions of readable schemas and subjects, except numbers that another API has reused
        since."""
        readable = self.view.access.is_readable
        places = {group / SCHEMAS / row.schema / "versions" / str(row.version): row for row in rows}
        reused = self.view.reader.get_many(list(places)) if places else {}
        versions = (self._build_deleted(xid.resource, row) for xid, row in places.items() if xid not in reused)
        return [version for version in versions if self.is_readable(version.subject) and readable(version.schema)]

    def _build_deleted(self, schema: Xid, row: SoftDeleted) -> SchemaVersion:
        return SchemaVersion(
            subject=self._build_subject(schema, row.attributes),
            schema=schema,
            version=row.version,
            id=row.schemaid,
            attributes=row.attributes,
            document=row.document,
            written=row.deletedat,
        )

    def _build_subject(self, schema: Xid, attributes: JSONObject) -> Subject:
        return Subject(context_of(schema.group_id, self.default_group), read_subject_name(schema, attributes))


def _list_numbered(rows: Iterable[Row]) -> list[tuple[int, Row]]:
    """Return the rows that are versions of subjects, each with its number."""
    return [
        (number, row)
        for row in rows
        if row.schemaid is not None and row.document is not None and (number := version_number(row.xid.id)) is not None
    ]
