"""The columns of a definition's table in memory, by its schemas and its policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from signalbook.formats import Schema, Shape, as_sent, is_lossy
from signalbook.formats.base import JsonValues
from signalbook.messages import CompiledDefinition
from signalbook.pipeline import columns, rescue
from signalbook.pipeline.tables.evolution import has_stated_members, restore_first_names


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a definition's table in memory.

    ``columns`` are all columns; ``width`` of them are the payload's. ``shape`` is the shape of payloads, ``None`` if
    the definition names no schema. ``key`` is the shape of record keys, ``None`` if keys have no schema. With
    ``rescues`` the table has ``columns.RESCUE``, because its other columns may not hold all of a payload. ``built``
    are the columns as decoders build them, with the names that the newest version of the schema gives them. In
    ``columns`` they may have the names of earlier versions.
    """

    shape: Shape | None
    key: Shape | None
    rescues: bool
    width: int
    columns: pa.Schema
    built: pa.Schema

    @classmethod
    def of(cls, shape: Shape | None, *, rescues: bool, key: Shape | None = None) -> Layout:
        """Return the layout for payloads of ``shape`` and keys of the shape ``key``; each is None without a schema."""
        held = columns.encode_constants(columns.build_landed(shape, rescue=rescues, key=key))
        width = len(columns.build_payload(shape))
        return cls(shape=shape, key=key, rescues=rescues, width=width, columns=held, built=held)

    @cached_property
    def states_members(self) -> bool:
        """True if the description of a column states its member, because the column's name does not show it."""
        return has_stated_members(self.built)

    @cached_property
    def paths(self) -> rescue.RescuedPaths:
        """The counter of paths whose values have no column."""
        assert self.shape is not None
        return rescue.RescuedPaths(self.shape)


OPAQUE: Final = Layout.of(None, rescues=False)
# Layouts by schema. The tasks of a process share them, because building a layout of hundreds of columns takes longer
# than building the rows of a small batch. They are removed together with the schema.
_layouts: Final[WeakKeyDictionary[Schema, dict[tuple[object, ...], Layout]]] = WeakKeyDictionary()


def find_layout(definition: CompiledDefinition) -> Layout:
    """Return the layout of a definition's table, which depends on its schemas and its policy."""
    schema, policy = definition.schema_use.schema, definition.policy
    if schema is None:
        return OPAQUE
    layouts = _layouts.setdefault(schema, {})
    parts = definition.key_use.schema, policy.typed, policy.rescue == "keep", policy.on_schema_violation == "tag"
    if parts not in layouts:
        layouts[parts] = _build_layout(schema, *parts)
    own_layout = layouts[parts]
    if not own_layout.states_members:
        return own_layout
    # Members compete for a column name if their names differ only in case, for example. Each member keeps the column
    # name that it had in the first version of the schema with this member.
    earlier = tuple(definition.schemas.earlier(definition.schema_use))
    if (parts, earlier) not in layouts:
        renamed = restore_first_names((columns.build_payload(version.shape()) for version in earlier), own_layout.built)
        unchanged = renamed.equals(own_layout.built)
        layouts[parts, earlier] = own_layout if unchanged else replace(own_layout, columns=renamed)
    return layouts[parts, earlier]


def _build_layout(schema: Schema, keys: Schema | None, typed: bool, keep: bool, tag: bool) -> Layout:
    shape, key = _find_shape(schema, typed), None if keys is None else _find_shape(keys, typed)
    # Payloads that land although they break their schema may have members without a column, even if it is closed.
    lossy = is_lossy(shape) or (tag and isinstance(schema, JsonValues) and rescue.plan(shape) != rescue.ALL)
    return Layout.of(shape, rescues=keep and lossy, key=key)


def _find_shape(schema: Schema, typed: bool) -> Shape:
    return schema.shape() if typed else as_sent(schema.shape())
