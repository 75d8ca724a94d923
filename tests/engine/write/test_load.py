"""A write that loads some Versions of a Resource decides as with all of them; what references name."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import FreshStore
from tests.engine.conftest import Make, Registry, model_of
from tests.examples import examples

from signalbook.engine.engine import Engine
from signalbook.engine.write import decide, load, resources
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method
from signalbook.engine.write.context import Context, Documents, Stored
from signalbook.engine.write.lineage import make_semver_key
from signalbook.engine.write.load import WriteLoader, load_entities
from signalbook.engine.write.references import WriteReferences
from signalbook.engine.write.workingcopies import ResourceCopy, VersionCopy
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.base import Reader, Row
from signalbook.storage.store import ReadTransaction, Store
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Xid, named

F1 = "/dirs/d1/files/f1"
START = datetime(2030, 1, 1, tzinfo=UTC)
IDS = st.sampled_from(["1", "2", "3", "1.0", "v1.2", "1.10", "1.2-a", "1.2-10", "x"])
STAMPS = st.integers(0, 6).map(lambda day: f"2030-01-0{day + 1}T00:00:00Z")


def bodies(**more: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSONObject]:
    optional: dict[str, st.SearchStrategy[JSON]] = {
        "createdat": STAMPS,
        "modifiedat": STAMPS,
        "ancestorid": IDS | st.sampled_from(["request", None]),
        "name": st.sampled_from(["a", "b"]),
    }
    return st.fixed_dictionaries({}, optional=optional | more)


METAS = st.fixed_dictionaries({}, optional={"defaultversionid": IDS | st.none(), "defaultversionsticky": st.booleans()})
FLAGS: st.SearchStrategy[dict[str, Any]] = (
    st.just({})
    | IDS.map(lambda versionid: {"setdefaultversionid": versionid})
    | st.just({"setdefaultversionid": "null"})
)
STEPS = st.one_of(
    st.tuples(st.just("POST"), st.just(F1), bodies(versionid=IDS), FLAGS),
    st.tuples(st.just("POST"), st.just(F1), bodies(), st.just({"setdefaultversionid": "request"})),
    st.tuples(st.sampled_from(["PUT", "PATCH"]), IDS.map(f"{F1}/versions/{{}}".format), bodies(), FLAGS),
    st.tuples(st.sampled_from(["PUT", "PATCH"]), st.just(F1), bodies(meta=METAS), FLAGS),
    st.tuples(st.sampled_from(["PUT", "PATCH"]), st.just(f"{F1}/meta"), METAS, st.just({})),
    st.tuples(st.just("DELETE"), IDS.map(f"{F1}/versions/{{}}".format), st.none(), FLAGS),
    st.tuples(st.just("POST"), st.just(f"{F1}/versions"), st.dictionaries(IDS, bodies(), max_size=3), FLAGS),
    st.tuples(st.just("DELETE"), st.just(f"{F1}/versions"), st.dictionaries(IDS, st.just({}), max_size=2), FLAGS),
)
Step = tuple[str, str, JSON, dict[str, Any]]


class Twin:
    """A registry in which time is what the test says; of a Resource with up to ``few`` Versions it loads all."""

    def __init__(self, store: Store, few: int, **resource: JSON) -> None:
        self._few = few
        self.store = store
        self.engine = Engine(self.store, settings=Settings(model="empty"))
        with self.engine.writing() as session:
            session.execute(ConfigCommand(name="modelsource", method=Method.PUT, body=model_of(**resource)))

    def take(self, step: Step, group: str, now: datetime) -> object:
        """Do one step in ``group``; what came of it."""
        method, path, body, flags = step
        target = Xid.parse(path.replace("/d1/", f"/{group}/"))
        command = Command(method=Method(method), target=target, body=body, flags=Flags(**flags))
        try:
            with few(self._few), self.engine.writing() as session:
                session.now = now
                return session.execute(command)
        except RegistryError as error:
            return error.code, error.subject

    def state(self, group: str) -> list[Row]:
        """Every row of ``group``."""
        with self.store.read() as reader:
            top = reader.entities.get(Xid(("dirs", group)))
            return list(_tree(reader.entities, [top])) if top else []


def _tree(reader: Reader, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield each of ``rows`` followed by its descendants."""
    for row in rows:
        yield row
        yield from _tree(reader, reader.children([row.key]))


