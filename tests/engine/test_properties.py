"""What holds for every write: PUT twice is once, epochs only grow, an export imports, an error changes nothing."""

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import FreshStore
from tests.engine.conftest import Registry, model_of
from tests.examples import examples

from signalbook.engine.engine import Engine
from signalbook.engine.read.nodes import EXPORT
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, Flags, Method
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.base import Row
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

IDS = st.sampled_from(["a", "b", "c", "1", "2"])
YEARS = st.integers(2000, 2003).map(lambda year: f"{year}-01-01T00:00:00Z")
COMMON: dict[str, Any] = {"name": st.sampled_from(["x", "y"]), "createdat": YEARS, "labels": st.just({"k": "v"})}
VERSION = st.fixed_dictionaries(
    {}, optional={**COMMON, "file": st.sampled_from([1, {"a": []}, "t"]), "kind": IDS, "ancestorid": IDS}
)
META = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.just({}),
        "defaultversionid": IDS,
        "defaultversionsticky": st.booleans(),
        "epoch": st.integers(1, 3),
    },
)
RESOURCE = st.fixed_dictionaries(
    {}, optional={**COMMON, "versionid": IDS, "meta": META, "versions": st.dictionaries(IDS, VERSION, max_size=3)}
)
XREF = st.fixed_dictionaries({"meta": st.fixed_dictionaries({"xref": IDS.map("/dirs/a/files/{}".format)})})
GROUP = st.fixed_dictionaries({}, optional={**COMMON, "files": st.dictionaries(IDS, RESOURCE | XREF, max_size=3)})
REGISTRY = st.fixed_dictionaries({}, optional={**COMMON, "dirs": st.dictionaries(IDS, GROUP, max_size=2)})


def command(method: str, path: str, body: Any) -> Command:
    return Command(method=Method(method), target=Xid.parse(path), body=body)


def commands(*methods: str) -> st.SearchStrategy[Command]:
    """Writes to every level, most of them good."""
    method = st.sampled_from(methods)
    path = st.builds("/dirs/{}/files/{}".format, IDS, IDS)
    return st.one_of(
        st.builds(command, method, st.just("/"), REGISTRY),
        st.builds(command, method, IDS.map("/dirs/{}".format), GROUP),
        st.builds(command, method, path, RESOURCE | XREF),
        st.builds(command, method, path.map("{}/meta".format), META),
        st.builds(command, method, st.builds("{}/versions/{}".format, path, IDS), VERSION),
    )


WRITES = commands("PUT", "PATCH") | st.builds(
    command, st.just("DELETE"), st.builds("/dirs/{}/files/{}".format, IDS, IDS), st.none()
)
MODES = st.sampled_from(["manual", "createdat", "semver"])
MANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def registry_of_files(store: Store, mode: str, maxversions: int = 0) -> Registry:
    """A registry whose files have this ``versionmode`` and ``maxversions``."""
    registry = Registry(Engine(store, settings=Settings(model="empty")), store)
    kind = {"kind": {"type": "string"}}
    registry.configure("modelsource", model_of(versionmode=mode, maxversions=maxversions, attributes=kind))
    return registry


def takes(registry: Registry, command: Command) -> bool:
    """Return True if the command was accepted."""
    try:
        registry.do(command)
    except RegistryError:
        return False
    return True


def rows_of(registry: Registry) -> dict[Xid, Row]:
    return {row.xid: row for row in registry.everything()}


def export(registry: Registry) -> JSONObject:
    with registry.engine.reading() as view:
        return view.render_entity(ROOT, ViewOptions(inline=EXPORT, doc=True))


def essence(rows: dict[Xid, Row], *, created: bool = True) -> list[tuple[object, ...]]:
    """Return the rows without what every write changes."""
    return sorted(
        (
            str(row.xid),
            row.createdat if created else None,
            sorted(row.attributes.items(), key=lambda item: item[0]),
            (row.defaultversionid, row.defaultversionsticky, str(row.xref), row.ancestorid, row.document),
        )
        for row in rows.values()
    )  # fmt: skip


@MANY
@given(st.lists(WRITES, max_size=3), commands("PUT"), MODES)
def test_put_twice_is_once(fresh_store: FreshStore, before: list[Command], put: Command, mode: str) -> None:
    """Only epoch and modifiedat differ (R142)."""
    with fresh_store() as store:
        registry = registry_of_files(store, mode)
        for write in before:
            takes(registry, write)
        put = copy.deepcopy(put)
        if not takes(registry, put):
            return
        once = rows_of(registry)
        again = Command(method=put.method, target=put.target, body=put.body, flags=Flags(ignore=frozenset({"epoch"})))
        if takes(registry, again):
            assert essence(rows_of(registry)) == essence(once)


@MANY
@given(st.lists(WRITES, max_size=8), MODES, st.integers(0, 2))
def test_a_registry_stays_sound(fresh_store: FreshStore, writes: list[Command], mode: str, maxversions: int) -> None:
    """Epochs only grow, a rejected write changes nothing, and pointers have targets (R22, R34, R93, R225, R239)."""
    with fresh_store() as store:
        registry = registry_of_files(store, mode, maxversions)
        for write in writes:
            before = rows_of(registry)
            accepted = takes(registry, write)
            after = rows_of(registry)
            if not accepted:
                assert after == before
            for xid in before.keys() & after.keys():
                changed = after[xid] != before[xid] and after[xid].key == before[xid].key
                if changed and after[xid].xref is not None:  # R269: hidden, it stays that of the Resource that was
                    assert after[xid].epoch == before[xid].epoch
                else:
                    assert after[xid].epoch > before[xid].epoch if changed else after[xid].epoch >= 1
            check_sound(after, maxversions)


def check_sound(rows: dict[Xid, Row], maxversions: int) -> None:
    for xid, row in rows.items():
        versions = {x.id: r for x, r in rows.items() if x.owner == xid and len(x.parts) == 6}
        if len(xid.parts) == 4 and row.xref is None:
            assert row.defaultversionid in versions
            assert not maxversions or len(versions) <= maxversions
            assert all(version.ancestorid in versions for version in versions.values())
        else:
            assert not versions


@MANY
@given(st.lists(WRITES, min_size=1, max_size=5), MODES)
def test_an_export_imports(fresh_store: FreshStore, writes: list[Command], mode: str) -> None:
    """R276, R277."""
    with fresh_store() as first_store, fresh_store() as two:
        registry, other = registry_of_files(first_store, mode), registry_of_files(two, mode)
        for write in writes:
            takes(registry, write)
        exported = export(registry)
        flags = Flags(ignore=frozenset({"epoch"}))
        assert takes(other, Command(method=Method.PUT, target=ROOT, body=copy.deepcopy(exported), flags=flags))
        assert essence(rows_of(other), created=False) == essence(rows_of(registry), created=False)
        again = export(other)
        for document in (exported, again):
            _strip(document)
        assert again == exported


def _strip(value: Any) -> None:
    """Drop what a copy cannot have: epochs, and the times of what came into being by the import itself."""
    if isinstance(value, dict):
        for name in ("epoch", "modifiedat", "createdat"):
            value.pop(name, None)
        for member in value.values():
            _strip(member)
