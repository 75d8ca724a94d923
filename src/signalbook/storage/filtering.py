"""The SQL of filters: one statement selects entities by their content at any depth.

The SQL that pages through a collection is in ``entities`` (``children``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, Protocol, TypeAlias, cast

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Text, and_, bindparam, case, func, literal_column, or_, select
from sqlalchemy.sql.selectable import FromClause

from signalbook.storage.base import Condition, Hit, Part, Row, Selection
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import COLUMNS, ENTITIES, load, stored_xid
from signalbook.values import JSON
from signalbook.xid import Xid

_MAX_VALUE_CHARS: Final = 200
_ATTRIBUTES: Final = [column.name for column in COLUMNS].index("attributes")
_XREF: Final = [column.name for column in COLUMNS].index("xref")
_SHORT: Final = 4
"""The number of columns of a step that returns only attributes. The attributes are the last column."""


class _Parts(Enum):
    """The parts that a step returns in addition to its folded id."""

    KEY = 0
    ATTRIBUTES = 1
    ROWS = 2


_Shape: TypeAlias = tuple[Any, ...]


class SelectionStatements:
    """The statements of selections for one dialect. Each shape of selection is compiled once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._text = lru_cache(maxsize=256)(self._compile)

    def statement(self, selection: Selection) -> tuple[str, dict[str, Any]]:
        """Return the SQL text of ``selection`` and its parameters."""
        parameters: dict[str, Any] = {"parent": selection.parent, "after": selection.after}
        parameters |= {f"type{step}": plural for step, plural in enumerate(selection.types)}
        parameters |= {
            f"value{a}_{t}_{v}": self._encode_parameter(test, value)
            for a, tests in enumerate(selection.alternatives)
            for t, test in enumerate(tests)
            for v, value in enumerate(test.values)
        }
        shapes = tuple(
            tuple((test.step, test.part, test.column, test.relation, len(test.values)) for test in tests)
            for tests in selection.alternatives
        )
        parts = tuple(_choose_parts(selection, step) for step in range(len(selection.types)))
        return self._text(parts, selection.resource, shapes, selection.after is not None), parameters

    def _encode_parameter(self, test: Condition, value: str | int) -> str | int:
        if test.relation != "contains" or isinstance(value, int):
            return value
        return self._dialect.contained(value[:_MAX_VALUE_CHARS])

    def _compile(self, parts: tuple[_Parts, ...], resource: int | None, shapes: _Shape, after: bool) -> str:
        way = _Joins(len(parts), resource)
        columns = [column for step, step_parts in enumerate(parts) for column in way.columns(step, step_parts)]
        query = select(*columns).select_from(way.source).where(*way.conditions)
        if all(shapes):
            passing = (
                and_(*(self._test(way, f"{a}_{t}", *test) for t, test in enumerate(tests)))
                for a, tests in enumerate(shapes)
            )
            query = query.where(or_(*passing))
        if after:
            query = query.where(way.own[0].c.folded > bindparam("after"))
        query = query.order_by(*(table.c.folded for table in way.own))
        return self._dialect.text(query)

    def _test(
        self, way: _Joins, name: str, step: int, part: Part, column: str, relation: str, count: int
    ) -> ColumnElement[bool]:
        if relation == "default":
            return way.is_default(step)
        tested = way.column(step, part, column)
        if relation != "contains":
            return tested.bool_op(relation)(bindparam(f"value{name}_0", type_=tested.type))
        contained = [self._dialect.contains(tested, f"value{name}_{v}") for v in range(count)]
        return or_(*contained, self._dialect.folds_to_ascii(tested))


class _Joins:
    """The joins of a selection: a row of ``entities`` for each step; for a Resource also its target and default
    Version.

    Target and default Version are outer joins over unique keys, which databases skip if no column of them is used.
    """

    def __init__(self, depth: int, resource: int | None) -> None:
        self.own = [ENTITIES.alias(f"e{step}") for step in range(depth)]
        self._resource = resource
        self._target = ENTITIES.alias("target")
        self._default = ENTITIES.alias("preset")
        self.conditions: list[ColumnElement[bool]] = []
        self.source: FromClause = self.own[0]
        above: ColumnElement[int] = bindparam("parent", type_=BigInteger)
        for step, own in enumerate(self.own):
            if step:
                self.source = self.source.join(own, own.c.parent == above)
            else:
                self.conditions.append(own.c.parent == above)
            self.conditions.append(own.c.type == bindparam(f"type{step}", type_=Text))
            above = self._follow() if step == resource else own.c.key

    def _follow(self) -> ColumnElement[int]:
        """Join the target and the default Version of a Resource. Return the key of the Resource that is shown."""
        target, default = self._target, self._default
        self.source = self.source.outerjoin(target, target.c.xid == self._own.c.xref)
        shown_key: ColumnElement[int] = self._select_shown("key")
        of_shown = default.c.folded == func.lower(self._select_shown("defaultversionid"))
        versions = and_(default.c.parent == shown_key, default.c.type == literal_column("'versions'"), of_shown)
        self.source = self.source.outerjoin(default, versions)
        return shown_key

    @property
    def _own(self) -> FromClause:
        return self.own[self._resource or 0]

    def _select_shown(self, column: str) -> ColumnElement[Any]:
        """Return a column of the Resource that is shown: the target of a cross reference, or the Resource itself.

        It is null if the cross reference points to no Resource, or to another cross reference.
        """
        resource, target = self._own.c, self._target.c
        return case((resource.xref.is_(None), resource[column]), (target.xref.is_(None), target[column]))

    def column(self, step: int, part: Part, name: str) -> ColumnElement[Any]:
        """Return the column that a test compares."""
        if part == "default":
            return self._default.c[name]
        return self._select_shown(name) if part == "shown" else self.own[step].c[name]

    def is_default(self, step: int) -> ColumnElement[bool]:
        """Return the test that the Version of ``step`` is its Resource's default Version."""
        return self.own[step].c.folded == func.lower(self._select_shown("defaultversionid"))

    def columns(self, step: int, parts: _Parts) -> Iterator[ColumnElement[Any]]:
        """Yield the columns that a step returns, as ``SqlHit`` reads them."""
        table, of_default = self.own[step].c, step == self._resource
        yield table.folded
        if parts is not _Parts.ROWS:
            yield table.key
            yield table.xref
        if parts is _Parts.ATTRIBUTES:
            yield self._default.c.attributes if of_default else table.attributes
        if parts is _Parts.ROWS:
            for row in (table, self._target.c, self._default.c) if of_default else (table,):
                yield from (row[column.name] for column in COLUMNS)


