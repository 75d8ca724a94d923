"""References between schemas: list the names of a schema, and find the schema that a name refers to.

docs/references.md has the rules. The registry, checks, the pipeline and the generators share this module. A registry
has no files, so the ids and names of its schemas are treated as file paths in a folder for their group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from posixpath import normpath
from typing import Final, Protocol, TypeGuard, TypeVar, runtime_checkable

import msgspec

from signalbook.formats.base import IMPORT, SchemaError, find, find_family
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.imports import is_built_in
from signalbook.values import JSON, Finding
from signalbook.xid import Kind, Xid, XidError, group_of

MAX_REFERRED: Final = 100
"""The number of schemas whose ``references`` are followed for one schema."""
MAX_REFERENCES: Final = 10_000
"""The maximum number of references of one schema, including indirect ones."""

_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "avro": (".avsc",),
    "jsonschema": (".schema.json", ".json", ".jsonschema", ""),
    "protobuf": (".proto",),
    "xsd": (".xsd",),
}
"""The file suffixes of each family of formats. Longer suffixes precede the suffixes that they end with."""
_FAMILIES: Final = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes}
_LONGEST_NAME: Final = 900
_IDENTITY: Final = "id:"
T = TypeVar("T")


@runtime_checkable
class Importing(Protocol):
    """The methods of a ``Format`` whose documents can refer to other documents."""

    def identities(self, document: bytes) -> tuple[str, ...]:
        """Return the names that ``document`` declares for itself: its URI, or the full names of its types."""
        ...

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """Return the findings about a document together with all documents that it refers to.

        Raises ``UnresolvedReferences`` if a document that it refers to is missing.
        """
        ...


def is_importing(reader: object) -> TypeGuard[Importing]:
    """Return True if documents of the format ``reader`` can refer to other documents."""
    return _is_importing(type(reader))  # type: ignore[arg-type]  # mypy takes the hash of instances for its own


@cache
def _is_importing(kind: type) -> bool:
    # Comparing an object with a protocol takes 50 us each time.
    return issubclass(kind, Importing)


def has_open_references(findings: Iterable[Finding]) -> bool:
    """Return True if ``Format.check`` reported a reference to another document."""
    return any(finding.rule == IMPORT for finding in findings)


def list_identities(document: bytes, format: str) -> tuple[str, ...]:
    """Return the names that ``document`` declares for itself; empty if its format has no such names."""
    reader = find(format)
    return tuple(name for name in reader.identities(document) if is_indexable(name)) if is_importing(reader) else ()


def list_referred_names(document: bytes, format: str, findings: Sequence[Finding] | None = None) -> list[str]:
    """Return the names by which ``document`` refers to other documents, in the order in which they are looked up.

    ``findings`` is the result of ``Format.check`` for the document; None means that this function has to compute it.
    """
    reader = find(format)
    if findings is None:
        findings = [] if reader is None else reader.check(document, format)
    if not is_importing(reader) or not has_open_references(findings):
        return []
    names: list[str] = []
    with suppress(SchemaError):
        reader.check_whole(SchemaText(document=document, format=format, resolve=names.append))
    return list(dict.fromkeys(names))


def is_referable(format: str) -> bool:
    """Return True if schemas of ``format`` can be referred to by name."""
    return find_family(format) in _SUFFIXES


class ReferableSchema(msgspec.Struct, frozen=True, array_like=True):
    """A schema that others can refer to: the xid of the Resource, its format, name, import root and identities."""

    xid: str
    format: str = ""
    name: str = ""
    root: str = ""
    identities: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The xid of the group of this schema."""
        return group_of(self.xid)

    @property
    def family(self) -> str:
        """The family of its format."""
        return find_family(self.format)

    def list_stems(self) -> set[str]:
        """Return the paths of the files that this schema stands for, without suffixes: one from its id, one from its
        name.

        Each path is also returned with dots replaced by slashes, because an id cannot contain slashes.
        """
        return list_stems(self.xid.split("/")[4], self.family) | list_stems(self._file_name, self.family)

    def list_rooted_stems(self) -> set[str]:
        """Return the stems, alone and below the import root. Without an import root, the id of the
        group is the root.
        """
        stems = self.list_stems()
        root = (self.root or self.xid.split("/")[2].replace(".", "/")).strip("/")
        return stems | {f"{root}/{stem}" for stem in stems}

    def list_names(self) -> set[str]:
        """Return every name that a document can use for this schema, apart from its xid."""
        suffixes = _SUFFIXES.get(self.family, ())
        paths = {f"{stem}{suffix}" for stem in self.list_rooted_stems() for suffix in suffixes}
        # JSON Schema makes all paths absolute.
        return paths.union(self.identities, {f"/{path}" for path in paths} if self.family == "jsonschema" else ())

    @property
    def _file_name(self) -> str:
        # Only Protobuf schemas have file names as names. Names of other formats are titles, unless they look like
        # paths.
        is_path = "/" in self.name or _find_suffix(self.name) != ""
        return self.name if is_path or self.family == "protobuf" else ""


def list_stems(name: str, family: str) -> set[str]:
    suffix = next((ending for ending in _SUFFIXES.get(family, ()) if ending and name.endswith(ending)), "")
    stem = name.removesuffix(suffix)
    return {stem, stem.replace(".", "/")} if stem else set()


def _find_suffix(path: str) -> str:
    return next((suffix for suffix in _FAMILIES if suffix and path.endswith(suffix)), "")