@contextmanager
def few(number: int) -> Iterator[None]:
    usual, load.MAX_WHOLE_VERSIONS = load.MAX_WHOLE_VERSIONS, number  # type: ignore[misc]
    try:
        yield
    finally:
        load.MAX_WHOLE_VERSIONS = usual  # type: ignore[misc]


TIMES = [pytest.param(mode, marks=pytest.mark.merge) for mode in ("createdat", "modifiedat")]


@pytest.fixture(scope="module", params=["manual", "semver", *TIMES])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[{}, {"maxversions": 4}, {"singleversionroot": True}], ids=str)
def twins(mode: str, request: pytest.FixtureRequest, fresh_store: FreshStore) -> Iterator[tuple[Twin, Twin]]:
    """Yield one registry that loads as little as possible, and one that loads everything."""
    more = {"versionmode": mode, "hasdocument": False, **request.param}
    with fresh_store() as first_store, fresh_store() as two:
        yield Twin(first_store, 0, **more), Twin(two, 1 << 60, **more)


GROUPS = count(1)


@given(steps=st.lists(STEPS, max_size=14))
@settings(max_examples=examples(40), deadline=None)
def test_partial_loading_decides_like_full_loading(twins: tuple[Twin, Twin], steps: list[Step]) -> None:
    """R93, R173, R209, R225-R243, whatever the history."""
    group = f"g{next(GROUPS)}"
    for day, step in enumerate(steps):
        now = START + timedelta(days=day, hours=12)
        assert twins[0].take(step, group, now) == twins[1].take(step, group, now)
        assert twins[0].state(group) == twins[1].state(group)


