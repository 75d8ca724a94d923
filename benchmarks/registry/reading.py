"""What filters, sorting and pages cost over 7,500 Versions: of one Resource, and of 750 Resources with ten each.

The floor is reading and decoding the rows of these Versions; all else is given in milliseconds, the best of some runs,
and as a ratio to the floor of the same run. Requests are made to the engine, in this process.

    python -m benchmarks.registry.reading [DATABASE URL]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

from signalbook.access.base import ANONYMOUS
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.policy import read_policy
from signalbook.engine.engine import Engine
from signalbook.engine.read.filters import parse_filter
from signalbook.engine.read.pages import PageRequest, parse_sort
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.commands import Command, ConfigCommand, Method
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

VERSIONS: Final = 7_500
EACH: Final = 10
ONE: Final = "/dirs/one/files/long/versions"
MANY: Final = "/dirs/many/files"
FILTERS: Final = {
    "equal string": "name=version 77",
    "contains": "description=*no 77 with*",
    "label": "labels.stage=prod",
    "any label": "labels.*=t9",
    "nested": "owner.mail=x55@*",
    "number": "size=77",
    "relative number": "size>7400",
    "id": "versionid=v0077",
    "time": "createdat>2999-01-01T00:00:00Z",
    "time by wildcard": "createdat=2999*",
    "made": "isdefault=true",
    "unequal": "labels.stage!=dev",
    "all match": "name=version*",
    "none match": "none=1",
}
_MODEL: Final = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {
    "singular": "file", "hasdocument": False, "attributes": {"*": {"type": "any"}}}}}}}  # fmt: skip
_RUNS: Final = 5
_PAGE: Final = 50
_RULES: Final = 1_000


def measure(db: str) -> dict[str, Any]:
    """Fill the empty database ``db``, then ask."""
    with closing(open_store(db)) as store:
        engine = Engine(store, settings=Settings(model="empty", registry_id="bench"))
        _fill(engine)
        floor = _best(partial(_rows, store))
        found = {
            f"{where}: {name}": _best(partial(_ask, engine, path, below + expression))
            for where, path, below in (("one Resource", ONE, ""), ("750 Resources", MANY, "versions."))
            for name, expression in FILTERS.items()
        }
        for name, sort in (("a page", None), ("a sorted page", "name=desc")):
            found[name] = _best(partial(_ask, engine, ONE, None, sort))
        for name, expression, sort in (("all match", "versions.name=version*", None), ("a sorted page", None, "name")):
            asked = partial(_ask, engine, MANY, expression, sort, access=_restricted())
            found[f"750 Resources, under {_RULES} rules: {name}"] = _best(asked)
    figures = {name: {"ms": round(ms, 2), "of the floor": round(ms / floor, 2)} for name, ms in found.items()}
    return {f"filters over {VERSIONS} versions": {"floor: decoding the rows, ms": round(floor, 2), **figures}}


def _fill(engine: Engine) -> None:
    many = {f"f{number:03}": {"versions": dict(_versions(number * EACH, EACH))} for number in range(VERSIONS // EACH)}
    for command in (
        ConfigCommand(name="modelsource", method=Method.PUT, body=_MODEL),
        _put("/dirs/one", {"files": {"long": {"versions": dict(_versions(0, VERSIONS))}}}),
        _put("/dirs/many", {"files": many}),
    ):
        with engine.writing() as session:
            session.execute(command)


def _put(path: str, body: JSON) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(path), body=body)


def _versions(first: int, count: int) -> Iterator[tuple[str, JSONObject]]:
    for number in range(first, first + count):
        yield (
            f"v{number:04}",
            {
                "name": f"version {number}",
                "description": f"A description of no {number} with some words in it",
                "size": number,
                "labels": {"stage": "dev" if number % 100 else "prod", "team": f"t{number % 7}"},
                "owner": {"mail": f"x{number}@example.com"},
            },
        )


def _rows(store: Store) -> int:
    with store.read() as reader:
        resource = reader.entities.get(Xid.parse(ONE).owner)
        return sum(1 for _ in reader.entities.children([resource.key], "versions")) if resource else 0


def _restricted() -> Access:
    """Rights by many rules with wildcards, and one that hides some Resources."""
    rules: list[JSON] = [{"who": ["anyone"], "role": "reader", "on": [f"/dirs/m*/files/*{n}"]} for n in range(_RULES)]
    rules.append({"who": ["anyone"], "deny": ["read"], "on": ["/dirs/*/files/f00*"]})
    return read_policy({"rules": rules}).access(ANONYMOUS)


def _ask(
    engine: Engine, path: str, expression: str | None, sort: str | None = None, access: Access = UNRESTRICTED
) -> JSONObject:
    """One page of a collection."""
    xid = Xid.parse(path)
    with engine.reading(access) as view:
        options = _options(view, xid, expression, sort)
        return view.render_members(xid, view.list_members(xid, options, PageRequest(limit=_PAGE)), options)


def _options(view: View, xid: Xid, expression: str | None, sort: str | None) -> ViewOptions:
    chosen = () if expression is None else (expression,)
    return ViewOptions(
        filter=parse_filter(chosen, xid, view.model, subject=str(xid)),
        sort=parse_sort(sort, xid, view.model, subject=str(xid)),
    )


def _best(ask: Callable[[], object]) -> float:
    """Milliseconds."""
    found = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        ask()
        found.append(time.perf_counter() - started)
    return min(found) * 1000


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1] if len(sys.argv) > 1 else "sqlite://"), indent=2))