def _find_stem(path: str) -> str:
    # Groups are sibling folders, so steps up ("..") from a group lead to their common root.
    return normpath(f"/{path.removesuffix(_find_suffix(path))}").lstrip("/")


class SchemaNames:
    """An index of schemas by the names that documents can use for them."""

    def __init__(self, schemas: Iterable[ReferableSchema]) -> None:
        self._by_identity: dict[str, set[ReferableSchema]] = defaultdict(set)
        self._by_stem: dict[str, set[ReferableSchema]] = defaultdict(set)
        for schema in schemas:
            for identity in schema.identities:
                self._by_identity[identity].add(schema)
            for stem in schema.list_rooted_stems():
                self._by_stem[stem].add(schema)

    def find(self, name: str, group: str) -> str | None:
        """Return the xid of the schema that a document in ``group`` means by ``name``; None if no schema or several
        match.

        The group is searched before all groups together, identities before paths. For a built-in file only the group is
        searched.
        """
        file_family = _FAMILIES[_find_suffix(name)]
        by_path = {schema for schema in self._by_stem.get(_find_stem(name), ()) if schema.family == file_family}
        candidates = (self._by_identity.get(name, set()), by_path)
        other_groups = () if is_built_in(name) else candidates
        own_group = ({schema for schema in schemas if schema.group == group} for schemas in candidates)
        match = next(filter(None, (*own_group, *other_groups)), frozenset[ReferableSchema]())
        return next(iter(match)).xid if len(match) == 1 else None


def index_keys(schema: ReferableSchema) -> set[str]:
    """Return the keys to store ``schema`` under, so that ``lookup_keys`` of each of its names finds it."""
    keys = {_build_identity_key(identity) for identity in schema.identities}
    return keys | {_build_file_key(stem) for stem in schema.list_stems() if is_indexable(stem)}


def lookup_keys(name: str) -> set[str]:
    """Return the ``index_keys`` under which the schema that a document calls ``name`` may be stored.

    A path may begin with the import root of a group, which is not part of the keys, so the last part of the path is
    looked up alone as well.
    """
    if not is_indexable(name):
        return set()
    stem = _find_stem(name)
    return {_build_identity_key(name), _build_file_key(stem), _build_file_key(stem.rpartition("/")[2])}


def is_indexable(name: str) -> bool:
    """Return True if every supported database can store ``name`` in the key of an index."""
    return 0 < len(name) <= _LONGEST_NAME and name.isascii() and "\0" not in name


def find_identity(key: str) -> str:
    """Return the identity in a key of ``index_keys``; empty if the key is that of a path."""
    return key.removeprefix(_IDENTITY) if key.startswith(_IDENTITY) else ""


def _build_identity_key(identity: str) -> str:
    return f"{_IDENTITY}{identity}"


def _build_file_key(stem: str) -> str:
    """Return the key for the path ``stem``: its last two parts, or its only part."""
    return f"file:{'/'.join(stem.split('/')[-2:])}"


def read_as_xids(name: str) -> tuple[str, ...]:
    """Return the forms of ``name`` to try as xids. For example, ``import
    "schemagroups/g/schemas/s.proto"`` is an xid.
    """
    return (f"/{name}", f"/{name.removesuffix('.proto')}") if name.endswith(".proto") else (name,)


def find_reference_targets(attributes: Mapping[str, JSON]) -> dict[str, Xid]:
    """Return the xids of the Versions that a Version refers to, by the names that its document uses for them."""
    return dict(reversed(list_linked_references(attributes)))  # if two have the same name, the first one is used


def list_linked_references(attributes: Mapping[str, JSON]) -> list[tuple[str, Xid]]:
    """Return the names of a Version's references, with the xids of the Versions they refer to.

    For references with a ``type``, the names of these Avro types follow at the end: Avro documents use type names,
    and the name of a reference may differ.
    """
    stated = attributes.get("references")
    links: list[tuple[str, Xid]] = []
    types: list[tuple[str, Xid]] = []
    for reference in stated[:MAX_REFERENCES] if isinstance(stated, list) else ():
        name, text = (reference.get("name"), reference.get("xid")) if isinstance(reference, dict) else (None, None)
        if isinstance(name, str) and isinstance(text, str):
            try:
                xid = Xid.parse(text)
            except XidError:
                continue
            if xid.kind is Kind.VERSION and xid.group_type == "schemagroups":
                links.append((name, xid))
                if isinstance(reference.get("type"), str):
                    types.append((reference["type"], xid))
    return links + types


def match_reference(targets: Mapping[str, T], name: str) -> T | None:
    """Return the target that a document means by ``name``; None if no target matches.

    ``targets`` is the attribute ``references``: targets by name as written. JSON Schema turns names into URIs, so a
    name that is a path or URI also matches the target whose name it ends with.
    """
    if name in targets or not (name.startswith("/") or "://" in name):
        return targets.get(name)
    return next((target for stated, target in targets.items() if name.endswith(f"/{stated}")), None)


def follow_references(start: T, name: str, targets_of: Callable[[T], Mapping[str, T]]) -> T | None:
    """Return the target that ``start``, or a schema that it refers to, has for ``name``; None if there is no match.

    ``targets_of`` returns the ``references`` of a schema. At most ``MAX_REFERRED`` schemas are searched.
    """
    seen: set[T] = set()
    waiting = [start]
    while waiting and len(seen) < MAX_REFERRED:
        schema = waiting.pop()
        if schema not in seen:
            seen.add(schema)
            targets = targets_of(schema)
            match = match_reference(targets, name)
            if match is not None:
                return match
            waiting.extend(targets.values())
    return None