def test_write_loads_few_of_many_versions(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    settle = resources.settle_resource

    def watched(resource: ResourceCopy, *arguments: Any) -> bool:
        loaded.append(len(resource.versions))
        return settle(resource, *arguments)

    registry = make()
    registry.put(F1, {"versions": {f"v{number:03}": {} for number in range(1, 101)}})
    monkeypatch.setattr(decide, "settle_resource", watched)
    for method, path, body in [
        ("POST", F1, {}),
        ("PUT", f"{F1}/versions/v050", {"name": "x"}),
        ("PATCH", F1, {"name": "y"}),
        ("DELETE", f"{F1}/versions/v020", None),
    ]:
        registry.send(method, path, body)
    assert max(loaded) <= 6
    assert registry.row(F1).defaultversionid == "1"
    assert registry.ancestors()["v021"] == "v021"


def test_versions_are_found_while_others_are_looked_at(make: Make) -> None:
    """A schema that refers to another Version of itself does this."""
    registry = make()
    registry.put(F1, {"versions": {f"v{number:03}": {} for number in range(1, 101)}})
    with registry.store.read() as reader:
        copy = ResourceCopy.from_row(registry.row(F1))
        copy.stored_count = 100
        context = context_of(registry, reader)
        context.stored.written = {copy.xid: copy}

        def version(name: str) -> VersionCopy | None:
            return asked(context, partial(context.stored.find_version, copy.xid / "versions" / name))

        copy.add([row] if (row := version("v001")) else [])
        further_versions = [version(name) for name in ("v001", "v002", "v009", "none")]
    assert [other and other.id for other in further_versions] == ["v001", "v002", "v009", None]
    assert list(copy.versions) == ["v001"], "looking at others changes nothing"


VERSIONS = st.from_regex(r"v?[0-9]{1,3}(\.[0-9]{1,2}(\.[0-9])?)?(-[0-9a-zA-Z.-]{1,6})?(\+[a-z]+)?", fullmatch=True)


def precedence(versionid: str) -> tuple[object, ...]:
    """Semantic Versioning 2.0, section 11, as tuples."""
    release, _, prerelease = versionid.removeprefix("v").partition("+")[0].partition("-")
    numbers = [int(number) for number in release.split(".")]
    parts = [part for part in prerelease.split(".") if part]
    identifiers = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return (*numbers, *[0] * (3 - len(numbers)), not identifiers, identifiers)


@given(first=VERSIONS, other=VERSIONS)
def test_ranks_sort_as_semantic_versions_do(first: str, other: str) -> None:
    """The key sorts versions like Semantic Versioning (R238)."""
    assert (make_semver_key(first) < make_semver_key(other)) == (precedence(first) < precedence(other))
    assert "" == make_semver_key("draft") < make_semver_key(first)


BASE = "https://r.example/registry"
FROM = Xid.parse("/schemagroups/g/schemas/s")
Found = TypeVar("Found")


def context_of(registry: Registry, reader: ReadTransaction) -> Context:
    with registry.engine.reading() as view:
        model, capabilities = view.model, view.capabilities
    loader = WriteLoader(reader.entities, reader.index, Stored(BASE), Documents())
    return Context(
        model=model,
        capabilities=capabilities,
        flags=Flags(),
        target=ROOT,
        now=START,
        loader=loader,
    )


def asked(context: Context, question: Callable[[], Found]) -> Found:
    """The answer to ``question``, once all it looks at is loaded."""
    while True:
        answer, missing = question(), context.take_missing(contents=True)
        if missing is None:
            return answer
        context.loader.load(missing)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (F1, F1),
        (F1.removeprefix("/"), F1),
        (f"#{F1}", F1),
        (f"{F1}#/definitions/x", F1),
        (f"{F1}/versions/v1", f"{F1}/versions/v1"),
        (f"{BASE}{F1}", F1),
        (f"{BASE}{F1}$details", F1),
        (f"{BASE}{F1.replace('f1', 'f%40')}", F1.replace("f1", "f@")),
        (f"https://other.example{F1}", None),
        (f"//r.example{F1}", None),
        (f"{BASE}.evil.example{F1}", None),
        ("file:///etc/passwd", None),
        ("/dirs/d1/files/../f1", None),
        ("/dirs/d1", None),
        ("#/definitions/x", None),
        ("", None),
    ],
)
def test_references_are_resolved_to_xids(uri: str, expected: str | None) -> None:
    """The xid is never outside of this registry (G-16)."""
    assert named(uri, BASE) == (None if expected is None else Xid.parse(expected))


def resolve_text(context: Context, uri: str) -> bytes | None:
    document = WriteReferences(FROM, context, []).resolve(uri)
    return None if document is None else document.text


def test_references_resolve_to_documents(registry: Registry) -> None:
    """The document is that of the default Version, of a Version, of the target of an xref, or none (G-16)."""
    registry.put(F1, {"versions": {"v1": {"file": {"a": 1}}, "v2": {"file": {"a": 2}}}})
    registry.put("/dirs/d1/files/f2", {"meta": {"xref": F1}})
    with registry.store.read() as reader:
        context = context_of(registry, reader)
        resolve = partial(resolve_text, context)
        assert resolve(F1) == resolve("/dirs/d1/files/f2") == b'{"a":2}'
        assert resolve(f"{F1}/versions/v1") == b'{"a":1}'
        assert resolve("/dirs/d1/files/f3") is None
        assert resolve(f"{F1}/versions/v3") is None


def test_entities_being_written_take_precedence(registry: Registry) -> None:
    registry.put(F1, {"file": {"a": 1}})
    with registry.store.read() as reader:
        context = context_of(registry, reader)
        tree = load_entities(reader.entities, [], [Xid.parse(F1)])
        context.stored.written = tree.resources
        tree.resources[Xid.parse(F1)].versions["1"].document = context.documents.keep(b"new")
        assert resolve_text(context, F1) == b"new"
        tree.resources[Xid.parse(F1)].versions.clear()
        assert resolve_text(context, F1) is None
        assert context.take_missing() is None