class SqlHit:
    """An implementation of ``base.Hit`` that reads the columns of one step."""

    __slots__ = ("_record", "_rows", "folded", "key")

    def __init__(self, record: Sequence[Any]) -> None:
        self.folded: str = record[0]
        self.key: int = record[1]
        self._record = record
        self._rows: dict[int, Row | None] | None = None

    @property
    def xref(self) -> Xid | None:
        """The xid that a Resource refers to, or None."""
        text = self._record[2 if len(self._record) <= _SHORT else 1 + _XREF]
        return None if text is None else stored_xid(text)

    @property
    def row(self) -> Row | None:
        """The entity's own row, or None if the rows of this step were not requested."""
        return self._load_row(0)

    @property
    def target(self) -> Row | None:
        """The row of the Resource that this Resource refers to, or None."""
        return self._load_row(1)

    @property
    def default(self) -> Row | None:
        """The row of the default Version of the Resource that is shown, or None."""
        return self._load_row(2)

    def attribute(self, part: Part, name: str) -> JSON:
        """Return one attribute, or None. The rest of the column is not decoded."""
        record = self._record
        if len(record) > _SHORT:
            text = record[1 + _ATTRIBUTES + (2 * len(COLUMNS) if part == "default" else 0)]
        else:
            text = record[-1]
        decode = _find_decoder(name)
        return None if text is None or decode is None else decode(text).value

    def _load_row(self, place: int) -> Row | None:
        if self._rows is None:
            self._rows = {}
        if place not in self._rows:
            start = 1 + place * len(COLUMNS)
            record = tuple(self._record[start : start + len(COLUMNS)])
            self._rows[place] = load(record) if len(record) == len(COLUMNS) and record[0] is not None else None
        return self._rows[place]


class _Attribute(Protocol):
    value: JSON


@lru_cache(maxsize=256)
def _find_decoder(name: str) -> Callable[[str], _Attribute] | None:
    """Return a decoder of the attribute ``name`` in a JSON object, which skips all other attributes.

    Return None if no attribute can have this name, because it contains quotes, backslashes or control characters.
    """
    try:
        kind = msgspec.defstruct("Attribute", [("value", Any, None)], rename={"value": name}, gc=False)
    except ValueError:
        return None
    return cast(Callable[[str], _Attribute], msgspec.json.Decoder(kind).decode)


def load_hits(records: Iterable[Sequence[Any]], selection: Selection) -> Iterator[tuple[Hit, ...]]:
    """Yield the paths in ``records`` of a selection's statement. A step that equals the previous path's step is the
    same object."""
    starts = list(accumulate((_count_columns(selection, step) for step in range(len(selection.types) - 1)), initial=0))
    above = [slice(*ends) for ends in pairwise(starts)]
    last = slice(starts[-1], None)
    hits: list[SqlHit] = []
    for record in records:
        same = 0
        while same < len(hits) and hits[same].key == record[above[same].start + 1]:
            same += 1
        if same < len(above):
            hits[same:] = [SqlHit(record[columns]) for columns in above[same:]]
        yield (*hits, SqlHit(record[last]))


def _count_columns(selection: Selection, step: int) -> int:
    match _choose_parts(selection, step):
        case _Parts.KEY:
            return _SHORT - 1
        case _Parts.ATTRIBUTES:
            return _SHORT
        case _:
            return 1 + len(COLUMNS) * (3 if step == selection.resource else 1)


def _choose_parts(selection: Selection, step: int) -> _Parts:
    if step in selection.rows:
        return _Parts.ROWS
    return _Parts.ATTRIBUTES if step in selection.attributes else _Parts.KEY
