"""How many Resources a Group may have."""

from __future__ import annotations

from signalbook.engine.write.workingcopies import WorkingTree
from signalbook.errors import RegistryError
from signalbook.storage.base import Reader


def check_quota(tree: WorkingTree, reader: Reader, most: int) -> None:
    """Raise ``bad_request`` if what was written gave a Group new Resources, and it has more than ``most`` of them now.

    Resources of all types count, not their Versions. The numbers are those that the store keeps: none is counted here.
    A Group that had more already may lose some, and may not gain any.
    """
    grown = {xid.owner for xid, copy in tree.resources.items() if copy.before is None}
    groups = {row.key: xid for xid, row in reader.get_many(grown).items()}
    total = dict.fromkeys(groups, 0)
    for (key, _), count in reader.counts(groups).items():
        total[key] += count
    for key, count in total.items():
        if count > most:
            detail = f'"{groups[key]}" may have {most} Resources (setting max_group_resources), and would have {count}'
            raise RegistryError("bad_request", subject=str(groups[key]), error_detail=detail)
