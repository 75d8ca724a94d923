"""One document into a registry: only what is new of it is sent, and what came of it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain

from signalbook.cli.registry import Registry
from signalbook.documents import Source, Upload, Work, aim, attributes, compare, extend_model
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

_WORDS = (Kind.REGISTRY, Kind.GROUP, Kind.RESOURCE, Kind.VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What one document did, or would do: the entities created, updated and left as they are, in its order."""

    source: Source
    target: Xid
    created: tuple[Xid, ...] = ()
    updated: tuple[Xid, ...] = ()
    unchanged: tuple[Xid, ...] = ()

    def __str__(self) -> str:
        return f"{self.source.name}: {summary([self])}"

    def to_json(self) -> JSONObject:
        """The form that ``--json`` prints."""
        return {
            "source": self.source.name,
            "target": str(self.target),
            "created": [str(xid) for xid in self.created],
            "updated": [str(xid) for xid in self.updated],
            "unchanged": [str(xid) for xid in self.unchanged],
            "repairs": [
                {"source": part.name, **asdict(repair)}
                for part in self.source.parts or (self.source,)
                for repair in part.repairs
            ],
        }


def summary(rows: Iterable[Imported]) -> str:
    """What several documents did, in a few words."""
    created, updated, unchanged = zip(*((row.created, row.updated, row.unchanged) for row in rows), strict=True)
    told = [f"{word} {_counted(xids)}" for word, xids in (("created", created), ("updated", updated)) if any(xids)]
    if any(unchanged):
        told.append(f"{_counted(unchanged)} unchanged")
    return "; ".join(told) or "no entities"


def import_source(registry: Registry, source: Source, *, ignore: Sequence[str], to: Xid | None) -> Imported:
    """Bring ``source`` into ``registry``, in one request that has only what is new. Raises ``SignalbookError``."""
    upload = aim(source.document, to=to)
    if "modelsource" in upload.body and upload.target == ROOT and "modelsource" not in ignore:
        upload = extend_model(upload, registry.modelsource())
    collections = _collections(registry.model(), upload)
    seen: dict[Xid, JSONObject] = {}

    def find(xid: Xid) -> JSONObject | None:
        found = registry.find(xid)
        if found is not None:
            seen[xid] = found
        return found

    work = compare(upload, find, collections)
    if work.upload is not None and registry.patch(work.upload, ignore):
        _settle(work, registry, seen, collections)
    return Imported(
        source=source,
        target=upload.target,
        created=tuple(work.created),
        updated=tuple(work.changed),
        unchanged=tuple(work.unchanged),
    )


def _settle(
    work: Work, registry: Registry, seen: dict[Xid, JSONObject], collections: Callable[[Xid], Iterable[str]]
) -> None:
    """What was sent and changed nothing, a default written out for instance, counts as unchanged."""
    if not work.changed:
        return
    touched = [xid for xid in seen if any(_is_at(changed, xid) for changed in work.changed)]
    before: dict[Xid, JSONObject] = {}
    after: dict[Xid, JSONObject] = {}
    for xid in touched:
        before |= attributes(seen[xid], xid, collections)
        after |= attributes(registry.find(xid) or {}, xid, collections)
    same = {xid for xid in work.changed if xid != ROOT and before.get(xid) == after.get(xid)}
    work.changed = [xid for xid in work.changed if xid not in same]
    work.unchanged += sorted(same)


def _is_at(xid: Xid, top: Xid) -> bool:
    return xid.parts[: len(top.parts)] == top.parts


def _collections(model: JSONObject, upload: Upload) -> Callable[[Xid], Iterable[str]]:
    """The collections an entity has by ``model``, or by the model that ``upload`` brings."""
    source = upload.body.get("modelsource")
    brought = source.get("groups") if isinstance(source, dict) else None
    groups: JSONObject = {**model["groups"], **(brought if isinstance(brought, dict) else {})}

    def names(xid: Xid) -> Iterable[str]:
        match xid.kind:
            case Kind.REGISTRY:
                return groups
            case Kind.GROUP:
                resources: JSONObject = groups.get(xid.group_type, {}).get("resources") or {}
                return resources
            case Kind.RESOURCE:
                return ("versions",)
            case _:
                return ()

    return names


def _counted(xids: Iterable[Iterable[Xid]]) -> str:
    counts = Counter(xid.kind for xid in chain.from_iterable(xids))
    told = (f"{counts[kind]} {kind}{'' if counts[kind] == 1 else 's'}" for kind in _WORDS if counts[kind])
    return ", ".join(told).replace("1 registry", "the registry")
